package talosnode_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/machinery/api/common"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/client"
	"google.golang.org/grpc/codes"

	"github.com/talos-provision/provision/e2e/talosnode"
)

const newImage = "factory.talos.dev/metal-installer/b8e8fbbe1b520989e6c52c8dc8303070cb42095997e76e812fa8892393e1d176:v1.14.1"

// ready starts a cluster of one control plane and bootstraps it.
func ready(t *testing.T, cfg talosnode.Config) member {
	t.Helper()
	pki := newPKI(t)
	cfg.Disk, cfg.FromDisk, cfg.UUID = configuredDisk(pki.config(t, controlPlane)), true, "r"
	m := member{node: booted(t, cfg), disk: cfg.Disk}
	m.admin = pki.admin(t, m.node)
	if err := bootstrap(t.Context(), m.admin); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ready", runs(m.admin, true))
	return m
}

func bootID(ctx context.Context, c *client.Client) (string, error) {
	stream, err := c.MachineClient.Read(ctx, &machine.ReadRequest{Path: "/proc/sys/kernel/random/boot_id"})
	if err != nil {
		return "", err
	}
	data, err := stream.Recv()
	return strings.TrimSpace(string(data.GetBytes())), err
}

// tagAfterReset waits for another boot, and returns its version.
func tagAfterReset(t *testing.T, m member, before string) (tag string) {
	t.Helper()
	eventually(t, "the node runs again", func(ctx context.Context) bool {
		id, err := bootID(ctx, m.admin)
		if err != nil || id == before || !runs(m.admin, true)(ctx) {
			return false
		}
		v, err := m.admin.Version(ctx)
		if err != nil {
			return false
		}
		tag = v.GetMessages()[0].GetVersion().GetTag()
		return true
	})
	return tag
}

func mustBootID(t *testing.T, m member) string {
	t.Helper()
	id, err := bootID(t.Context(), m.admin)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestRebootComesBackWithAnotherBootID(t *testing.T) {
	t.Parallel()
	m := ready(t, talosnode.Config{})
	before := mustBootID(t, m)
	if err := m.admin.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if tag := tagAfterReset(t, m, before); tag != "v1.13.9" {
		t.Errorf("runs %s", tag)
	}
}

func TestMachineIsAskedForResetAndPowerOff(t *testing.T) {
	t.Parallel()
	calls := map[string]func(context.Context, *client.Client) error{
		"reset": func(ctx context.Context, c *client.Client) error { return c.Reboot(ctx) },
		"off":   func(ctx context.Context, c *client.Client) error { return c.Shutdown(ctx) },
	}
	for want, call := range calls {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			asked := make(chan string, 1)
			m := ready(t, talosnode.Config{Reboot: func() { asked <- "reset" }, PowerOff: func() { asked <- "off" }})
			if err := call(t.Context(), m.admin); err != nil {
				t.Fatal(err)
			}
			select {
			case got := <-asked:
				if got != want {
					t.Errorf("asked for %s", got)
				}
			case <-time.After(time.Minute):
				t.Error("the machine was not asked")
			}
			eventuallyRefused(t, m.node.Addr().String())
		})
	}
}

func TestResetEmptiesTheDisk(t *testing.T) {
	t.Parallel()
	for name, partial := range map[string]bool{"all": false, "STATE and EPHEMERAL": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			off := make(chan struct{})
			m := ready(t, talosnode.Config{PowerOff: func() { close(off) }})
			req := &machine.ResetRequest{Graceful: true}
			want := talosnode.DiskState{}
			if partial {
				req.SystemPartitionsToWipe = []*machine.ResetPartitionSpec{{Label: "STATE", Wipe: true}, {Label: "EPHEMERAL", Wipe: true}}
				want = talosnode.DiskState{Device: "/dev/vda", Version: "v1.13.9", Schematic: schematic, Cmdline: "talos.platform=metal"}
			}
			if _, err := m.admin.MachineClient.Reset(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			<-off
			if diff := cmp.Diff(want, m.disk.State()); diff != "" {
				t.Errorf("disk (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEventsBeginWithAnEmptyOne(t *testing.T) {
	t.Parallel()
	m := ready(t, talosnode.Config{})
	stream, err := m.admin.MachineClient.Events(t.Context(), &machine.EventsRequest{TailEvents: -1})
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil || first.GetData() != nil || first.GetId() != "" {
		t.Fatalf("first = %v, %v", first, err)
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		var status machine.MachineStatusEvent
		if event.GetData().GetTypeUrl() != "talos/runtime/machine.MachineStatusEvent" || status.UnmarshalVT(event.GetData().GetValue()) != nil {
			t.Fatalf("event = %v", event)
		}
		if status.GetStage() == machine.MachineStatusEvent_RUNNING && status.GetStatus().GetReady() {
			return
		}
	}
}

// pull and upgrade as talosctl does from 1.13 on; it returns the exit code.
func upgrade(t *testing.T, c *client.Client) (code int32, seen bool, err error) {
	t.Helper()
	containerd := &common.ContainerdInstance{Driver: common.ContainerDriver_CRI, Namespace: common.ContainerdNamespace_NS_SYSTEM}
	pull, err := c.ImageClient.Pull(t.Context(), &machine.ImageServicePullRequest{Containerd: containerd, ImageRef: newImage})
	if err != nil {
		return 0, false, err
	}
	for {
		if _, err := pull.Recv(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return 0, false, err
		}
	}
	stream, err := c.LifecycleClient.Upgrade(t.Context(), &machine.LifecycleServiceUpgradeRequest{
		Containerd: containerd, Source: &machine.InstallArtifactsSource{ImageName: newImage},
	})
	if err != nil {
		return 0, false, err
	}
	for {
		progress, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return code, seen, nil
		}
		if err != nil {
			return code, seen, err
		}
		if exit, ok := progress.GetProgress().GetResponse().(*machine.LifecycleServiceInstallProgress_ExitCode); ok {
			code, seen = exit.ExitCode, true
		}
	}
}

func TestLifecycleUpgradeWritesAndTheResetBootsIt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		faults talosnode.Faults
		code   int32
		tag    string
	}{
		{"good", talosnode.Faults{}, 0, "v1.14.1"},
		{"installer fails", talosnode.Faults{UpgradeExitCode: 1}, 1, "v1.13.9"},
		{"rolled back", talosnode.Faults{UpgradeRollsBack: true}, 0, "v1.13.9"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := ready(t, talosnode.Config{Faults: tt.faults})
			before := mustBootID(t, m)
			code, seen, err := upgrade(t, m.admin)
			if err != nil || !seen || code != tt.code {
				t.Fatalf("exit code %d (sent: %t), %v", code, seen, err)
			}
			if now := mustBootID(t, m); now != before {
				t.Error("the upgrade reset the machine")
			}
			if err := m.admin.Reboot(t.Context()); err != nil {
				t.Fatal(err)
			}
			if tag := tagAfterReset(t, m, before); tag != tt.tag {
				t.Errorf("runs %s, want %s", tag, tt.tag)
			}
		})
	}
}

func TestUpgradeNeedsTheImage(t *testing.T) {
	t.Parallel()
	m := ready(t, talosnode.Config{Faults: talosnode.Faults{PullFails: true}})
	if _, _, err := upgrade(t, m.admin); answerOf(err).Code != codes.Internal {
		t.Errorf("pull: %v", err)
	}
	stream, err := m.admin.LifecycleClient.Upgrade(t.Context(), &machine.LifecycleServiceUpgradeRequest{
		Source: &machine.InstallArtifactsSource{ImageName: newImage},
	})
	if err == nil {
		_, err = stream.Recv()
	}
	if got := answerOf(err); got.Code != codes.Internal || !strings.Contains(got.Text, "not found in containerd store") {
		t.Errorf("upgrade: %v", err)
	}
}

func TestLegacyUpgradeDoesEverythingByItself(t *testing.T) {
	t.Parallel()
	m := ready(t, talosnode.Config{})
	before := mustBootID(t, m)
	answer, err := m.admin.MachineClient.Upgrade(t.Context(), &machine.UpgradeRequest{Image: newImage}) //nolint:staticcheck // what old clients do
	if err != nil || answer.GetMessages()[0].GetActorId() == "" {
		t.Fatal(answer, err)
	}
	if tag := tagAfterReset(t, m, before); tag != "v1.14.1" {
		t.Errorf("runs %s", tag)
	}
	before = mustBootID(t, m)
	if _, err := m.admin.MachineClient.Rollback(t.Context(), &machine.RollbackRequest{}); err != nil {
		t.Fatal(err)
	}
	if tag := tagAfterReset(t, m, before); tag != "v1.13.9" {
		t.Errorf("runs %s after the rollback", tag)
	}
}

func TestOneUpgradeAtATime(t *testing.T) {
	t.Parallel()
	m := ready(t, talosnode.Config{InstallTime: time.Hour})
	if _, err := m.admin.ImageClient.Pull(t.Context(), &machine.ImageServicePullRequest{ImageRef: newImage}); err != nil {
		t.Fatal(err)
	}
	req := &machine.LifecycleServiceUpgradeRequest{Source: &machine.InstallArtifactsSource{ImageName: newImage}}
	var first, second error
	eventually(t, "an upgrade writes", func(context.Context) bool {
		stream, err := m.admin.LifecycleClient.Upgrade(t.Context(), req)
		if err == nil {
			_, err = stream.Recv() // the first line: it has begun
		}
		first = err
		return err == nil
	})
	stream, err := m.admin.LifecycleClient.Upgrade(t.Context(), req)
	if err == nil {
		_, err = stream.Recv()
	}
	second = err
	want := answer{codes.FailedPrecondition, "another installation/upgrade is already in progress"}
	if diff := cmp.Diff(want, answerOf(second)); diff != "" {
		t.Errorf("after %v (-want +got):\n%s", first, diff)
	}
}
