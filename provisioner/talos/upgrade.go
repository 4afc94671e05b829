package talos

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// UpgradeAPI is the call by which a node is upgraded.
type UpgradeAPI string

// The calls.
const (
	// Lifecycle is LifecycleService.Upgrade of Talos 1.13 and later: it writes the boot assets
	// while the node works on, and nothing more. It looks neither at etcd nor at Kubernetes, and
	// the node must be rebooted after it.
	Lifecycle UpgradeAPI = "lifecycle"
	// Legacy is MachineService.Upgrade: the node takes the order, and then drains itself,
	// installs and reboots. It is deprecated from Talos 1.13 on.
	Legacy UpgradeAPI = "legacy"
)

// defaultUpgradeTimeout is for the pull and the installer.
const defaultUpgradeTimeout = 15 * time.Minute

// UpgradeRequest says to what and how a node is upgraded.
type UpgradeRequest struct {
	// Image is the installer's, e.g. "factory.talos.dev/metal-installer/<schematic>:v1.13.9".
	Image string
	// API is the call; empty chooses it: Legacy up to Talos 1.12, for what only it can do, and
	// where Lifecycle would drop kernel arguments; Lifecycle otherwise, and Legacy again if
	// the node does not have it.
	API UpgradeAPI
	// Stage, with Legacy only: the installer runs during the next boot. The reboot follows at
	// once all the same (siderolabs/talos#6150).
	Stage bool
	// Force, with Legacy only: without the node's own look at etcd.
	Force bool
	// Preserve, with Legacy only, keeps the data of etcd; Talos 1.8 and later always do.
	Preserve bool
	// Mode, with Legacy only, is how the node reboots; there is no RebootForce.
	Mode RebootMode
	// Line, which may be nil, gets each line of the installer with Lifecycle.
	Line func(string)
	// Timeout bounds the whole call; 0 means 15 min. A connection that a reboot left half open
	// is not waited for longer than that (siderolabs/talos#14242).
	Timeout time.Duration
}

// UpgradeResult is what the node told. It is of use also together with an error.
type UpgradeResult struct {
	// API is the call that was made, Reason why it was chosen.
	API    UpgradeAPI
	Reason string
	// Exited and ExitCode are how the installer ended, with Lifecycle.
	Exited   bool
	ExitCode int32
	// Lines are the last lines of the installer, without what the machine config keeps secret.
	Lines []string
	// Ack and ActorID are the node's answer, with Legacy; its events bear the ActorID.
	Ack, ActorID string
}

// Upgrade upgrades a node by one call. With Lifecycle it returns when the
// installer has ended, and an exit code that is missing or not 0 is an
// ErrInstallerFailed; with Legacy when the node has taken the order. Whether the
// node then runs the new version shows after its reboot only: see Running.
//
// Beside those of Admin the errors are ErrImageNotFound, ErrUpgradeInProgress,
// ErrNotInstalled, ErrEtcdRefuses, and ErrNotSupported when the node does not
// have the call that was asked for; after all of them the node runs what it ran.
// After an ErrOutcomeUnknown it may have acted: look at it before asking again.
func (a Admin) Upgrade(ctx context.Context, host string, request UpgradeRequest) (UpgradeResult, error) {
	var result UpgradeResult
	if err := request.check(); err != nil {
		return result, fmt.Errorf("upgrading %s: %w", host, err)
	}
	timeout := request.Timeout
	if timeout <= 0 {
		timeout = defaultUpgradeTimeout
	}
	err := a.changeWithin(ctx, timeout, host, func(ctx context.Context, c *session) (err error) {
		result.API, result.Reason, err = request.choose(ctx, c, host)
		if err != nil {
			return err
		}
		if result.API == Lifecycle {
			err = upgradeLifecycle(ctx, c, host, request, &result)
			if request.API != "" || !errors.Is(err, ErrNotSupported) {
				return err
			}
			result.API, result.Reason = Legacy, "the node does not have the newer call"
		}
		return upgradeLegacy(ctx, c, host, request, &result)
	})
	return result, err
}

// legacyOnly are the options that Lifecycle does not have.
func (r UpgradeRequest) legacyOnly() bool {
	return r.Stage || r.Force || r.Preserve || r.Mode != RebootDefault
}

func (r UpgradeRequest) check() error {
	switch {
	case r.Image == "":
		return errors.New("no image is given; name the installer's")
	case r.API != "" && r.API != Lifecycle && r.API != Legacy:
		return fmt.Errorf("there is no call %q; use %q, %q or leave it empty", r.API, Lifecycle, Legacy)
	case r.API == Lifecycle && r.legacyOnly():
		return fmt.Errorf("stage, force, preserve and a way to reboot are not for %q; reboot the node after it instead", Lifecycle)
	case r.Mode == RebootForce:
		return errors.New("an upgrade cannot reboot by force; take another way to reboot")
	}
	return nil
}

// choose chooses the call by what the node says over this connection.
func (r UpgradeRequest) choose(ctx context.Context, c *session, host string) (UpgradeAPI, string, error) {
	switch {
	case r.API != "":
		return r.API, "it was asked for", nil
	case r.legacyOnly():
		return Legacy, "the newer call cannot do what is asked for", nil
	}
	version, err := readVersion(ctx, c)
	if err != nil {
		return "", "", callError(ctx, "reading the version", host, err)
	}
	// A version that is not known here is newer, or tells by Unimplemented.
	if can, err := CapabilitiesOf(version); err == nil && !can.Lifecycle {
		return Legacy, "Talos " + version + " has no other call", nil
	}
	switch dropped, known, err := droppedArgs(ctx, c, host); {
	case err != nil:
		return "", "", err
	case !known:
		return Legacy, "whether the newer call would drop kernel arguments cannot be read with this talosconfig", nil
	case len(dropped) > 0:
		return Legacy, "the newer call would drop machine.install.extraKernelArgs (siderolabs/talos#13967)", nil
	}
	return Lifecycle, "Talos " + version + " has it", nil
}
