package talosnode_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/config/generate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/talos-provision/provision/e2e/talosnode"
)

// siderolabs/talos 1.12's maintenance server answers in its own words; those of
// 1.13 are the handler's of a running node.
func TestConfigIsRefusedInTheWordsOfTheVersion(t *testing.T) {
	t.Parallel()
	pki := newPKI(t)
	good := pki.config(t, controlPlane)
	selector := bytes.Replace(good, []byte("disk: /dev/vda"), []byte("diskSelector:\n            serial: NOT-THERE"), 1)
	noDisk := bytes.Replace(good, []byte("disk: /dev/vda"), []byte("disk: \"\""), 1)
	newer := bytes.ReplaceAll(good, []byte(":v1.33.1"), []byte(":v1.36.3"))
	newest := append(bytes.Clone(good), []byte("---\napiVersion: v1alpha1\nkind: UnattendedInstallConfig\n")...)
	resolver := append(bytes.Clone(good), []byte("---\napiVersion: v1alpha1\nkind: ResolverConfig\nnameservers:\n  - address: 1.1.1.1\n")...)
	tests := []struct {
		name, version string
		data          []byte
		want          codes.Code
		text          string // that the message holds
	}{
		{"empty", "v1.12.11", nil, codes.Unknown, "failed to parse config: config not found"},
		{"empty", "v1.13.9", nil, codes.InvalidArgument, "config not found"},
		{"no kind", "v1.12.11", []byte("a: b"), codes.Unknown, "missing kind"},
		{"no kind", "v1.13.9", []byte("a: b"), codes.InvalidArgument, "missing kind"},
		{"good", "v1.12.11", good, codes.OK, ""},
		{"good", "v1.13.9", good, codes.OK, ""},
		{"Kubernetes too new", "v1.12.11", newer, codes.InvalidArgument, "version of Kubernetes 1.36.3 is too new to be used with Talos 1.12.11"},
		{"Kubernetes", "v1.13.9", newer, codes.OK, ""},
		{"selector without match", "v1.13.9", selector, codes.InvalidArgument, "no disks matched the expression: glob("},
		{"no disk", "v1.13.9", noDisk, codes.InvalidArgument, "install disk"},
		{"kind of 1.14", "v1.13.9", newest, codes.InvalidArgument, `"UnattendedInstallConfig" "v1alpha1": not registered`},
		{"kind of 1.14", "v1.14.1", newest, codes.OK, ""},
		{"kind of 1.12", "v1.11.6", resolver, codes.Unknown, `"ResolverConfig" "v1alpha1": not registered`},
		{"kind of 1.12", "v1.12.11", resolver, codes.OK, ""},
	}
	for _, tt := range tests {
		t.Run(tt.version+"/"+tt.name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, booted(t, talosnode.Config{Version: tt.version}), insecure())
			_, err := c.ApplyConfiguration(t.Context(), &machine.ApplyConfigurationRequest{Data: tt.data, DryRun: true})
			if status.Code(err) != tt.want || !strings.Contains(status.Convert(err).Message(), tt.text) {
				t.Errorf("error = %v, want %s with %q", err, tt.want, tt.text)
			}
		})
	}
}

func TestModesOfApplyByVersion(t *testing.T) {
	t.Parallel()
	pki := newPKI(t)
	config := pki.config(t, controlPlane)
	const (
		auto     = machine.ApplyConfigurationRequest_AUTO
		reboot   = machine.ApplyConfigurationRequest_REBOOT
		noReboot = machine.ApplyConfigurationRequest_NO_REBOOT
		staged   = machine.ApplyConfigurationRequest_STAGED
	)
	tests := []struct {
		version    string
		configured bool
		mode       machine.ApplyConfigurationRequest_Mode
		want       codes.Code
		effective  machine.ApplyConfigurationRequest_Mode
	}{
		{"v1.12.11", false, auto, codes.OK, auto},
		{"v1.12.11", false, reboot, codes.OK, reboot},
		{"v1.12.11", false, noReboot, codes.Unimplemented, 0},
		{"v1.12.11", false, staged, codes.Unimplemented, 0},
		{"v1.13.9", false, auto, codes.OK, noReboot},
		{"v1.13.9", false, reboot, codes.OK, noReboot},
		{"v1.13.9", true, auto, codes.OK, noReboot},
		{"v1.13.9", true, reboot, codes.OK, reboot},
		{"v1.14.1", true, reboot, codes.InvalidArgument, 0},
	}
	for _, tt := range tests {
		t.Run(tt.version+"/"+tt.mode.String(), func(t *testing.T) {
			t.Parallel()
			disk := new(talosnode.Disk)
			if tt.configured {
				disk = configuredDisk(config)
			}
			node := booted(t, talosnode.Config{Version: tt.version, Disk: disk})
			c := dial(t, node, insecure())
			if tt.configured {
				c = pki.admin(t, node)
			}
			answer, err := c.ApplyConfiguration(t.Context(), &machine.ApplyConfigurationRequest{Data: config, Mode: tt.mode, DryRun: true})
			if status.Code(err) != tt.want {
				t.Fatalf("error = %v, want %s", err, tt.want)
			}
			if err == nil && answer.GetMessages()[0].GetMode() != tt.effective {
				t.Errorf("mode = %s, want %s", answer.GetMessages()[0].GetMode(), tt.effective)
			}
		})
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"v1.12.11": "Dry run summary:\nNode is running in maintenance mode and does not have a config yet.",
		"v1.13.9":  "Dry run summary:\nApplied configuration without a reboot (skipped in dry-run).\nConfig diff:\n\n",
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			disk := new(talosnode.Disk)
			c := dial(t, booted(t, talosnode.Config{Version: version, Disk: disk}), insecure())
			req := &machine.ApplyConfigurationRequest{Data: newPKI(t).config(t, controlPlane), DryRun: true}
			for range 2 {
				answer, err := c.ApplyConfiguration(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				if got := answer.GetMessages()[0].GetModeDetails(); !strings.HasPrefix(got, want) {
					t.Errorf("details = %q", got)
				}
			}
			if diff := cmp.Diff(talosnode.DiskState{}, disk.State()); diff != "" {
				t.Errorf("disk (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPartOfAConfigLeavesTheNodeInMaintenance(t *testing.T) {
	t.Parallel()
	disk := new(talosnode.Disk)
	node := booted(t, talosnode.Config{Disk: disk})
	apply(t, node, []byte("apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: cp-1\n"))
	if got := leafName(t, node); got != "maintenance-service.talos.dev" {
		t.Errorf("the node answers as %s", got)
	}
	if disk.State().Configured() {
		t.Error("the part was kept")
	}
}

// Between an accepted config and the closed port, and during another apply.
func TestSecondApplyIsRefused(t *testing.T) {
	t.Parallel()
	config := newPKI(t).config(t, controlPlane)
	entered, leave := make(chan struct{}), make(chan struct{})
	node := booted(t, talosnode.Config{OnApply: func([]byte, bool) { close(entered); <-leave }})
	c := dial(t, node, insecure())
	first := make(chan error, 1)
	go func() {
		_, err := c.ApplyConfiguration(t.Context(), &machine.ApplyConfigurationRequest{Data: config, DryRun: true})
		first <- err
	}()
	<-entered
	_, err := c.ApplyConfiguration(t.Context(), &machine.ApplyConfigurationRequest{Data: config})
	close(leave)
	want := answer{codes.FailedPrecondition, "another apply configuration is already in progress"}
	if diff := cmp.Diff(want, answerOf(err)); diff != "" {
		t.Errorf("second apply (-want +got):\n%s", diff)
	}
	if err := <-first; err != nil {
		t.Error(err)
	}
}

func TestConfiguredNodeTakesAChange(t *testing.T) {
	t.Parallel()
	pki := newPKI(t)
	disk := configuredDisk(pki.config(t, controlPlane))
	node := booted(t, talosnode.Config{Disk: disk})
	admin := pki.admin(t, node)
	changed := bytes.Replace(pki.config(t, controlPlane), []byte("network: {}"), []byte("network:\n        hostname: cp-9"), 1)
	if _, err := admin.ApplyConfiguration(t.Context(), &machine.ApplyConfigurationRequest{Data: changed, Mode: machine.ApplyConfigurationRequest_AUTO}); err != nil {
		t.Fatal(err)
	}
	got, err := admin.MachineClient.Hostname(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if name := got.GetMessages()[0].GetHostname(); name != "cp-9" {
		t.Errorf("hostname = %s", name)
	}
	if !bytes.Equal(disk.State().MachineConfig, changed) {
		t.Error("the change is not on the disk")
	}
	_, err = admin.ApplyConfiguration(t.Context(), &machine.ApplyConfigurationRequest{Data: []byte("apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: a\n")})
	if !strings.Contains(status.Convert(err).Message(), "did you mean to patch the machine config instead?") {
		t.Errorf("part of a config: %v", err)
	}
}

// The first disk that the selector matches is the one.
func TestSelectorChoosesTheInstallDisk(t *testing.T) {
	t.Parallel()
	pki := newPKI(t, generate.WithInstallDisk("/dev/none"))
	config := bytes.Replace(pki.config(t, controlPlane), []byte("disk: /dev/none"), []byte("diskSelector:\n            serial: S2\n            type: nvme"), 1)
	disk, reset := new(talosnode.Disk), make(chan struct{})
	node := booted(t, talosnode.Config{Disk: disk, Reboot: func() { close(reset) }, Devices: []talosnode.Device{
		{Path: "/dev/sda", Size: 1 << 40, Serial: "S2", Transport: "sata"},
		{Path: "/dev/nvme0n1", Size: 1 << 40, Serial: "S1", Transport: "nvme"},
		{Path: "/dev/nvme1n1", Size: 1 << 40, Serial: "S2", Transport: "nvme"},
	}})
	apply(t, node, config)
	<-reset
	if got := disk.State().Device; got != "/dev/nvme1n1" {
		t.Errorf("installed to %s", got)
	}
}
