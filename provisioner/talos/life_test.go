package talos_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	talosconf "github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/generate"
	"github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"
	machinetype "github.com/siderolabs/talos/pkg/machinery/config/machine"

	"github.com/talos-provision/provision/e2e/talosnode"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/talos"
)

const schematic = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"

// cluster is what generates the configs and the talosconfig of one cluster.
type cluster struct{ input *generate.Input }

func newCluster(t *testing.T) cluster {
	t.Helper()
	bundle, err := secrets.NewBundle(secrets.NewClock(), talosconf.TalosVersion1_7) // its keys are made fast
	if err != nil {
		t.Fatal(err)
	}
	input, err := generate.NewInput("k8s-prod", "https://127.0.0.1:6443", "1.33.1",
		generate.WithSecretsBundle(bundle), generate.WithVersionContract(talosconf.TalosVersion1_11),
		generate.WithInstallDisk("/dev/vda"), generate.WithInstallImage("factory.talos.dev/metal-installer/"+schematic+":v1.13.9"))
	if err != nil {
		t.Fatal(err)
	}
	return cluster{input}
}

func (c cluster) config(t *testing.T, kind machinetype.Type) []byte {
	t.Helper()
	provider, err := c.input.Config(kind)
	if err != nil {
		t.Fatal(err)
	}
	data, err := provider.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (c cluster) admin(t *testing.T) talos.Admin {
	t.Helper()
	config, err := c.input.Talosconfig()
	if err != nil {
		t.Fatal(err)
	}
	data, err := config.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	access, err := talos.ParseAccess(data, "")
	if err != nil {
		t.Fatal(err)
	}
	return talos.Admin{Access: access}
}

// inspectUntil looks at a node until it is as wanted.
func inspectUntil(t *testing.T, admin talos.Admin, host string, wanted func(talos.Running) bool) talos.Running {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		r := admin.Inspect(ctx, host)
		if wanted(r) {
			return r
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the node did not become what is wanted: %+v", r)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// isSerial confirms the machine with that serial.
func isSerial(serial string) func(talos.Observation) error {
	return func(o talos.Observation) error {
		if o.Facts.Serial != serial {
			return errors.New("another machine")
		}
		return nil
	}
}

func TestANodeFromMaintenanceToReady(t *testing.T) {
	t.Parallel()
	const host, serial = "127.77.3.1", "S-1"
	for _, version := range []string{"v1.12.11", "v1.13.9"} {
		t.Run(version, func(t *testing.T) {
			made, prober := newCluster(t), talos.Prober{}
			cfg := config(version)
			cfg.Address, cfg.Serial = host, serial
			cfg.Disk, cfg.Clusters = new(talosnode.Disk), new(talosnode.Clusters)
			cfg.InstallTime, cfg.BootTime, cfg.ReadyTime = 20*time.Millisecond, 20*time.Millisecond, time.Millisecond
			startNode(t, talosnode.Start, cfg)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()

			if _, err := prober.Await(ctx, addresses(host), isUp); err != nil {
				t.Fatal(err)
			}
			disks, err := prober.Disks(ctx, host)
			if err != nil || len(disks) != 1 || disks[0].DevPath != "/dev/vda" || disks[0].Size != 20<<30 {
				t.Fatalf("disks = %+v, %v", disks, err)
			}
			admin := made.admin(t)
			if r := admin.Inspect(ctx, host); !r.WrongPKI || r.State != talos.Maintenance {
				t.Errorf("in maintenance: %+v", r)
			}
			data := made.config(t, machinetype.TypeControlPlane)
			for _, dryRun := range []bool{true, false} {
				if _, err := prober.Apply(ctx, host, data, dryRun, isSerial(serial)); err != nil {
					t.Fatalf("dry run %t: %v", dryRun, err)
				}
			}
			if _, err := prober.Await(ctx, addresses(host), func(o talos.Observation) bool { return o.State == talos.Configured }); err != nil {
				t.Fatal(err)
			}
			joinsItsCluster(ctx, t, admin, host)

			// siderolabs/talos#6696: it has a config now, whatever it boots from.
			if _, err := prober.Apply(ctx, host, data, false, isSerial(serial)); !errors.Is(err, talos.ErrNotInMaintenance) {
				t.Errorf("a second apply: %v, want ErrNotInMaintenance", err)
			}
			foreign := adminOf(t, newCA(t), 0).Inspect(ctx, host)
			if !foreign.WrongPKI || !errors.Is(foreign.Err, talos.ErrWrongPKI) || foreign.State != talos.Configured {
				t.Errorf("with another cluster's talosconfig: %+v", foreign)
			}
		})
	}
}

// joinsItsCluster bootstraps a node that is installed and follows it to the end.
func joinsItsCluster(ctx context.Context, t *testing.T, admin talos.Admin, host string) {
	t.Helper()
	admin.Confirm = func(f identity.Facts) error {
		if f.Serial != "S-1" {
			return errors.New("another machine")
		}
		return nil
	}
	inspectUntil(t, admin, host, func(r talos.Running) bool { return r.Etcd.Waiting })
	if err := admin.Bootstrap(ctx, host); err != nil {
		t.Fatal(err)
	}
	r := inspectUntil(t, admin, host, func(r talos.Running) bool { return r.Ready && r.Kubernetes.Ready && r.Etcd.State == "Running" })
	if r.Err != nil || r.Version != "v1.13.9" || r.Schematic != schematic || r.SystemDisk != "/dev/vda" || r.Role != "controlplane" ||
		r.Stage != "running" || r.Hostname == "" || r.BootID == "" || r.Facts.Serial != "S-1" || r.Kubernetes.Name == "" || len(r.Unmet) != 0 {
		t.Errorf("running = %+v", r)
	}
	if err := admin.Bootstrap(ctx, host); !errors.Is(err, talos.ErrAlreadyBootstrapped) {
		t.Errorf("a second bootstrap: %v, want ErrAlreadyBootstrapped (I6)", err)
	}
	if members, err := admin.EtcdMembers(ctx, host); err != nil || len(members) != 1 || members[0].Hostname != r.Hostname {
		t.Errorf("members = %+v, %v", members, err)
	}
	if kubeconfig, err := admin.Kubeconfig(ctx, host); err != nil || len(kubeconfig) == 0 {
		t.Errorf("kubeconfig of %d bytes, %v", len(kubeconfig), err)
	}
	var lines []string
	if err := admin.Health(ctx, host, talos.HealthRequest{ControlPlanes: []string{host}, Timeout: 30 * time.Second},
		func(line string) { lines = append(lines, line) }); err != nil || len(lines) == 0 {
		t.Errorf("health: %v after %q", err, lines)
	}
	if services, err := admin.Services(ctx, host); err != nil || !slices.ContainsFunc(services, func(s talos.Service) bool { return s.ID == "kubelet" }) {
		t.Errorf("services = %+v, %v", services, err)
	}
	if err := admin.Reboot(ctx, host, talos.RebootDefault); err != nil {
		t.Fatal(err)
	}
	inspectUntil(t, admin, host, func(after talos.Running) bool { return after.BootID != "" && after.BootID != r.BootID && after.Ready })
}

// siderolabs/talos#9232: a machine that halts because Talos is on its disk never
// answers; the wait ends, and its error says that this may be so.
func TestIssue9232AHaltedMachineIsNamed(t *testing.T) {
	t.Parallel()
	const host = "127.77.3.9"
	cfg := config("v1.13.9")
	cfg.Address, cfg.Cmdline = host, "talos.platform=metal talos.halt_if_installed=1"
	cfg.Disk = talosnode.NewDisk(talosnode.DiskState{Device: "/dev/vda", Version: "v1.12.11", MachineConfig: newCluster(t).config(t, machinetype.TypeWorker)}, nil)
	startNode(t, talosnode.Start, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o, err := talos.Prober{}.Await(ctx, addresses(host), func(talos.Observation) bool { cancel(); return false })
	if o.State != talos.Unreachable || !errors.Is(err, context.Canceled) || !contains(err, "talos.halt_if_installed") {
		t.Errorf("observation = %+v, %v", o, err)
	}
}
