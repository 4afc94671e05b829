package talos

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/siderolabs/talos/pkg/machinery/nethelpers"
	"github.com/siderolabs/talos/pkg/machinery/resources/hardware"
	"github.com/siderolabs/talos/pkg/machinery/resources/network"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/talos-provision/provision/inventory/identity"
)

// read fills the observation with what the maintenance API tells. The error
// says what could not be read; what could be is filled in all the same.
func read(ctx context.Context, c *session, o *Observation) error {
	if err := readStatus(ctx, c, o); err != nil {
		// Without an answer to the first call the others would only wait as well.
		return fmt.Errorf("%s is in maintenance mode but does not tell its status; it is starting or going down, look again: %w", o.Host, err)
	}
	var err [4]error
	o.Version, err[0] = readVersion(ctx, c)
	err[1] = readSystem(ctx, c, &o.Facts)
	err[2] = readLinks(ctx, c, &o.Facts)
	o.Cmdline, err[3] = readCmdline(ctx, c)
	if err := errors.Join(err[:]...); err != nil {
		return fmt.Errorf("%s is in maintenance mode but does not tell all about itself; look again: %w", o.Host, err)
	}
	return nil
}

func readStatus(ctx context.Context, c *session, o *Observation) error {
	r, err := safe.StateGetByID[*runtime.MachineStatus](ctx, c.COSI, runtime.MachineStatusID)
	if err != nil {
		return fmt.Errorf("reading the machine status: %w", err)
	}
	o.Stage = r.TypedSpec().Stage.String()
	o.Ready = r.TypedSpec().Status.Ready
	return nil
}

// readVersion asks first what 1.13 and later answer, then what 1.10 to 1.12
// answer in maintenance mode. Talos 1.9 has neither: the version stays empty.
func readVersion(ctx context.Context, c *session) (string, error) {
	if answer, err := c.Version(ctx); err == nil && len(answer.GetMessages()) > 0 {
		return answer.GetMessages()[0].GetVersion().GetTag(), nil
	}
	r, err := safe.StateGetByID[*runtime.Version](ctx, c.COSI, runtime.NewVersion().Metadata().ID())
	if err != nil {
		return "", unlessAbsent("the version", err)
	}
	return r.TypedSpec().Version, nil
}

func readSystem(ctx context.Context, c *session, facts *identity.Facts) error {
	r, err := safe.StateGetByID[*hardware.SystemInformation](ctx, c.COSI, hardware.SystemInformationID)
	if err != nil {
		// A machine without SMBIOS tables has no such resource.
		return unlessAbsent("the system information", err)
	}
	facts.Serial = r.TypedSpec().SerialNumber
	facts.UUID = r.TypedSpec().UUID
	return nil
}

func readLinks(ctx context.Context, c *session, facts *identity.Facts) error {
	list, err := safe.StateListAll[*network.LinkStatus](ctx, c.COSI)
	if err != nil {
		return unlessAbsent("the links", err)
	}
	for link := range list.All() {
		spec := link.TypedSpec()
		if !spec.Physical() {
			continue
		}
		// A bond gives its members its own address; the permanent one stays theirs.
		mac := spec.PermanentAddr
		if isZero(mac) {
			mac = spec.HardwareAddr
		}
		if !isZero(mac) {
			facts.MACs = append(facts.MACs, mac.String())
		}
	}
	slices.Sort(facts.MACs)
	return nil
}

func readCmdline(ctx context.Context, c *session) (string, error) {
	r, err := safe.StateGetByID[*runtime.KernelCmdline](ctx, c.COSI, runtime.KernelCmdlineID)
	if err != nil {
		return "", unlessAbsent("the kernel command line", err)
	}
	return r.TypedSpec().Cmdline, nil
}

// unlessAbsent drops the errors of a version that does not have a resource:
// PermissionDenied for an unknown type, not found for an empty one.
func unlessAbsent(what string, err error) error {
	if state.IsNotFoundError(err) {
		return nil
	}
	switch status.Code(err) {
	case codes.NotFound, codes.PermissionDenied, codes.Unimplemented:
		return nil
	default:
		return fmt.Errorf("reading %s: %w", what, err)
	}
}

func isZero(mac nethelpers.HardwareAddr) bool {
	return !slices.ContainsFunc(mac, func(b byte) bool { return b != 0 })
}
