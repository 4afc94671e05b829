package talos_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/google/go-cmp/cmp"
	configres "github.com/siderolabs/talos/pkg/machinery/resources/config"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/talos-provision/provision/provisioner/talos"
)

func code(c int32) *int32 { return &c }

// home-operations/tuppr#460: "version mismatch" hid what the installer said.
// siderolabs/talos#10986, #10859, #11156: an exit code that is not 0 is a failure.
// The pieces of 512 bytes that the node sends are not lines.
func TestIssue460WhatTheInstallerSaysIsKept(t *testing.T) {
	t.Parallel()
	n := newNode(t, "v1.13.9", noArgs)
	n.lifecycle.say = []string{"running Talos inst", "aller v1.14.1\npreflight checks\n\nError: failed to pro", "be bootloader on upgrade: ", `unknown kind "UnattendedInstallConfig"`}
	n.lifecycle.code = code(1)
	var lines []string
	result, err := n.admin(t).Upgrade(t.Context(), "127.0.0.1", talos.UpgradeRequest{Image: installer, Line: func(line string) { lines = append(lines, line) }})
	wantKind(t, err, talos.ErrInstallerFailed)
	want := []string{"running Talos installer v1.14.1", "preflight checks", `Error: failed to probe bootloader on upgrade: unknown kind "UnattendedInstallConfig"`}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(talos.UpgradeResult{API: talos.Lifecycle, Reason: result.Reason, Exited: true, ExitCode: 1, Lines: want}, result); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if !contains(err, "exit code 1") || !contains(err, want[2]) {
		t.Errorf("error = %q, want the code and the last words", err)
	}
}

// The service "should not respond with error even if exit code is non-zero":
// that no code comes is a failure as well, whatever else was said.
func TestAMissingExitCodeIsAFailure(t *testing.T) {
	t.Parallel()
	n := newNode(t, "v1.13.9", noArgs)
	n.lifecycle.say, n.lifecycle.code = []string{"installation of v1.14.1 complete\n"}, nil
	result, err := n.admin(t).Upgrade(t.Context(), "127.0.0.1", talos.UpgradeRequest{Image: installer})
	wantKind(t, err, talos.ErrInstallerFailed)
	if result.Exited || len(result.Lines) != 1 || !contains(err, "told no exit code") {
		t.Errorf("result = %+v, %v", result, err)
	}
}

// home-operations/tuppr#575: exit code 0 means that the boot assets are written.
// The call ends there, and the node is not rebooted by it.
func TestIssue575TheInstallerDoesNotReboot(t *testing.T) {
	t.Parallel()
	n := newNode(t, "v1.13.9", noArgs)
	result, err := n.admin(t).Upgrade(t.Context(), "127.0.0.1", talos.UpgradeRequest{Image: installer})
	if err != nil || !result.Exited || result.ExitCode != 0 {
		t.Errorf("result = %+v, %v", result, err)
	}
	// The image is pulled first: the one that was pulled hours ago may be deleted.
	if diff := cmp.Diff([]string{"pull CRI/NS_SYSTEM " + installer, "install " + installer + pinned}, n.machine.seen()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestLifecycleRefusalsAreToldApart(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ answer, want error }{
		"another one":        {status.Error(codes.FailedPrecondition, "another installation/upgrade is already in progress"), talos.ErrUpgradeInProgress},
		"not installed":      {status.Error(codes.FailedPrecondition, "machine is not installed"), talos.ErrNotInstalled},
		"in a container":     {status.Error(codes.FailedPrecondition, "upgrade is not supported in container mode"), nil},
		"deleted meanwhile":  {status.Error(codes.Internal, "upgrade failed: installer image \"x\" not found in containerd store: x: not found"), talos.ErrImageNotFound},
		"no container":       {status.Error(codes.Internal, "upgrade failed: failed to create container: no space left on device"), talos.ErrInstallerFailed},
		"no disk":            {status.Error(codes.Internal, "system disk not found"), talos.ErrInstallerFailed},
		"not allowed":        {status.Error(codes.PermissionDenied, "not authorized"), talos.ErrNotAuthorized},
		"a cut stream":       {status.Error(codes.Internal, "stream terminated by RST_STREAM with error code: INTERNAL_ERROR"), talos.ErrOutcomeUnknown},
		"the node goes down": {status.Error(codes.Unavailable, "error reading from server: EOF"), talos.ErrOutcomeUnknown},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, "v1.13.9", noArgs)
			n.lifecycle.code, n.lifecycle.err = nil, tt.answer
			result, err := n.admin(t).Upgrade(t.Context(), "127.0.0.1", talos.UpgradeRequest{Image: installer})
			wantKind(t, err, tt.want)
			if result.Exited || !contains(err, status.Convert(tt.answer).Message()) {
				t.Errorf("result = %+v; error = %q, want the node's words in it", result, err)
			}
		})
	}
}

// A bad tag ends before the installer is asked.
func TestUpgradeOfAnImageThatIsNotThere(t *testing.T) {
	t.Parallel()
	n := newNode(t, "v1.13.9", noArgs)
	n.registry.err = status.Error(codes.NotFound, "error pulling image: x: not found")
	_, err := n.admin(t).Upgrade(t.Context(), "127.0.0.1", talos.UpgradeRequest{Image: installer})
	wantKind(t, err, talos.ErrImageNotFound)
	if calls := n.machine.seen(); len(calls) != 1 {
		t.Errorf("calls = %q, want the pull only", calls)
	}
}

// The node goes down in the middle: its connection is cut.
func TestAnUpgradeThatIsCutMayHaveHappened(t *testing.T) {
	t.Parallel()
	n := newNode(t, "v1.13.9", noArgs)
	n.lifecycle.say, n.lifecycle.code = []string{"writing\n"}, nil
	n.lifecycle.hang = func(context.Context) { go n.server.Stop() }
	n.lifecycle.err = status.Error(codes.Canceled, "")
	result, err := n.admin(t).Upgrade(t.Context(), "127.0.0.1", talos.UpgradeRequest{Image: installer})
	wantKind(t, err, talos.ErrOutcomeUnknown)
	if result.API != talos.Lifecycle || result.Exited {
		t.Errorf("result = %+v", result)
	}
}

// siderolabs/talos#14242, siderolabs/terraform-provider-talos#367: after a kexec a
// connection may stay half open, and nothing ever comes.
func TestIssue14242AHalfOpenConnectionEndsWithTheTimeout(t *testing.T) {
	t.Parallel()
	orders := map[string]func(context.Context, talos.Admin, time.Duration) error{
		"an upgrade": func(ctx context.Context, a talos.Admin, timeout time.Duration) error {
			_, err := a.Upgrade(ctx, "127.0.0.1", talos.UpgradeRequest{Image: installer, Timeout: timeout})
			return err
		},
		"a pull within a time": func(ctx context.Context, a talos.Admin, timeout time.Duration) error {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			return a.Pull(ctx, "127.0.0.1", installer, nil)
		},
	}
	for name, order := range orders {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// On a busy machine the order may not be given within the time: then there is more.
			for timeout := time.Second; ; timeout *= 3 {
				if err := frozenAt(t, order, timeout); err != nil {
					if !errors.Is(err, context.DeadlineExceeded) || strings.HasPrefix(name, "an upgrade") != errors.Is(err, talos.ErrOutcomeUnknown) {
						t.Errorf("error = %v, want the end of the time", err)
					}
					return
				}
			}
		})
	}
}

// frozenAt gives the order over a connection that freezes once the node has got
// it. It returns nil when the order never came there.
func frozenAt(t *testing.T, order func(context.Context, talos.Admin, time.Duration) error, timeout time.Duration) error {
	t.Helper()
	n := newNode(t, "v1.13.9", noArgs)
	freeze, port := newFreezer(t, n.start(t))
	var got sync.Once
	came := false
	stop := func(ctx context.Context) {
		got.Do(func() { came = true; freeze.freeze() })
		<-ctx.Done()
	}
	n.lifecycle.say, n.lifecycle.hang = []string{"writing\n"}, stop
	n.registry.hang = stop
	if strings.Contains(t.Name(), "upgrade") {
		n.registry.hang = nil
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), timeout+time.Minute, errors.New("it hangs"))
	defer cancel()
	err := order(ctx, adminOf(t, n.ca, port), timeout)
	if err == nil {
		t.Fatal("no error over a frozen connection")
	}
	n.server.Stop() // the handler is done after that
	got.Do(func() {})
	if !came {
		return nil
	}
	return err
}

// I9: the installer reads the machine config, and what it says about it may quote
// it. A talosconfig that may not read the config gets less shown.
func TestNothingOfAMachineConfigIsInTheInstallersLines(t *testing.T) {
	t.Parallel()
	const config = noArgs + "  token: hunter2secret\n  ca:\n    key: c2VjcmV0LWtleS1vZi10aGUtY2E=\n---\napiVersion: v1alpha1\nkind: WireguardConfig\nprivateKey: wg-private-key-0123\n"
	say := []string{
		"Error: yaml: line 3: cannot unmarshal !!str `hunter2secret` into int\n",
		"failed: \"c2VjcmV0LWtleS1vZi10aGUtY2E=\" is no key for factory.talos.dev\n",
		"unknown keys found during decoding:\nprivateKey: wg-private-key-0123\n    - more: wg-private-key-0123\n",
	}
	for name, denied := range map[string][]resource.Type{"config known": nil, "config not readable": {configres.MachineConfigType}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, "v1.13.9", config)
			n.lifecycle.say, n.lifecycle.code, n.denied = say, nil, denied
			n.lifecycle.err = status.Error(codes.Internal, "upgrade failed: `hunter2secret`")
			var handedOn strings.Builder
			result, err := n.admin(t).Upgrade(t.Context(), "127.0.0.1", talos.UpgradeRequest{
				Image: installer, API: talos.Lifecycle, Line: func(line string) { handedOn.WriteString(line + "\n") },
			})
			wantKind(t, err, talos.ErrInstallerFailed)
			shown := handedOn.String() + strings.Join(result.Lines, "\n") + err.Error()
			for _, secret := range []string{"hunter2", "c2VjcmV0", "wg-private"} {
				if strings.Contains(shown, secret) {
					t.Errorf("%q is shown in\n%s", secret, shown)
				}
			}
			for _, keep := range []string{"yaml: line 3", "is no key for factory.talos.dev", "privateKey:", "more:"} {
				if !strings.Contains(shown, keep) {
					t.Errorf("%q is not kept in\n%s", keep, shown)
				}
			}
		})
	}
}
