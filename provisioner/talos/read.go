package talos

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/siderolabs/talos/pkg/machinery/client"
	"github.com/siderolabs/talos/pkg/machinery/nethelpers"
	"github.com/siderolabs/talos/pkg/machinery/resources/hardware"
	"github.com/siderolabs/talos/pkg/machinery/resources/network"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// read fills the observation with what the maintenance API tells. The error
// says what could not be read; what could be is filled in all the same.
func read(ctx context.Context, address string, o *Observation) error {
	c, err := connect(ctx, address)
	if err != nil {
		return fmt.Errorf("opening a Talos client for %s: %w", address, err)
	}
	defer func() { _ = c.Close() }()
	if err := readStatus(ctx, c, o); err != nil {
		// Without an answer to the first call the others would only wait as well.
		return fmt.Errorf("%s is in maintenance mode but does not tell its status; it is starting or going down, look again: %w", address, err)
	}
	if err := errors.Join(readVersion(ctx, c, o), readSystem(ctx, c, o), readLinks(ctx, c, o), readCmdline(ctx, c, o)); err != nil {
		return fmt.Errorf("%s is in maintenance mode but does not tell all about itself; look again: %w", address, err)
	}
	return nil
}

// connect makes a machinery client with nothing of its environment: no proxy
// (HTTPS_PROXY would be honoured), no service config from DNS, no long back-off.
func connect(ctx context.Context, address string) (*client.Client, error) {
	return client.New(ctx,
		client.WithTLSConfig(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}),
		client.WithEndpoints(address),
		client.WithGRPCDialOptions(
			grpc.WithNoProxy(),
			grpc.WithDisableServiceConfig(),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
				MinConnectTimeout: time.Second,
			}),
		),
	)
}

func readStatus(ctx context.Context, c *client.Client, o *Observation) error {
	r, err := safe.StateGetByID[*runtime.MachineStatus](ctx, c.COSI, runtime.MachineStatusID)
	if err != nil {
		return fmt.Errorf("reading the machine status: %w", err)
	}
	o.Stage = r.TypedSpec().Stage.String()
	o.Ready = r.TypedSpec().Status.Ready
	return nil
}

// readVersion asks first what 1.13 and later answer, then what 1.10 to 1.12
// answer. Talos 1.9 has neither: the version stays empty.
func readVersion(ctx context.Context, c *client.Client, o *Observation) error {
	if answer, err := c.Version(ctx); err == nil && len(answer.GetMessages()) > 0 {
		o.Version = answer.GetMessages()[0].GetVersion().GetTag()
		return nil
	}
	r, err := safe.StateGetByID[*runtime.Version](ctx, c.COSI, runtime.NewVersion().Metadata().ID())
	if err != nil {
		return unlessAbsent("the version", err)
	}
	o.Version = r.TypedSpec().Version
	return nil
}

func readSystem(ctx context.Context, c *client.Client, o *Observation) error {
	r, err := safe.StateGetByID[*hardware.SystemInformation](ctx, c.COSI, hardware.SystemInformationID)
	if err != nil {
		// A machine without SMBIOS tables has no such resource.
		return unlessAbsent("the system information", err)
	}
	o.Facts.Serial = r.TypedSpec().SerialNumber
	o.Facts.UUID = r.TypedSpec().UUID
	return nil
}

func readLinks(ctx context.Context, c *client.Client, o *Observation) error {
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
			o.Facts.MACs = append(o.Facts.MACs, mac.String())
		}
	}
	slices.Sort(o.Facts.MACs)
	return nil
}

func readCmdline(ctx context.Context, c *client.Client, o *Observation) error {
	r, err := safe.StateGetByID[*runtime.KernelCmdline](ctx, c.COSI, runtime.KernelCmdlineID)
	if err != nil {
		return unlessAbsent("the kernel command line", err)
	}
	o.Cmdline = r.TypedSpec().Cmdline
	return nil
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
