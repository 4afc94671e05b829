package talosnode_test

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/client"
	"github.com/siderolabs/talos/pkg/machinery/resources/network"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/talos-provision/provision/e2e/talosnode"
)

func start(t *testing.T, cfg talosnode.Config) *talosnode.Node {
	t.Helper()
	if cfg.Address == "" {
		cfg.Address = "127.0.0.1:0"
	}
	node, err := talosnode.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.Stop)
	return node
}

func dial(t *testing.T, node *talosnode.Node, config *tls.Config) *client.Client {
	t.Helper()
	c, err := client.New(t.Context(), client.WithTLSConfig(config), client.WithEndpoints(node.Addr().String()),
		client.WithGRPCDialOptions(grpc.WithNoProxy()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func insecure() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// answer is a call's status code and the text that goes with it.
type answer struct {
	Code codes.Code
	Text string
}

func answerOf(err error) answer {
	s := status.Convert(err)
	return answer{s.Code(), s.Message()}
}

func TestEachVersionAnswersMaintenanceCallsInItsWay(t *testing.T) {
	t.Parallel()
	const notInMaintenance = "API is not implemented in maintenance mode"
	calls := map[string]func(context.Context, *client.Client) error{
		"Version": func(ctx context.Context, c *client.Client) error {
			_, err := c.MachineClient.Version(ctx, nil)
			return err
		},
		"Reset": func(ctx context.Context, c *client.Client) error {
			_, err := c.MachineClient.Reset(ctx, &machine.ResetRequest{})
			return err
		},
		"Reboot": func(ctx context.Context, c *client.Client) error {
			_, err := c.MachineClient.Reboot(ctx, &machine.RebootRequest{})
			return err
		},
		"EmptyConfig": func(ctx context.Context, c *client.Client) error {
			_, err := c.MachineClient.ApplyConfiguration(ctx, &machine.ApplyConfigurationRequest{})
			return err
		},
		"Disks": func(ctx context.Context, c *client.Client) error {
			_, err := c.StorageClient.Disks(ctx, nil)
			return err
		},
		"LifecycleUpgrade": func(ctx context.Context, c *client.Client) error {
			stream, err := c.LifecycleClient.Upgrade(ctx, &machine.LifecycleServiceUpgradeRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"SensitiveResource": func(ctx context.Context, c *client.Client) error {
			_, err := c.COSI.Get(ctx, resource.NewMetadata(network.NamespaceName, network.LinkSpecType, "eth0", resource.VersionUndefined))
			return err
		},
		"CmdlineResource": func(ctx context.Context, c *client.Client) error {
			_, err := safe.StateGetByID[*runtime.KernelCmdline](ctx, c.COSI, runtime.KernelCmdlineID)
			return err
		},
	}
	old := map[string]answer{
		"Version":           {codes.Unimplemented, notInMaintenance},
		"Reset":             {codes.Unimplemented, notInMaintenance},
		"Reboot":            {codes.Unimplemented, "method Reboot not implemented"},
		"EmptyConfig":       {codes.Unknown, "failed to parse config: config not found"},
		"Disks":             {codes.OK, ""},
		"LifecycleUpgrade":  {codes.Unimplemented, "unknown service machine.LifecycleService"},
		"SensitiveResource": {codes.PermissionDenied, "not authorized"},
		"CmdlineResource":   {codes.OK, ""},
	}
	oldest := map[string]answer{}
	for name, a := range old {
		oldest[name] = a
	}
	oldest["CmdlineResource"] = answer{codes.PermissionDenied, `resource type "KernelCmdlines.runtime.talos.dev" is not supported`}
	recent := map[string]answer{
		"Version":           {codes.OK, ""},
		"Reset":             {codes.PermissionDenied, "not authorized"},
		"Reboot":            {codes.PermissionDenied, "not authorized"},
		"EmptyConfig":       {codes.InvalidArgument, "config not found"},
		"Disks":             {codes.OK, ""},
		"LifecycleUpgrade":  {codes.PermissionDenied, "not authorized"},
		"SensitiveResource": {codes.PermissionDenied, "not authorized"},
		"CmdlineResource":   {codes.OK, ""},
	}
	for version, want := range map[string]map[string]answer{"v1.9.5": oldest, "v1.12.11": old, "v1.13.9": recent} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := dial(t, start(t, talosnode.Config{Version: version, Cmdline: "talos.platform=metal"}), insecure())
			got := map[string]answer{}
			for name, call := range calls {
				got[name] = answerOf(call(t.Context(), c))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResourceDefinitionsAreListed(t *testing.T) {
	t.Parallel()
	c := dial(t, start(t, talosnode.Config{Version: "v1.13.9"}), insecure())
	if _, err := c.ResolveResourceKind(t.Context(), new(resource.Namespace), "machinestatus"); err != nil {
		t.Errorf("talosctl get machinestatus would fail: %v", err)
	}
}

func TestWatchDeliversTheMachineStatus(t *testing.T) {
	t.Parallel()
	c := dial(t, start(t, talosnode.Config{Version: "v1.13.9"}), insecure())
	events := make(chan state.Event)
	if err := c.COSI.Watch(t.Context(), runtime.NewMachineStatus().Metadata(), events); err != nil {
		t.Fatal(err)
	}
	select {
	case e := <-events:
		if e.Type != state.Created {
			t.Errorf("first event = %v, want created", e.Type)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("no event")
	}
}

func TestConfiguredNodeAnswersItsAdministratorOnly(t *testing.T) {
	t.Parallel()
	node, err := talosnode.StartConfigured(t.Context(), talosnode.Config{Address: "127.0.0.1:0", Version: "v1.12.11"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.Stop)
	if _, err := dial(t, node, insecure()).Version(t.Context()); status.Code(err) != codes.Unavailable {
		t.Errorf("without a client certificate: %v, want Unavailable", err)
	}
	admin := dial(t, node, node.ClientTLS())
	if _, err := admin.Version(t.Context()); err != nil {
		t.Errorf("with the client certificate: %v, want no error", err)
	}
	r, err := safe.StateGetByID[*runtime.MachineStatus](t.Context(), admin.COSI, runtime.MachineStatusID)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.TypedSpec().Stage; got != runtime.MachineStageRunning {
		t.Errorf("stage = %v, want running", got)
	}
}

func TestApplyHandsTheConfigOverAndClosesThePort(t *testing.T) {
	t.Parallel()
	type call struct {
		Data   string
		DryRun bool
	}
	applied := make(chan call, 2)
	node := start(t, talosnode.Config{Version: "v1.13.9", OnApply: func(data []byte, dryRun bool) {
		applied <- call{string(data), dryRun}
	}})
	c := dial(t, node, insecure())
	config := string(newPKI(t).config(t, controlPlane))
	for _, dryRun := range []bool{true, false} {
		req := &machine.ApplyConfigurationRequest{Data: []byte(config), DryRun: dryRun}
		if _, err := c.ApplyConfiguration(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if got := <-applied; got != (call{config, dryRun}) {
			t.Errorf("another config than %d bytes was handed over, or dry run was %t instead of %t", len(config), got.DryRun, dryRun)
		}
	}
	eventuallyRefused(t, node.Addr().String())
}

func TestStopCutsOpenConnections(t *testing.T) {
	t.Parallel()
	node := start(t, talosnode.Config{Version: "v1.13.9"})
	c := dial(t, node, insecure())
	stream, err := c.MachineClient.Events(t.Context(), &machine.EventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	node.Stop()
	node.Stop()
	if _, err := stream.Recv(); err == nil {
		t.Error("the stream goes on after Stop")
	}
	eventuallyRefused(t, node.Addr().String())
}

func TestNodeStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	node, err := talosnode.Start(ctx, talosnode.Config{Address: "127.0.0.1:0", Version: "v1.13.9"})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	eventuallyRefused(t, node.Addr().String())
}

func TestStartRefusesWhatItCannotEmulate(t *testing.T) {
	t.Parallel()
	taken := start(t, talosnode.Config{Version: "v1.13.9"}).Addr().String()
	tests := []struct {
		name string
		cfg  talosnode.Config
		want string
	}{
		{"no version", talosnode.Config{}, "is not a Talos version"},
		{"version without v", talosnode.Config{Version: "1.13.9"}, "is not a Talos version"},
		{"version 2", talosnode.Config{Version: "v2.0.0"}, "is not a Talos version"},
		{"broken MAC", talosnode.Config{Version: "v1.13.9", Links: []talosnode.Link{{Name: "eth0", MAC: "x"}}}, "eth0"},
		{"address in use", talosnode.Config{Version: "v1.13.9", Address: taken}, "is another node running there?"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.cfg.Address == "" {
				tt.cfg.Address = "127.0.0.1:0"
			}
			_, err := talosnode.Start(t.Context(), tt.cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want it to contain %q", err, tt.want)
			}
		})
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		node, err := talosnode.Start(b.Context(), talosnode.Config{
			Address: "127.0.0.1:0", Version: "v1.13.9", UUID: "11223344-5566-7788-99aa-bbccddeeff00",
			Links: []talosnode.Link{{Name: "eth0", MAC: "52:54:00:00:00:01"}},
		})
		if err != nil {
			b.Fatal(err)
		}
		node.Stop()
	}
}

func eventuallyRefused(t *testing.T, address string) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		var d net.Dialer
		conn, err := d.DialContext(t.Context(), "tcp", address)
		if err != nil {
			return
		}
		_ = conn.Close()
	}
	t.Errorf("%s still accepts connections", address)
}
