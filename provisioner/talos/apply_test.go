package talos_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/talos-provision/provision/provisioner/talos"
)

// applier answers ApplyConfiguration and remembers the requests.
type applier struct {
	machine.UnimplementedMachineServiceServer
	answer func(*machine.ApplyConfigurationRequest) (*machine.ApplyConfiguration, error)

	mu   sync.Mutex
	seen []*machine.ApplyConfigurationRequest
}

func (a *applier) ApplyConfiguration(_ context.Context, r *machine.ApplyConfigurationRequest) (*machine.ApplyConfigurationResponse, error) {
	a.mu.Lock()
	a.seen = append(a.seen, r)
	answer := a.answer
	a.mu.Unlock()
	if answer == nil {
		return &machine.ApplyConfigurationResponse{Messages: []*machine.ApplyConfiguration{{}}}, nil
	}
	message, err := answer(r)
	return &machine.ApplyConfigurationResponse{Messages: []*machine.ApplyConfiguration{message}}, err
}

func (a *applier) requests() []*machine.ApplyConfigurationRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.seen)
}

func (a *applier) refuse(code codes.Code, text string) *applier {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = func(*machine.ApplyConfigurationRequest) (*machine.ApplyConfiguration, error) {
		return nil, status.Error(code, text)
	}
	return a
}

func maintenanceNode(a *applier, serial string) *fake {
	return &fake{machine: a, resources: machineIn(runtime.MachineStageMaintenance, serial)}
}

func anyMachine(talos.Observation) error { return nil }

// siderolabs/talos#13785: mode REBOOT does nothing in some versions; AUTO works in all.
func TestIssue13785ApplyUsesTheModeAuto(t *testing.T) {
	t.Parallel()
	for _, dryRun := range []bool{true, false} {
		node := &applier{}
		port := maintenanceNode(node, "S-1").start(t)
		if _, err := (talos.Prober{Port: port}).Apply(t.Context(), "127.0.0.1", []byte("version: v1alpha1\n"), dryRun, anyMachine); err != nil {
			t.Fatal(err)
		}
		got := node.requests()
		if len(got) != 1 || got[0].GetMode() != machine.ApplyConfigurationRequest_AUTO || got[0].GetDryRun() != dryRun ||
			string(got[0].GetData()) != "version: v1alpha1\n" {
			t.Errorf("dry run %t: the node got %v, want the config once, mode AUTO", dryRun, got)
		}
	}
}

// I5: who the machine is is asked over the connection that the config goes through.
func TestApplyConfirmsTheMachineFirst(t *testing.T) {
	t.Parallel()
	node := &applier{}
	f := maintenanceNode(node, "S-2")
	port := f.start(t)
	foreign := errors.New("this is node-07")
	var seen talos.Observation
	_, err := talos.Prober{Port: port}.Apply(t.Context(), "127.0.0.1", []byte("version: v1alpha1\n"), false, func(o talos.Observation) error {
		seen = o
		return foreign
	})
	if !errors.Is(err, talos.ErrNotConfirmed) || !errors.Is(err, foreign) {
		t.Errorf("error = %v, want ErrNotConfirmed with its reason", err)
	}
	if seen.Facts.Serial != "S-2" || !seen.Up() {
		t.Errorf("confirm saw %+v, want the facts of the machine", seen)
	}
	if got := node.requests(); len(got) != 0 {
		t.Errorf("the wrong machine got %d configs", len(got))
	}
	if got := f.accepted.Load(); got != 1 {
		t.Errorf("%d connections were made, want one", got)
	}
}

func TestApplyWithoutAConfirmationSendsNothing(t *testing.T) {
	t.Parallel()
	f := maintenanceNode(&applier{}, "S-1")
	_, err := talos.Prober{Port: f.start(t)}.Apply(t.Context(), "127.0.0.1", []byte("version: v1alpha1\n"), false, nil)
	if !errors.Is(err, talos.ErrNotConfirmed) || f.accepted.Load() != 0 {
		t.Errorf("error = %v after %d connections, want ErrNotConfirmed and none", err, f.accepted.Load())
	}
}

// I5: another machine gets the address after the first was recognised, and
// before the config is sent. It must not even see a connection.
func TestApplyNeverReachesAMachineThatTakesTheAddressMeanwhile(t *testing.T) {
	t.Parallel()
	first, second := &applier{}, &applier{}
	a := maintenanceNode(first, "S-1")
	a.address = "127.77.0.5:50000"
	port := a.start(t)
	b := maintenanceNode(second, "S-2")
	b.address = a.address
	_, err := talos.Prober{Port: port}.Apply(t.Context(), "127.77.0.5", []byte("version: v1alpha1\n"), false, func(talos.Observation) error {
		a.server.Stop()
		b.start(t)
		return nil
	})
	if err == nil {
		t.Error("the config was applied to the machine that took the address")
	}
	if len(first.requests())+len(second.requests()) != 0 || b.accepted.Load() != 0 {
		t.Errorf("the second machine was connected to %d times and got %d configs, want neither", b.accepted.Load(), len(second.requests()))
	}
}

// siderolabs/talos#11773: with several nodes only the first got its config.
func TestIssue11773EachNodeGetsItsOwnConfig(t *testing.T) {
	t.Parallel()
	hosts := []string{"127.77.1.1", "127.77.1.2", "127.77.1.3"}
	nodes := map[string]*applier{}
	for _, host := range hosts {
		nodes[host] = &applier{}
		f := maintenanceNode(nodes[host], host)
		f.address = host + ":50000"
		f.start(t)
	}
	var group sync.WaitGroup
	for _, host := range hosts {
		group.Go(func() {
			_, err := talos.Prober{}.Apply(t.Context(), host, []byte("hostname: "+host+"\n"), false, func(o talos.Observation) error {
				if o.Facts.Serial != host {
					return errors.New("wrong machine")
				}
				return nil
			})
			if err != nil {
				t.Errorf("%s: %v", host, err)
			}
		})
	}
	group.Wait()
	for _, host := range hosts {
		got := nodes[host].requests()
		if len(got) != 1 || string(got[0].GetData()) != "hostname: "+host+"\n" {
			t.Errorf("%s got %v, want its own config once", host, got)
		}
	}
}

func TestApplyTellsRefusalsApart(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		code   codes.Code
		text   string
		dryRun bool
		want   error
		reason string
	}{
		"decoder of 1.12":         {codes.Unknown, "failed to parse config: config not found", true, talos.ErrConfigRefused, "config not found"},
		"decoder of 1.13":         {codes.InvalidArgument, "missing kind", true, talos.ErrConfigRefused, "missing kind"},
		"validator":               {codes.InvalidArgument, "configuration validation failed: 1 error occurred:\n\t* version of Kubernetes 1.36.3 is too new to be used with Talos 1.12.11", false, talos.ErrConfigRefused, "version of Kubernetes 1.36.3 is too new to be used with Talos 1.12.11"},
		"second apply":            {codes.FailedPrecondition, "another apply configuration is already in progress", false, talos.ErrApplyInProgress, "wait for it"},
		"configured meanwhile":    {codes.PermissionDenied, "not authorized", false, talos.ErrNotInMaintenance, "not authorized"},
		"cut off":                 {codes.Unavailable, "transport is closing", false, talos.ErrOutcomeUnknown, "still is in maintenance"},
		"dry run that is cut off": {codes.Unavailable, "transport is closing", true, nil, "ask again"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := maintenanceNode((&applier{}).refuse(tt.code, tt.text), "S-1").start(t)
			_, err := talos.Prober{Port: port}.Apply(t.Context(), "127.0.0.1", []byte("version: v1alpha1\nmachine:\n  kubelet:\n    image: ghcr.io/siderolabs/kubelet:v1.36.3\n"), tt.dryRun, anyMachine)
			if err == nil || !strings.Contains(err.Error(), tt.reason) {
				t.Fatalf("error = %v, want it to contain %q", err, tt.reason)
			}
			for _, kind := range []error{talos.ErrConfigRefused, talos.ErrApplyInProgress, talos.ErrNotInMaintenance, talos.ErrOutcomeUnknown} {
				if errors.Is(err, kind) != errors.Is(tt.want, kind) {
					t.Errorf("errors.Is(%v, %v) = %t", err, kind, errors.Is(err, kind))
				}
			}
		})
	}
}

func TestApplyToAConfiguredNodeSaysSo(t *testing.T) {
	t.Parallel()
	f := &fake{ca: newCA(t)}
	_, err := talos.Prober{Port: f.start(t)}.Apply(t.Context(), "127.0.0.1", []byte("version: v1alpha1\n"), false, anyMachine)
	if !errors.Is(err, talos.ErrNotInMaintenance) {
		t.Errorf("error = %v, want ErrNotInMaintenance (I2)", err)
	}
}

func TestApplyReturnsWarningsAndDetailsWithoutTheConfig(t *testing.T) {
	t.Parallel()
	node := &applier{answer: func(*machine.ApplyConfigurationRequest) (*machine.ApplyConfiguration, error) {
		return &machine.ApplyConfiguration{
			Warnings:    []string{`.machine.install.disk "/dev/sda" is deprecated`, `use "5tgb.secret-token" no more`},
			ModeDetails: "Dry run summary:\nApplied configuration without a reboot (skipped in dry-run).\nConfig diff:\n\n--- a\n+++ b\n+  token: 5tgb.secret-token\n",
		}, nil
	}}
	port := maintenanceNode(node, "S-1").start(t)
	got, err := talos.Prober{Port: port}.Apply(t.Context(), "127.0.0.1",
		[]byte("machine:\n  token: 5tgb.secret-token\n  install:\n    disk: /dev/sda\n"), true, anyMachine)
	if err != nil {
		t.Fatal(err)
	}
	want := talos.Applied{
		Warnings: []string{`.machine.install.disk "/dev/sda" is deprecated`, `use "[hidden]" no more`},
		Details:  "Dry run summary:\nApplied configuration without a reboot (skipped in dry-run).",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
}
