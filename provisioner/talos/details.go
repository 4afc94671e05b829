package talos

import (
	"context"
	"errors"
	"fmt"

	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/siderolabs/talos/pkg/machinery/meta"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
)

// Details are how a node was installed and what it booted, as far as an upgrade
// depends on it. What a version does not tell is empty.
type Details struct {
	// SecureBoot: the firmware enforced Secure Boot. It holds only when SecureBootKnown.
	SecureBoot, SecureBootKnown bool
	// BootedWithUKI: a unified kernel image was booted; it brings its own command line.
	BootedWithUKI bool
	// BootedEntry is the entry that systemd-boot booted, e.g. "Talos-v1.13.9.efi"; empty where
	// GRUB or the network booted the node, and before Talos 1.11.
	BootedEntry string
	// UpgradeFallback is the boot entry to return to that the last upgrade left in META. The
	// node drops it once it is Running and ready; as long as it is there, the upgrade has not proven itself.
	UpgradeFallback string
	// Extensions are the installed system extensions; the one named "schematic" has the
	// Image Factory's schematic ID as its version.
	Extensions []Extension
	// ExtraKernelArgs and GrubUseUKICmdline are machine.install of the machine config.
	ExtraKernelArgs   []string
	GrubUseUKICmdline bool
}

// Extension is an installed system extension.
type Extension struct{ Name, Version string }

// DroppedArgs are the kernel arguments that the node would lose with Lifecycle.
// It writes GRUB's command line without machine.install.extraKernelArgs
// (siderolabs/talos#13967). They count nowhere else: systemd-boot boots a unified
// kernel image with a command line of its own, and with grubUseUKICmdline GRUB
// takes that one too.
func (d Details) DroppedArgs() []string {
	if d.GrubUseUKICmdline || d.BootedEntry != "" {
		return nil
	}
	return d.ExtraKernelArgs
}

// Details asks a node how it was installed. It takes a talosconfig with the role
// os:admin, without the error is an ErrNotAuthorized: what stands in
// machine.install decides how the node can be upgraded.
func (a Admin) Details(ctx context.Context, host string) (Details, error) {
	var details Details
	err := a.call(ctx, host, func(ctx context.Context, c *session) (err error) {
		details, err = readDetails(ctx, c, host)
		return err
	})
	return details, err
}

func readDetails(ctx context.Context, c *session, host string) (Details, error) {
	var d Details
	for _, part := range []func(context.Context, *session) error{
		d.readSecurity, d.readBootedEntry, d.readFallback, d.readExtensions,
	} {
		if err := part(ctx, c); err != nil {
			return Details{}, callError(ctx, "reading how it was installed", host, err)
		}
	}
	data, err := readConfig(ctx, c)
	switch {
	case state.IsNotFoundError(err): // there is none: it has no arguments either
	case err != nil:
		return Details{}, callError(ctx, "reading the machine config", host, err)
	}
	install, err := installSectionOf(data)
	if err != nil {
		return Details{}, fmt.Errorf("reading the machine config of %s: %w", host, err)
	}
	d.ExtraKernelArgs, d.GrubUseUKICmdline = install.ExtraKernelArgs, install.GrubUseUKICmdline
	return d, nil
}

func (d *Details) readSecurity(ctx context.Context, c *session) error {
	security, err := safe.StateGetByID[*runtime.SecurityState](ctx, c.COSI, runtime.SecurityStateID)
	if err != nil {
		return unlessAbsent("the security state", err)
	}
	d.SecureBoot, d.SecureBootKnown = security.TypedSpec().SecureBoot, true
	d.BootedWithUKI = security.TypedSpec().BootedWithUKI
	return nil
}

func (d *Details) readBootedEntry(ctx context.Context, c *session) error {
	entry, err := safe.StateGetByID[*runtime.BootedEntry](ctx, c.COSI, runtime.BootedEntryID)
	if err != nil {
		return unlessAbsent("the booted entry", err)
	}
	d.BootedEntry = entry.TypedSpec().BootedEntry
	return nil
}

func (d *Details) readFallback(ctx context.Context, c *session) error {
	key, err := safe.StateGetByID[*runtime.MetaKey](ctx, c.COSI, runtime.MetaKeyTagToID(meta.Upgrade))
	if err != nil {
		return unlessAbsent("the boot entry to return to", err)
	}
	d.UpgradeFallback = key.TypedSpec().Value
	return nil
}

func (d *Details) readExtensions(ctx context.Context, c *session) error {
	list, err := safe.StateListAll[*runtime.ExtensionStatus](ctx, c.COSI)
	if err != nil {
		return unlessAbsent("the extensions", err)
	}
	for extension := range list.All() {
		m := extension.TypedSpec().Metadata
		d.Extensions = append(d.Extensions, Extension{Name: m.Name, Version: m.Version})
	}
	return nil
}

// droppedArgs is DroppedArgs of a node; known is false when the role does not allow to tell.
func droppedArgs(ctx context.Context, c *session, host string) (dropped []string, known bool, err error) {
	details, err := readDetails(ctx, c, host)
	switch {
	case errors.Is(err, ErrNotAuthorized):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	return details.DroppedArgs(), true, nil
}
