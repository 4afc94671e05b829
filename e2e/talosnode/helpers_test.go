package talosnode_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/siderolabs/talos/pkg/machinery/client"
	"github.com/siderolabs/talos/pkg/machinery/client/config"
	talosconfig "github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/generate"
	"github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"
	machinetype "github.com/siderolabs/talos/pkg/machinery/config/machine"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/talos-provision/provision/e2e/talosnode"
)

const (
	controlPlane = machinetype.TypeControlPlane
	worker       = machinetype.TypeWorker

	schematic = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"
)

// clusterPKI makes the configs of one cluster.
type clusterPKI struct {
	input *generate.Input
}

func newPKI(t *testing.T, options ...generate.Option) clusterPKI {
	t.Helper()
	bundle, err := secrets.NewBundle(secrets.NewClock(), talosconfig.TalosVersion1_6) // newer ones take seconds for an RSA key
	if err != nil {
		t.Fatal(err)
	}
	options = append([]generate.Option{
		generate.WithSecretsBundle(bundle), generate.WithVersionContract(talosconfig.TalosVersion1_11),
		generate.WithInstallDisk("/dev/vda"),
		generate.WithInstallImage("factory.talos.dev/metal-installer/" + schematic + ":v1.13.9"),
	}, options...)
	input, err := generate.NewInput("k8s-prod", "https://127.0.0.1:6443", "1.33.1", options...)
	if err != nil {
		t.Fatal(err)
	}
	return clusterPKI{input: input}
}

func (p clusterPKI) config(t *testing.T, kind machinetype.Type) []byte {
	t.Helper()
	provider, err := p.input.Config(kind)
	if err != nil {
		t.Fatal(err)
	}
	data, err := provider.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (p clusterPKI) talosconfig(t *testing.T) *config.Config {
	t.Helper()
	c, err := p.input.Talosconfig()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// admin is a client with the cluster's talosconfig. It tries again fast: nodes come and go.
func (p clusterPKI) admin(t *testing.T, node *talosnode.Node) *client.Client {
	t.Helper()
	c, err := client.New(t.Context(), client.WithConfig(p.talosconfig(t)), client.WithEndpoints(node.Addr().String()),
		client.WithGRPCDialOptions(grpc.WithNoProxy(), fastDial()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func fastDial() grpc.DialOption {
	return grpc.WithConnectParams(grpc.ConnectParams{
		Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.2, MaxDelay: 100 * time.Millisecond}, MinConnectTimeout: 20 * time.Second,
	})
}

// booted runs a node with a disk; each has a loopback address of its own.
func booted(t *testing.T, cfg talosnode.Config) *talosnode.Node {
	t.Helper()
	if cfg.Disk == nil {
		cfg.Disk = new(talosnode.Disk)
	}
	if cfg.Version == "" {
		cfg.Version = "v1.13.9"
	}
	return start(t, cfg)
}

// configuredDisk is a disk that was installed with this config.
func configuredDisk(config []byte) *talosnode.Disk {
	return talosnode.NewDisk(talosnode.DiskState{
		Device: "/dev/vda", Version: "v1.13.9", Schematic: schematic, Cmdline: "talos.platform=metal", MachineConfig: config,
	}, nil)
}

// eventually asks until the answer is yes; a loaded machine gets its time.
func eventually(t *testing.T, what string, yes func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		if try(ctx, yes) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Fatalf("%s: not within a minute", what)
}

func try(ctx context.Context, yes func(context.Context) bool) bool {
	once, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return yes(once)
}

func machineStatus(ctx context.Context, c *client.Client) (runtime.MachineStatusSpec, error) {
	r, err := safe.StateGetByID[*runtime.MachineStatus](ctx, c.COSI, runtime.MachineStatusID)
	if err != nil {
		return runtime.MachineStatusSpec{}, err
	}
	return *r.TypedSpec(), nil
}

// runs tells whether the node is in the stage running, with this readiness.
func runs(c *client.Client, ready bool) func(context.Context) bool {
	return func(ctx context.Context) bool {
		got, err := machineStatus(ctx, c)
		return err == nil && got.Stage == runtime.MachineStageRunning && got.Status.Ready == ready
	}
}

func isOpen(ctx context.Context, address string) bool {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// leafName shakes hands without a client certificate and returns the server's name.
func leafName(t *testing.T, node *talosnode.Node) string {
	t.Helper()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}
	conn, err := dialer.DialContext(t.Context(), "tcp", node.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	secure, ok := conn.(*tls.Conn)
	if !ok {
		t.Fatalf("%T", conn)
	}
	return secure.ConnectionState().PeerCertificates[0].Subject.CommonName
}
