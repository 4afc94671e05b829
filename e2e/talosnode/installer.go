package talosnode

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// upgradeFallback is the tag of META that names the boot slot to return to.
const upgradeFallback = 6

// oldestHosts are, by minor version of Talos 1, the oldest minor version that its
// installer replaces; it goes back from one minor version above its own.
var oldestHosts = map[int]int{8: 5, 9: 8, 10: 8, 11: 9, 12: 10, 13: 11, 14: 12}

// preflight is what the installer refuses before it writes anything, in its own
// words (Talos: cmd/installer/pkg/install/preflight.go).
func preflight(installer, host string) error {
	target, err := minorOf(installer)
	if err != nil {
		return err
	}
	from, err := minorOf(host)
	if err != nil {
		return err
	}
	oldest, known := oldestHosts[target]
	installer, host = strings.TrimPrefix(installer, "v"), strings.TrimPrefix(host, "v")
	switch {
	case !known:
		return fmt.Errorf("pre-flight checks failed: upgrades to version %s are not supported", installer)
	case from < oldest:
		return fmt.Errorf("pre-flight checks failed: host version %s is too old to upgrade to Talos %s", host, installer)
	case from >= target+2:
		return fmt.Errorf("pre-flight checks failed: host version %s is too new to downgrade to Talos %s", host, installer)
	}
	return nil
}

// runInstaller is what the installer image does during an upgrade: it writes the
// other boot slot, with extra for GRUB's command line. What it says ends in why it fails.
func (s *system) runInstaller(ctx context.Context, image string, extra []string, say func(string) error) (code int32, err error) {
	version, schematic := installerImage(image, s.version, s.schematic)
	for _, line := range []string{"running pre-flight checks", "host Talos version: " + s.version} {
		if err := say(line + "\n"); err != nil {
			return 0, err
		}
	}
	if refused := preflight(version, s.version); refused != nil {
		return 1, say(refused.Error() + "\n")
	}
	if err := say("all pre-flight checks successful\n"); err != nil {
		return 0, err
	}
	if err := sleep(ctx, s.node.cfg.InstallTime); err != nil {
		return 0, err
	}
	if code := s.node.cfg.Faults.UpgradeExitCode; code != 0 {
		return code, say("Error: failed to install: no space left on device\n")
	}
	err = s.node.cfg.Disk.Update(func(d *DiskState) {
		d.PreviousVersion, d.PreviousSchematic = s.version, s.schematic
		d.Version, d.Schematic, d.Unproven = version, schematic, true
		d.Cmdline = installedCmdline(version, extra)
		setMeta(d, upgradeFallback, s.slot())
	})
	if err != nil {
		return 0, status.Errorf(codes.Internal, "upgrade failed: %v", err)
	}
	s.refreshMeta()
	return 0, say(fmt.Sprintf("installation of %s complete\n", version))
}

// extraArgs are the kernel arguments of machine.install. They count with GRUB
// only: an image of systemd-boot has a command line of its own.
func (s *system) extraArgs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.node.cfg.GRUB || s.config == nil {
		return nil
	}
	return s.config.Machine().Install().ExtraKernelArgs()
}

// registryHas is the answer of a registry to a pull: an error where it has no
// such image, as for a tag that is no published version.
func (s *system) registryHas(image string) error {
	_, tag, tagged := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	_, err := minorOf(tag)
	published := !tagged || err == nil && (len(s.node.cfg.Releases) == 0 || slices.Contains(s.node.cfg.Releases, tag))
	if published && !s.node.cfg.Faults.PullFails {
		return nil
	}
	return fmt.Errorf("failed to pull image %[1]q: failed to resolve reference %[1]q: %[1]s: not found", image)
}

// refusesConfig tells whether this version comes up without the config that is on
// the disk: from 1.13.4 on it takes no extraKernelArgs together with grubUseUKICmdline.
func (s *system) refusesConfig() bool {
	if s.config == nil {
		return false
	}
	minor, err := minorOf(s.version)
	patch, _ := strconv.Atoi(strings.TrimLeft(s.version[strings.LastIndex(s.version, ".")+1:], "v"))
	install := s.config.Machine().Install()
	return err == nil && (minor > 13 || minor == 13 && patch >= 4) && len(install.ExtraKernelArgs()) > 0 && install.GrubUseUKICmdline()
}
