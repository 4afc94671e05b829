package talos_test

import (
	"context"
	"errors"
	"testing"
	"time"

	machinetype "github.com/siderolabs/talos/pkg/machinery/config/machine"

	"github.com/talos-provision/provision/e2e/talosnode"
	"github.com/talos-provision/provision/provisioner/talos"
)

// factoryImage is the installer of a version, with the schematic of the tests.
func factoryImage(version string) string {
	return "factory.talos.dev/metal-installer/" + schematic + ":" + version
}

// installed starts the only node of a cluster, a control plane, from its disk,
// and waits until it is ready.
func installed(t *testing.T, host, version string, faults talosnode.Faults) (talos.Admin, talos.Running) {
	t.Helper()
	made := newCluster(t)
	cfg := config(version)
	cfg.Address, cfg.FromDisk, cfg.Clusters, cfg.Faults = host, true, new(talosnode.Clusters), faults
	cfg.ReadyTime = time.Millisecond
	cfg.Disk = talosnode.NewDisk(talosnode.DiskState{
		Device: "/dev/vda", Version: version, Schematic: schematic, EtcdMember: 1,
		MachineConfig: made.config(t, machinetype.TypeControlPlane),
	}, nil)
	startNode(t, talosnode.Start, cfg)
	admin := made.admin(t)
	return admin, inspectUntilReady(t, admin, host, "")
}

// inspectUntilReady waits for another boot than before to be ready.
func inspectUntilReady(t *testing.T, admin talos.Admin, host, before string) talos.Running {
	t.Helper()
	return inspectUntil(t, admin, host, func(r talos.Running) bool { return r.Ready && r.BootID != "" && r.BootID != before })
}

// home-operations/tuppr#213: what became of a node is told by the node.
func TestANodeIsUpgradedByBothCallsAndGoesBack(t *testing.T) {
	t.Parallel()
	const host = "127.77.3.21"
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	admin, before := installed(t, host, "v1.12.11", talosnode.Faults{})

	result, err := admin.Upgrade(ctx, host, talos.UpgradeRequest{Image: factoryImage("v1.13.9")})
	if err != nil || result.API != talos.Legacy || result.ActorID == "" {
		t.Fatalf("1.12 to 1.13: %+v, %v", result, err)
	}
	at113 := inspectUntilReady(t, admin, host, before.BootID)
	if at113.Version != "v1.13.9" || at113.Schematic != schematic {
		t.Fatalf("after the older call it runs %s of %s", at113.Version, at113.Schematic)
	}

	if err := admin.Pull(ctx, host, factoryImage("v1.14.1"), nil); err != nil {
		t.Fatal(err)
	}
	result, err = admin.Upgrade(ctx, host, talos.UpgradeRequest{Image: factoryImage("v1.14.1")})
	if err != nil || result.API != talos.Lifecycle || !result.Exited || len(result.Lines) == 0 {
		t.Fatalf("1.13 to 1.14: %+v, %v", result, err)
	}
	// home-operations/tuppr#575: it is written, and not rebooted.
	if r := admin.Inspect(ctx, host); r.BootID != at113.BootID || r.Version != "v1.13.9" {
		t.Fatalf("after the newer call it runs %s of boot %s, want no reboot", r.Version, r.BootID)
	}
	if err := admin.Reboot(ctx, host, talos.RebootDefault); err != nil {
		t.Fatal(err)
	}
	at114 := inspectUntilReady(t, admin, host, at113.BootID)
	if details, err := admin.Details(ctx, host); err != nil || at114.Version != "v1.14.1" || details.BootedEntry == "" {
		t.Fatalf("after the reboot it runs %s: %+v, %v", at114.Version, details, err)
	}

	if err := admin.Rollback(ctx, host); err != nil {
		t.Fatal(err)
	}
	if r := inspectUntilReady(t, admin, host, at114.BootID); r.Version != "v1.13.9" {
		t.Errorf("rolled back, it runs %s", r.Version)
	}
}

// siderolabs/talos#9088, #10364: the node comes back with what it ran before. The
// call that upgraded it does not know; another boot with the old version tells.
func TestIssue9088AFailedUpgradeShowsInTheVersion(t *testing.T) {
	t.Parallel()
	const host = "127.77.3.22"
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	admin, before := installed(t, host, "v1.13.9", talosnode.Faults{UpgradeRollsBack: true})
	if _, err := admin.Upgrade(ctx, host, talos.UpgradeRequest{Image: factoryImage("v1.14.1")}); err != nil {
		t.Fatal(err)
	}
	if err := admin.Reboot(ctx, host, talos.RebootDefault); err != nil {
		t.Fatal(err)
	}
	if after := inspectUntilReady(t, admin, host, before.BootID); after.Version != "v1.13.9" {
		t.Errorf("it runs %s, want what it ran before", after.Version)
	}
}

func TestFaultsOfANodeThatIsUpgraded(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		host, version string
		faults        talosnode.Faults
		want          error
	}{
		"exit code":        {"127.77.3.23", "v1.13.9", talosnode.Faults{UpgradeExitCode: 1}, talos.ErrInstallerFailed},
		"no image":         {"127.77.3.24", "v1.13.9", talosnode.Faults{PullFails: true}, talos.ErrImageNotFound},
		"no image in 1.12": {"127.77.3.25", "v1.12.11", talosnode.Faults{PullFails: true}, talos.ErrImageNotFound},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			admin, before := installed(t, tt.host, tt.version, tt.faults)
			_, err := admin.Upgrade(ctx, tt.host, talos.UpgradeRequest{Image: factoryImage("v1.14.1")})
			wantKind(t, err, tt.want)
			if r := admin.Inspect(ctx, tt.host); r.BootID != before.BootID || r.Version != tt.version {
				t.Errorf("it runs %s of boot %s, want nothing changed", r.Version, r.BootID)
			}
			if err := admin.Rollback(ctx, tt.host); !errors.Is(err, talos.ErrRollbackRefused) {
				t.Errorf("rolling back what was never upgraded: %v", err)
			}
		})
	}
}
