package talosnode

import (
	"fmt"
	"strings"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/imager/quirks"
	"github.com/siderolabs/talos/pkg/machinery/kernel"
)

// installRetry is how long Talos waits before it tries an installation again.
const installRetry = 35 * time.Second

// install follows an accepted config: the port is closed, and nobody is told
// what goes wrong. It reports whether the node goes on, and whether with a reset.
// Only when everything is written does the disk change.
func (n *Node) install(how ending) (goesOn, reset bool) {
	if n.cfg.Disk.State().Installed() {
		// Only STATE was gone: nothing is installed, and the booted version goes on.
		err := n.cfg.Disk.Update(func(s *DiskState) { s.MachineConfig = how.data })
		return err == nil, false
	}
	for {
		err := n.installOnce(how)
		if err == nil {
			return true, true
		}
		n.log.Warn("emulated Talos node fails to install and tries again", "address", n.cfg.Address, "error", err)
		if sleep(n.life, installRetry) != nil {
			return false, false
		}
	}
}

func (n *Node) installOnce(how ending) error {
	if n.cfg.Faults.PullFails {
		return fmt.Errorf("pulling the installer image %q: no such host", how.config.Machine().Install().Image())
	}
	device, err := how.system.installDevice(how.config)
	if err != nil {
		return err
	}
	if err := sleep(n.life, n.cfg.InstallTime); err != nil {
		return err
	}
	version, schematic := installerImage(how.config.Machine().Install().Image(), how.system.version, how.system.schematic)
	if n.cfg.Faults.InstalledVersion != "" {
		version = n.cfg.Faults.InstalledVersion
	}
	return n.cfg.Disk.Update(func(s *DiskState) {
		*s = DiskState{
			Device: device, Version: version, Schematic: schematic, MachineConfig: how.data, Meta: s.Meta,
			Cmdline: installedCmdline(version, how.config.Machine().Install().ExtraKernelArgs()),
		}
	})
}

// installDevice is the disk that the config means: the first that its selector
// matches, or the named one.
func (s *system) installDevice(cfg config.Provider) (string, error) {
	install := cfg.Machine().Install()
	expression, err := install.DiskMatchExpression()
	if err != nil {
		return "", fmt.Errorf("failed to get disk match expression: %w", err)
	}
	if expression != nil {
		matched, err := s.matchDisks(expression)
		if err != nil {
			return "", err
		}
		if len(matched) == 0 {
			return "", fmt.Errorf("no disks matched the expression: %s", expression)
		}
		return matched[0], nil
	}
	for _, d := range s.devices {
		// A config of 1.14 names its disk in a document that is opaque here.
		if install.Disk() == "" && !d.ReadOnly && !d.CDROM || d.answersTo(install.Disk()) {
			return d.Path, nil
		}
	}
	return "", fmt.Errorf("lstat %s: no such file or directory", install.Disk())
}

// installerImage reads version and schematic from the name of an installer
// image such as factory.talos.dev/metal-installer/<schematic>:v1.13.9; what it
// does not say is that of the running system.
func installerImage(image, version, schematic string) (installedVersion, installedSchematic string) {
	image, _, _ = strings.Cut(image, "@")
	slash := strings.LastIndex(image, "/")
	name, tag, tagged := strings.Cut(image[slash+1:], ":")
	if _, err := minorOf(tag); tagged && err == nil {
		version = tag
	}
	switch {
	case len(name) == schematicLength && strings.Trim(name, "0123456789abcdef") == "":
		schematic = name
	case image != "":
		schematic = "" // an installer of no factory has none
	}
	return version, schematic
}

// schematicLength is that of a SHA-256 in hex.
const schematicLength = 64

// installedCmdline is the kernel command line of an installed system.
func installedCmdline(version string, extra []string) string {
	line := append([]string{"talos.platform=metal"}, kernel.DefaultArgs(quirks.New(version))...)
	return strings.Join(append(line, extra...), " ")
}
