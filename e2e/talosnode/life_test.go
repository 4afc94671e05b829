package talosnode_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"

	"github.com/talos-provision/provision/e2e/talosnode"
)

func apply(t *testing.T, node *talosnode.Node, config []byte) {
	t.Helper()
	_, err := dial(t, node, insecure()).ApplyConfiguration(t.Context(), &machine.ApplyConfigurationRequest{
		Data: config, Mode: machine.ApplyConfigurationRequest_AUTO,
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNodeInstallsItselfAndBootsItsDisk(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1.12.11", "v1.13.9"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			pki, disk, reset := newPKI(t), new(talosnode.Disk), make(chan struct{})
			node := booted(t, talosnode.Config{
				Version: version, Disk: disk, Cmdline: "talos.platform=metal ip=127.0.0.1:::::eth0:off",
				Reboot: func() { close(reset) },
			})
			config := pki.config(t, controlPlane)
			apply(t, node, config)
			select {
			case <-reset:
			case <-time.After(time.Minute):
				t.Fatal("no reset was asked for")
			}
			eventuallyRefused(t, node.Addr().String())
			address := node.Addr().String()
			node.Stop()
			got := disk.State()
			got.Cmdline = ""
			want := talosnode.DiskState{Device: "/dev/vda", Version: "v1.13.9", Schematic: schematic, MachineConfig: config}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("disk (-want +got):\n%s", diff)
			}

			node = booted(t, talosnode.Config{Address: address, Disk: disk, FromDisk: true})
			admin := pki.admin(t, node)
			v, err := admin.Version(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if tag := v.GetMessages()[0].GetVersion().GetTag(); tag != "v1.13.9" {
				t.Errorf("runs %s, want the installed v1.13.9", tag)
			}
			extension, err := safe.StateGetByID[*runtime.ExtensionStatus](t.Context(), admin.COSI, "0")
			if err != nil {
				t.Fatal(err)
			}
			if m := extension.TypedSpec().Metadata; m.Name != "schematic" || m.Version != schematic {
				t.Errorf("extension %s %s, want the schematic", m.Name, m.Version)
			}
		})
	}
}

func TestPortIsClosedDuringTheInstallation(t *testing.T) {
	t.Parallel()
	disk := new(talosnode.Disk)
	node := booted(t, talosnode.Config{Disk: disk, InstallTime: time.Hour})
	apply(t, node, newPKI(t).config(t, controlPlane))
	eventuallyRefused(t, node.Addr().String())
	node.Stop() // the power fails in the middle
	if diff := cmp.Diff(talosnode.DiskState{}, disk.State()); diff != "" {
		t.Errorf("something was installed (-want +got):\n%s", diff)
	}
}

// siderolabs/talos#6696: a node with a config on its disk does not come up in
// maintenance mode, whatever it was booted from.
func TestWhatComesUpDependsOnTheDisk(t *testing.T) {
	t.Parallel()
	pki := newPKI(t)
	config := pki.config(t, controlPlane)
	const maintenanceName = "maintenance-service.talos.dev"
	tests := []struct {
		name, cmdline   string
		state           talosnode.DiskState
		wantMaintenance bool
		want            talosnode.DiskState
	}{
		{"empty disk", "talos.platform=metal", talosnode.DiskState{}, true, talosnode.DiskState{}},
		{
			"installed and configured", "talos.platform=metal",
			talosnode.DiskState{Version: "v1.12.11", MachineConfig: config}, false,
			talosnode.DiskState{Version: "v1.12.11", MachineConfig: config},
		},
		{
			"wiped", "talos.platform=metal talos.experimental.wipe=system",
			talosnode.DiskState{Version: "v1.12.11", MachineConfig: config, EtcdMember: 7}, true, talosnode.DiskState{},
		},
		{
			"partitions wiped", "talos.experimental.wipe=system:EPHEMERAL,STATE",
			talosnode.DiskState{Version: "v1.12.11", MachineConfig: config, EtcdMember: 7}, true,
			talosnode.DiskState{Version: "v1.12.11"},
		},
		{
			"only EPHEMERAL wiped", "talos.experimental.wipe=system:EPHEMERAL",
			talosnode.DiskState{Version: "v1.12.11", MachineConfig: config, EtcdMember: 7}, false,
			talosnode.DiskState{Version: "v1.12.11", MachineConfig: config},
		},
		{"halt, nothing installed", "talos.halt_if_installed=1", talosnode.DiskState{}, true, talosnode.DiskState{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			disk := talosnode.NewDisk(tt.state, nil)
			node := booted(t, talosnode.Config{Disk: disk, Cmdline: tt.cmdline})
			if got := leafName(t, node) == maintenanceName; got != tt.wantMaintenance {
				t.Errorf("maintenance = %t, want %t", got, tt.wantMaintenance)
			}
			if diff := cmp.Diff(tt.want, disk.State()); diff != "" {
				t.Errorf("disk (-want +got):\n%s", diff)
			}
			if tt.wantMaintenance {
				return
			}
			v, err := pki.admin(t, node).Version(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if tag := v.GetMessages()[0].GetVersion().GetTag(); tag != "v1.13.9" {
				t.Errorf("runs %s, want v1.13.9, which was booted", tag)
			}
		})
	}
}

// siderolabs/talos PR#9244: the port never opens.
func TestNodeHaltsIfInstalled(t *testing.T) {
	t.Parallel()
	address := start(t, talosnode.Config{Version: "v1.13.9"}).Addr().String() // a port that is free soon
	disk := talosnode.NewDisk(talosnode.DiskState{Version: "v1.13.9"}, nil)
	node, err := talosnode.Start(t.Context(), talosnode.Config{
		Address: "127.0.0.9:0", Version: "v1.13.9", Disk: disk, Cmdline: "talos.halt_if_installed=1",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.Stop)
	if address == node.Addr().String() || isOpen(t.Context(), node.Addr().String()) {
		t.Error("the port is open")
	}
}

// siderolabs/talos#12053: with only STATE gone, a config brings no other version.
func TestInstalledNodeInMaintenanceKeepsItsVersion(t *testing.T) {
	t.Parallel()
	pki := newPKI(t)
	disk := talosnode.NewDisk(talosnode.DiskState{Device: "/dev/vda", Version: "v1.12.11"}, nil)
	node := booted(t, talosnode.Config{Disk: disk})
	config := pki.config(t, controlPlane)
	apply(t, node, config)
	admin := pki.admin(t, node)
	eventually(t, "the node is configured", func(ctx context.Context) bool {
		_, err := admin.Version(ctx)
		return err == nil
	})
	if got := disk.State(); got.Version != "v1.12.11" || string(got.MachineConfig) != string(config) {
		t.Errorf("version %s on the disk, want v1.12.11 as before; config kept: %t", got.Version, string(got.MachineConfig) == string(config))
	}
}

func TestInstallationThatCannotWorkRetriesBehindAClosedPort(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		faults talosnode.Faults
		disks  []talosnode.Device
	}{
		{"image", talosnode.Faults{PullFails: true}, nil},
		{"disk", talosnode.Faults{}, []talosnode.Device{{Path: "/dev/sda", Size: 1 << 40}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			disk := new(talosnode.Disk)
			node := booted(t, talosnode.Config{Disk: disk, Devices: tt.disks, Faults: tt.faults, Reboot: func() { t.Error("reset") }})
			apply(t, node, newPKI(t).config(t, controlPlane))
			eventuallyRefused(t, node.Addr().String())
			if disk.State().Installed() {
				t.Error("installed")
			}
		})
	}
}

// The same as a reset that the machine does by itself: no Reboot is given.
func TestNodeComesBackByItselfWithTheWrongVersion(t *testing.T) {
	t.Parallel()
	pki := newPKI(t)
	node := booted(t, talosnode.Config{Faults: talosnode.Faults{InstalledVersion: "v1.12.11"}})
	apply(t, node, pki.config(t, controlPlane))
	admin := pki.admin(t, node)
	var tag string
	eventually(t, "the node is back", func(ctx context.Context) bool {
		v, err := admin.Version(ctx)
		if err == nil {
			tag = v.GetMessages()[0].GetVersion().GetTag()
		}
		return err == nil
	})
	if tag != "v1.12.11" {
		t.Errorf("runs %s", tag)
	}
}

func TestDiskChangesInOneStepOrNotAtAll(t *testing.T) {
	t.Parallel()
	var saved []talosnode.DiskState
	broken := errors.New("I/O error")
	disk := talosnode.NewDisk(talosnode.DiskState{Version: "v1.12.11"}, func(s talosnode.DiskState) error {
		if s.Version == "v1.14.1" {
			return broken
		}
		saved = append(saved, s)
		return nil
	})
	if err := disk.Update(func(s *talosnode.DiskState) { s.Version = "v1.13.9" }); err != nil {
		t.Fatal(err)
	}
	if err := disk.Update(func(s *talosnode.DiskState) { s.Version = "v1.14.1" }); !errors.Is(err, broken) {
		t.Errorf("error = %v, want %v", err, broken)
	}
	if err := disk.Wipe(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]talosnode.DiskState{{Version: "v1.13.9"}, {}}, saved); diff != "" {
		t.Errorf("saved (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(talosnode.DiskState{}, disk.State()); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
}
