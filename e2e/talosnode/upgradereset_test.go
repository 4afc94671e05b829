package talosnode_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/client"
	"github.com/siderolabs/talos/pkg/machinery/config/generate"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/talos-provision/provision/e2e/talosnode"
)

// upgradedInto writes v1.14.1, resets, and waits until the node is gone.
func upgradedInto(t *testing.T, m member) {
	t.Helper()
	if code, said := lifecycle(t, m.admin, imageOf("v1.14.1")); code != 0 {
		t.Fatal(code, said)
	}
	if err := m.admin.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestANodeHangsInTheResetAfterItsUpgrade(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		faults  talosnode.Faults
		returns bool
	}{
		"until its power is cycled": {talosnode.Faults{UpgradeHangs: true}, true},
		"for good":                  {talosnode.Faults{UpgradeNeverReturns: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan bool, 1)
			m := ready(t, talosnode.Config{Faults: tt.faults, Reboot: func() { asked <- true }})
			upgradedInto(t, m)
			address := m.node.Addr().String()
			eventuallyRefused(t, address)
			m.node.Stop()
			select {
			case <-asked:
				t.Error("a machine that hangs asked for its reset")
			default:
			}
			again := start(t, talosnode.Config{Address: address, Disk: m.disk, FromDisk: true, UUID: "r", Faults: tt.faults})
			if open := isOpen(t.Context(), again.Addr().String()); open != tt.returns {
				t.Errorf("after a power cycle the port is open: %t", open)
			}
		})
	}
}

func maintenanceClient(t *testing.T, node *talosnode.Node) *client.Client {
	t.Helper()
	c, err := client.New(t.Context(), client.WithTLSConfig(insecure()), client.WithEndpoints(node.Addr().String()),
		client.WithGRPCDialOptions(grpc.WithNoProxy(), fastDial()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// readyWith is ready with a PKI and disk of the caller.
func readyWith(t *testing.T, pki clusterPKI, version string, cfg talosnode.Config) member {
	t.Helper()
	cfg.Disk, cfg.FromDisk, cfg.UUID = configuredDisk(pki.config(t, controlPlane)), true, "w"
	if err := cfg.Disk.Update(func(s *talosnode.DiskState) { s.Version = version }); err != nil {
		t.Fatal(err)
	}
	m := member{node: booted(t, cfg), disk: cfg.Disk}
	m.admin = pki.admin(t, m.node)
	if err := bootstrap(t.Context(), m.admin); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ready", runs(m.admin, true))
	return m
}

func inMaintenance(c *client.Client) func(context.Context) bool {
	return func(ctx context.Context) bool {
		status, err := machineStatus(ctx, c)
		return err == nil && status.Stage == runtime.MachineStageMaintenance
	}
}

func TestANodeIsInMaintenanceAgainAfterItsUpgrade(t *testing.T) {
	t.Parallel()
	m := ready(t, talosnode.Config{Faults: talosnode.Faults{UpgradeLosesConfig: true}})
	upgradedInto(t, m)
	eventually(t, "it is in maintenance", inMaintenance(maintenanceClient(t, m.node)))
}

// A version that refuses the config which the node has comes up without it.
func TestExtraArgsWithGrubUseUKICmdlineLeaveANodeInMaintenance(t *testing.T) {
	t.Parallel()
	pki := newPKI(t, generate.WithInstallExtraKernelArgs([]string{"mitigations=off"}))
	provider, err := pki.input.Config(controlPlane)
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	provider, err = provider.PatchV1Alpha1(func(c *v1alpha1.Config) error {
		c.MachineConfig.MachineInstall.InstallGrubUseUKICmdline = &yes
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	config, err := provider.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for version, refuses := range map[string]bool{"v1.12.12": false, "v1.13.3": false, "v1.13.4": true, "v1.14.0": true} {
		disk := configuredDisk(config)
		if err := disk.Update(func(s *talosnode.DiskState) { s.Version = version }); err != nil {
			t.Fatal(err)
		}
		node := start(t, talosnode.Config{Disk: disk, FromDisk: true, UUID: version})
		got, err := machineStatus(t.Context(), maintenanceClient(t, node))
		if maintenance := err == nil && got.Stage == runtime.MachineStageMaintenance; maintenance != refuses {
			t.Errorf("%s: in maintenance: %t (%v)", version, maintenance, err)
		}
	}
}

// siderolabs/talos#14242: who waits on a connection from before hears nothing;
// a new one is answered.
func TestIssue14242ConnectionsStayHalfOpenAfterAKexec(t *testing.T) {
	t.Parallel()
	pki := newPKI(t)
	m := readyWith(t, pki, "v1.13.9", talosnode.Config{Faults: talosnode.Faults{HalfOpen: true}})
	before := mustBootID(t, m)
	watch, err := m.admin.MachineClient.Events(t.Context(), &machine.EventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := watch.Recv(); err != nil {
				ended <- err
				return
			}
		}
	}()
	rebooting, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := m.admin.Reboot(rebooting); err != nil {
		t.Fatalf("the answer to the call itself: %v", err)
	}
	eventually(t, "a new connection sees another boot", func(ctx context.Context) bool {
		c, err := client.New(ctx, client.WithConfig(pki.talosconfig(t)), client.WithEndpoints(m.node.Addr().String()),
			client.WithGRPCDialOptions(grpc.WithNoProxy()))
		if err != nil {
			return false
		}
		defer func() { _ = c.Close() }()
		id, err := bootID(ctx, c)
		return err == nil && id != before
	})
	select {
	case err := <-ended:
		t.Errorf("the connection from before has ended: %v", err)
	default:
	}
	stale, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := bootID(stale, m.admin); answerOf(err).Code != codes.DeadlineExceeded {
		t.Errorf("the connection from before answers: %v", err)
	}
}

func TestASecondSequenceIsNotStarted(t *testing.T) {
	t.Parallel()
	m := ready(t, talosnode.Config{InstallTime: time.Hour})
	order := func() string {
		answer, err := m.admin.MachineClient.Upgrade(t.Context(), &machine.UpgradeRequest{Image: newImage}) //nolint:staticcheck // the older call
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetMessages()[0].GetActorId()
	}
	order()
	second := order()
	stream, err := m.admin.MachineClient.Events(t.Context(), &machine.EventsRequest{TailEvents: -1, WithActorId: second})
	if err != nil {
		t.Fatal(err)
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		var sequence machine.SequenceEvent
		if event.GetData() == nil || sequence.UnmarshalVT(event.GetData().GetValue()) != nil {
			continue
		}
		if diff := cmp.Diff("sequence not started: locked", sequence.GetError().GetMessage()); diff != "" {
			t.Errorf("second order (-want +got):\n%s", diff)
		}
		return
	}
}
