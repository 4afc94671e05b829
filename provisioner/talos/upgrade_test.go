package talos_test

import (
	"errors"
	"testing"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	configres "github.com/siderolabs/talos/pkg/machinery/resources/config"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/talos"
)

const (
	noArgs     = "version: v1alpha1\nmachine:\n  type: worker\n"
	withArgs   = "version: v1alpha1\nmachine:\n  install:\n    extraKernelArgs: [console=ttyS1, intel_iommu=on]\n"
	withUKIArg = withArgs + "    grubUseUKICmdline: true\n"
	// of14 has a kind of document that this client does not know.
	of14 = "apiVersion: v1alpha1\nkind: UnattendedInstallConfig\ndisk: /dev/sda\n---\n" + noArgs
)

// siderolabs/talos#13967, siderolabs/docs#699: the newer call drops
// machine.install.extraKernelArgs, so the older one is made where they are in use.
func TestIssue13967TheCallIsChosenSoThatNoArgumentIsDropped(t *testing.T) {
	t.Parallel()
	newer := []string{"pull CRI/NS_SYSTEM " + installer, "install " + installer + pinned}
	older := []string{"legacy " + installer}
	tests := map[string]struct {
		version, config string
		entry           string
		denied          []resource.Type
		request         talos.UpgradeRequest
		want            []string
	}{
		"1.9":                        {version: "v1.9.5", config: noArgs, want: older},
		"1.12":                       {version: "v1.12.11", config: withArgs, want: older},
		"1.13":                       {version: "v1.13.9", config: noArgs, want: newer},
		"1.14 with unknown kinds":    {version: "v1.14.1", config: of14, want: newer},
		"newer than this program":    {version: "v1.19.0", config: noArgs, want: newer},
		"arguments for GRUB":         {version: "v1.13.9", config: withArgs, want: older},
		"arguments, systemd-boot":    {version: "v1.13.9", config: withArgs, entry: "Talos-v1.13.9.efi", want: newer},
		"arguments, GRUB with UKI":   {version: "v1.13.9", config: withUKIArg, want: newer},
		"arguments cannot be read":   {version: "v1.13.9", config: noArgs, denied: []resource.Type{configres.MachineConfigType}, want: older},
		"staged":                     {version: "v1.13.9", config: noArgs, request: talos.UpgradeRequest{Stage: true}, want: older},
		"by force":                   {version: "v1.13.9", config: noArgs, request: talos.UpgradeRequest{Force: true}, want: older},
		"through the firmware":       {version: "v1.13.9", config: noArgs, request: talos.UpgradeRequest{Mode: talos.RebootPowercycle}, want: older},
		"asked for, dropping or not": {version: "v1.13.9", config: withArgs, request: talos.UpgradeRequest{API: talos.Lifecycle}, want: newer},
		"asked for the older":        {version: "v1.13.9", config: noArgs, request: talos.UpgradeRequest{API: talos.Legacy}, want: older},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, tt.version, tt.config)
			n.resources, n.denied = append(n.resources, bootedBy(tt.entry)), tt.denied
			tt.request.Image = installer
			result, err := n.admin(t).Upgrade(t.Context(), "127.0.0.1", tt.request)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, n.machine.seen()); diff != "" || result.Reason == "" {
				t.Errorf("calls (-want +got), because %q:\n%s", result.Reason, diff)
			}
			if want := map[bool]talos.UpgradeAPI{true: talos.Lifecycle, false: talos.Legacy}[len(tt.want) > 1]; result.API != want {
				t.Errorf("API = %q, want %q", result.API, want)
			}
			if got := n.accepted.Load(); got != 1 {
				t.Errorf("%d connections were made, want one: what was learnt holds for this machine only", got)
			}
		})
	}
}

// A version may lie: an alpha of 1.13 has no such service.
func TestUpgradeFallsBackWhereTheNewerCallIsNotThere(t *testing.T) {
	t.Parallel()
	for name, api := range map[string]talos.UpgradeAPI{"chosen": "", "asked for": talos.Lifecycle} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, "v1.13.0-alpha.2", noArgs)
			n.images, n.fake.lifecycle = nil, nil
			result, err := n.admin(t).Upgrade(t.Context(), "127.0.0.1", talos.UpgradeRequest{Image: installer, API: api})
			if api == "" && (err != nil || result.API != talos.Legacy || result.ActorID != "actor-1") {
				t.Errorf("result = %+v, %v; want the older call", result, err)
			}
			if api != "" && (!errors.Is(err, talos.ErrNotSupported) || len(n.machine.seen()) != 0) {
				t.Errorf("error = %v after %q, want ErrNotSupported and no other call", err, n.machine.seen())
			}
		})
	}
}

func TestLegacyUpgradeHandsItsOptionsOn(t *testing.T) {
	t.Parallel()
	n := newNode(t, "v1.12.11", noArgs)
	request := talos.UpgradeRequest{Image: installer, Stage: true, Force: true, Preserve: true, Mode: talos.RebootPowercycle}
	result, err := n.admin(t).Upgrade(t.Context(), "127.0.0.1", request)
	if err != nil || result.Ack != "Upgrade request received" || result.ActorID != "actor-1" || result.Exited {
		t.Errorf("result = %+v, %v", result, err)
	}
	want := &machine.UpgradeRequest{Image: installer, Stage: true, Force: true, Preserve: true, RebootMode: machine.UpgradeRequest_POWERCYCLE}
	if diff := cmp.Diff(want, n.machine.request, protocmp.Transform()); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

// The refusals of the older call, as Talos words them.
func TestLegacyRefusalsAreToldApart(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer error
		want   error
	}{
		"two members":        {unknown("error validating etcd for upgrade: etcd member count(2) is insufficient to maintain quorum if upgrade commences"), talos.ErrEtcdRefuses},
		"an unhealthy one":   {status.Error(codes.DeadlineExceeded, "error validating etcd for upgrade: etcd member 0001 is not healthy; all members must be healthy to perform an upgrade: context deadline exceeded"), talos.ErrEtcdRefuses},
		"another one's turn": {unknown("failed to acquire upgrade mutex: mutex: Locked by another session"), talos.ErrEtcdRefuses},
		"the same in 1.9":    {unknown("failed to acquire upgrade lock: context deadline exceeded"), talos.ErrEtcdRefuses},
		"no tag":             {unknown(`error validating installer image "x": failed to resolve reference "x": x: not found`), talos.ErrImageNotFound},
		"no schematic":       {unknown(`error validating installer image "x": unexpected status from HEAD request to https://f/v2/x: 400 Bad Request`), talos.ErrImageNotFound},
		"no registry":        {unknown(`error validating installer image "x": dial tcp: lookup f: no such host`), nil},
		"not installed":      {status.Error(codes.FailedPrecondition, "Talos is not installed"), talos.ErrNotInstalled},
		"in a container":     {status.Error(codes.FailedPrecondition, "method is not supported in container mode"), nil},
		"not allowed":        {status.Error(codes.PermissionDenied, "not authorized"), talos.ErrNotAuthorized},
		"gone in 1.18":       {status.Error(codes.Unimplemented, "gone"), talos.ErrNotSupported},
		"the answer is lost": {status.Error(codes.Unavailable, "error reading from server: EOF"), talos.ErrOutcomeUnknown},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, "v1.12.11", noArgs)
			n.machine.refusal = tt.answer
			_, err := n.admin(t).Upgrade(t.Context(), "127.0.0.1", talos.UpgradeRequest{Image: installer})
			wantKind(t, err, tt.want)
			if !contains(err, status.Convert(tt.answer).Message()) {
				t.Errorf("error = %q, want the node's words in it", err)
			}
		})
	}
}

// kinds are the kinds of failure of an upgrade. An error has one of them at most.
var kinds = []error{
	talos.ErrImageNotFound, talos.ErrUpgradeInProgress, talos.ErrNotInstalled, talos.ErrInstallerFailed, talos.ErrEtcdRefuses,
	talos.ErrNotSupported, talos.ErrNotAuthorized, talos.ErrOutcomeUnknown, talos.ErrRollbackRefused, talos.ErrNotConfirmed,
}

func wantKind(t *testing.T, err, want error) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, kind := range kinds {
		if errors.Is(err, kind) != errors.Is(want, kind) {
			t.Errorf("error = %q is %q: %t", err, kind, errors.Is(err, kind))
		}
	}
}

// I5: each change is confirmed over the connection that it uses.
func TestNothingIsChangedOnAMachineThatIsNotConfirmed(t *testing.T) {
	t.Parallel()
	changes := map[string]func(talos.Admin) error{
		"Pull":     func(a talos.Admin) error { return a.Pull(t.Context(), "127.0.0.1", installer, nil) },
		"Rollback": func(a talos.Admin) error { return a.Rollback(t.Context(), "127.0.0.1") },
		"Upgrade": func(a talos.Admin) error {
			_, err := a.Upgrade(t.Context(), "127.0.0.1", talos.UpgradeRequest{Image: installer})
			return err
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, "v1.13.9", noArgs)
			admin := n.admin(t)
			admin.Confirm = func(f identity.Facts) error {
				if f.Serial != "S-1" {
					t.Errorf("serial = %q, want that of the node", f.Serial)
				}
				return errors.New("another machine")
			}
			wantKind(t, change(admin), talos.ErrNotConfirmed)
			if calls := n.machine.seen(); len(calls) != 0 {
				t.Errorf("calls = %q, want none", calls)
			}
			admin.Confirm = func(identity.Facts) error { return nil }
			if err := change(admin); err != nil || len(n.machine.seen()) == 0 {
				t.Errorf("confirmed: %v after %q", err, n.machine.seen())
			}
		})
	}
}

func TestUpgradeRefusesWhatCannotBeAsked(t *testing.T) {
	t.Parallel()
	tests := map[string]talos.UpgradeRequest{
		"no image":            {},
		"unknown call":        {Image: installer, API: "new"},
		"staged, newer":       {Image: installer, API: talos.Lifecycle, Stage: true},
		"power cycle, newer":  {Image: installer, API: talos.Lifecycle, Mode: talos.RebootPowercycle},
		"a reboot by force":   {Image: installer, Mode: talos.RebootForce},
		"by force, the newer": {Image: installer, API: talos.Lifecycle, Force: true},
	}
	for name, request := range tests {
		// No node is needed: this is found before anybody is asked.
		if _, err := (talos.Admin{}).Upgrade(t.Context(), "127.0.0.1", request); err == nil || contains(err, "no talosconfig") {
			t.Errorf("%s: error = %v, want the request refused", name, err)
		}
	}
}

func TestRollbackTellsARefusal(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ answer, want error }{
		"no entry":  {unknown(`cannot rollback to "", label does not exist`), talos.ErrRollbackRefused},
		"no disk":   {status.Error(codes.FailedPrecondition, "system disk not found"), talos.ErrRollbackRefused},
		"a reader":  {status.Error(codes.PermissionDenied, "not authorized"), talos.ErrNotAuthorized},
		"was lost":  {status.Error(codes.Unavailable, "EOF"), talos.ErrOutcomeUnknown},
		"not there": {status.Error(codes.Unimplemented, "method Rollback not implemented"), talos.ErrNotSupported},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, "v1.13.9", noArgs)
			n.machine.err = tt.answer
			wantKind(t, n.admin(t).Rollback(t.Context(), "127.0.0.1"), tt.want)
		})
	}
}
