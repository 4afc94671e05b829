package talos

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/siderolabs/talos/pkg/machinery/resources/config"
	"github.com/siderolabs/talos/pkg/machinery/resources/k8s"
	"github.com/siderolabs/talos/pkg/machinery/resources/network"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
)

// bootIDPath holds an ID that the kernel makes anew with each boot.
const bootIDPath = "/proc/sys/kernel/random/boot_id"

// longestBootID is more than a UUID with its newline, in bytes.
const longestBootID = 128

// Inspect asks a node for all that is known about it, over one connection. It
// works with Talos 1.9 to 1.14: what a version does not have stays empty and is
// no error.
func (a Admin) Inspect(ctx context.Context, host string) Running {
	r := Running{Host: host}
	r.Err = a.call(ctx, host, func(ctx context.Context, c *session) error {
		r.State = Configured
		return r.read(ctx, c)
	})
	switch {
	case errors.Is(r.Err, ErrInMaintenance):
		r.State, r.WrongPKI = Maintenance, true
	case errors.Is(r.Err, ErrWrongPKI):
		r.State, r.WrongPKI = Configured, true
	case errors.Is(r.Err, ErrAccessExpired), errors.As(r.Err, new(*tls.CertificateVerificationError)):
		r.State = Configured
	}
	return r
}

// read fills in what the node tells; the error says what it did not.
func (r *Running) read(ctx context.Context, c *session) error {
	if err := r.readStatus(ctx, c); err != nil {
		return callError(ctx, "reading the machine status", r.Host, err)
	}
	r.Reached = true
	var failed []error
	for _, part := range []func(context.Context, *session) error{
		func(ctx context.Context, c *session) (err error) { r.Version, err = readVersion(ctx, c); return err },
		func(ctx context.Context, c *session) (err error) { r.Cmdline, err = readCmdline(ctx, c); return err },
		func(ctx context.Context, c *session) (err error) {
			r.SystemDisk, err = readSystemDisk(ctx, c)
			return err
		},
		func(ctx context.Context, c *session) error { return readSystem(ctx, c, &r.Facts) },
		func(ctx context.Context, c *session) error { return readLinks(ctx, c, &r.Facts) },
		r.readHostname, r.readSchematic, r.readRole, r.readBootID, r.readKubernetes, r.readEtcd,
	} {
		if err := part(ctx, c); err != nil {
			failed = append(failed, err)
		}
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("%s does not tell all about itself; look again: %w", r.Host, err)
	}
	return nil
}

func (r *Running) readStatus(ctx context.Context, c *session) error {
	machine, err := safe.StateGetByID[*runtime.MachineStatus](ctx, c.COSI, runtime.MachineStatusID)
	if err != nil {
		return err
	}
	spec := machine.TypedSpec()
	r.Stage, r.Ready = spec.Stage.String(), spec.Status.Ready
	for _, unmet := range spec.Status.UnmetConditions {
		r.Unmet = append(r.Unmet, unmet.Name+": "+unmet.Reason)
	}
	return nil
}

func (r *Running) readHostname(ctx context.Context, c *session) error {
	status, err := safe.StateGetByID[*network.HostnameStatus](ctx, c.COSI, network.HostnameID)
	if err != nil {
		return unlessAbsent("the host name", err)
	}
	r.Hostname = status.TypedSpec().Hostname
	return nil
}

// readSchematic finds the extension that the Image Factory adds to each image
// to name its schematic; an image made otherwise has none.
func (r *Running) readSchematic(ctx context.Context, c *session) error {
	list, err := safe.StateListAll[*runtime.ExtensionStatus](ctx, c.COSI)
	if err != nil {
		return unlessAbsent("the extensions", err)
	}
	for extension := range list.All() {
		if m := extension.TypedSpec().Metadata; m.Name == "schematic" {
			r.Schematic = m.Version
		}
	}
	return nil
}

func (r *Running) readRole(ctx context.Context, c *session) error {
	machine, err := safe.StateGetByID[*config.MachineType](ctx, c.COSI, config.MachineTypeID)
	if err != nil {
		return unlessAbsent("the machine type", err)
	}
	r.Role = machine.MachineType().String()
	return nil
}

func (r *Running) readBootID(ctx context.Context, c *session) error {
	file, err := c.Read(ctx, bootIDPath)
	if err != nil {
		return unlessAbsent("the boot ID", err)
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, longestBootID))
	if err != nil {
		return unlessAbsent("the boot ID", err)
	}
	r.BootID = strings.TrimSpace(string(data))
	return nil
}

func (r *Running) readKubernetes(ctx context.Context, c *session) error {
	name, err := safe.StateGetByID[*k8s.Nodename](ctx, c.COSI, k8s.NodenameID)
	if err != nil {
		return unlessAbsent("the Kubernetes node's name", err)
	}
	r.Kubernetes.Name = name.TypedSpec().Nodename
	status, err := safe.StateGetByID[*k8s.NodeStatus](ctx, c.COSI, r.Kubernetes.Name)
	if err != nil {
		return unlessAbsent("the Kubernetes node's status", err)
	}
	r.Kubernetes.Registered = true
	r.Kubernetes.Ready = status.TypedSpec().NodeReady
	r.Kubernetes.Unschedulable = status.TypedSpec().Unschedulable
	return nil
}

func (r *Running) readEtcd(ctx context.Context, c *session) error {
	services, err := readServices(ctx, c)
	if err != nil {
		return unlessAbsent("the services", err)
	}
	r.Etcd = etcdOf(services)
	return nil
}
