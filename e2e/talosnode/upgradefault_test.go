package talosnode_test

import (
	"strings"
	"testing"

	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/client"
	"github.com/siderolabs/talos/pkg/machinery/config/generate"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"google.golang.org/grpc/codes"

	"github.com/talos-provision/provision/e2e/talosnode"
)

func imageOf(version string) string {
	return "factory.talos.dev/metal-installer/" + schematic + ":" + version
}

// lifecycle pulls and installs, and returns the exit code and what was said.
func lifecycle(t *testing.T, c *client.Client, image string) (code int32, said string) {
	t.Helper()
	pull, err := c.ImageClient.Pull(t.Context(), &machine.ImageServicePullRequest{ImageRef: image})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pull.Recv(); err != nil {
		t.Fatal(err)
	}
	stream, err := c.LifecycleClient.Upgrade(t.Context(), &machine.LifecycleServiceUpgradeRequest{
		Source: &machine.InstallArtifactsSource{ImageName: image},
	})
	if err != nil {
		t.Fatal(err)
	}
	code = -1
	for {
		answer, err := stream.Recv()
		if err != nil {
			return code, said
		}
		said += answer.GetProgress().GetMessage()
		if exit, ok := answer.GetProgress().GetResponse().(*machine.LifecycleServiceInstallProgress_ExitCode); ok {
			code = exit.ExitCode
		}
	}
}

func TestTheInstallerRefusesHostsThatAreTooOldOrTooNew(t *testing.T) {
	t.Parallel()
	m := ready(t, talosnode.Config{})
	for version, want := range map[string]string{
		"v1.11.6": "pre-flight checks failed: host version 1.13.9 is too new to downgrade to Talos 1.11.6",
		"v1.16.0": "pre-flight checks failed: upgrades to version 1.16.0 are not supported",
	} {
		code, said := lifecycle(t, m.admin, imageOf(version))
		if code != 1 || !strings.HasSuffix(strings.TrimSpace(said), want) {
			t.Errorf("%s: exit code %d, %s", version, code, said)
		}
	}
	if got := m.disk.State(); got.Version != "v1.13.9" || got.Unproven {
		t.Errorf("the disk holds %+v", got)
	}
	old := readyWith(t, newPKI(t), "v1.10.9", talosnode.Config{})
	before := mustBootID(t, old)
	if _, err := old.admin.MachineClient.Upgrade(t.Context(), &machine.UpgradeRequest{Image: imageOf("v1.13.9")}); err != nil { //nolint:staticcheck // what old nodes have
		t.Fatal(err)
	}
	eventually(t, "the upgrade of the old one ends", runs(old.admin, true))
	if now := mustBootID(t, old); now != before {
		t.Error("a node whose installer refused has rebooted")
	}
}

func TestAPullOfWhatIsNotPublishedFails(t *testing.T) {
	t.Parallel()
	m := ready(t, talosnode.Config{Releases: []string{"v1.13.9", "v1.14.1"}})
	for image, published := range map[string]bool{imageOf("v1.14.1"): true, imageOf("v1.14.7"): false, imageOf("latest"): false} {
		//nolint:staticcheck // what old clients do
		_, err := m.admin.MachineClient.ImagePull(t.Context(), &machine.ImagePullRequest{Reference: image})
		if (err == nil) != published || err != nil && (answerOf(err).Code != codes.NotFound || !strings.Contains(err.Error(), "not found")) {
			t.Errorf("the older pull of %s: %v", image, err)
		}
		stream, err := m.admin.ImageClient.Pull(t.Context(), &machine.ImageServicePullRequest{ImageRef: image})
		if err == nil {
			_, err = stream.Recv()
		}
		if (err == nil) != published {
			t.Errorf("the pull of %s: %v", image, err)
		}
	}
}

// booted tells how a node says that it was booted.
func howBooted(t *testing.T, c *client.Client) (secure, uki bool, entry, fallback string) {
	t.Helper()
	security, err := safe.StateGetByID[*runtime.SecurityState](t.Context(), c.COSI, runtime.SecurityStateID)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := safe.StateGetByID[*runtime.BootedEntry](t.Context(), c.COSI, runtime.BootedEntryID); err == nil {
		entry = r.TypedSpec().BootedEntry
	}
	if r, err := safe.StateGetByID[*runtime.MetaKey](t.Context(), c.COSI, runtime.MetaKeyTagToID(6)); err == nil {
		fallback = r.TypedSpec().Value
	}
	return security.TypedSpec().SecureBoot, security.TypedSpec().BootedWithUKI, entry, fallback
}

func TestANodeTellsHowItWasBootedAndWhereItGoesBackTo(t *testing.T) {
	t.Parallel()
	m := ready(t, talosnode.Config{SecureBoot: true})
	if secure, uki, entry, fallback := howBooted(t, m.admin); !secure || !uki || entry != "Talos-v1.13.9.efi" || fallback != "" {
		t.Errorf("before: Secure Boot %t, UKI %t, entry %q, fallback %q", secure, uki, entry, fallback)
	}
	if code, said := lifecycle(t, m.admin, imageOf("v1.14.1")); code != 0 {
		t.Fatal(code, said)
	}
	if _, _, _, fallback := howBooted(t, m.admin); fallback != "Talos-v1.13.9.efi" {
		t.Errorf("written, and the fallback is %q", fallback)
	}
	before := mustBootID(t, m)
	if err := m.admin.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	tagAfterReset(t, m, before)
	if _, _, entry, fallback := howBooted(t, m.admin); entry != "Talos-v1.14.1.efi" || fallback != "" {
		t.Errorf("after: entry %q, fallback %q", entry, fallback)
	}
}

// siderolabs/talos#13967: GRUB's command line loses them by the newer call.
func TestIssue13967OnlyTheOlderCallKeepsExtraKernelArgs(t *testing.T) {
	t.Parallel()
	for name, legacy := range map[string]bool{"legacy": true, "lifecycle": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pki := newPKI(t, generate.WithInstallExtraKernelArgs([]string{"mitigations=off"}))
			m := readyWith(t, pki, "v1.13.9", talosnode.Config{GRUB: true})
			before := mustBootID(t, m)
			if legacy {
				if _, err := m.admin.MachineClient.Upgrade(t.Context(), &machine.UpgradeRequest{Image: imageOf("v1.14.1")}); err != nil { //nolint:staticcheck // the older call
					t.Fatal(err)
				}
			} else {
				if code, said := lifecycle(t, m.admin, imageOf("v1.14.1")); code != 0 {
					t.Fatal(code, said)
				}
				if err := m.admin.Reboot(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			tagAfterReset(t, m, before)
			cmdline, err := safe.StateGetByID[*runtime.KernelCmdline](t.Context(), m.admin.COSI, runtime.KernelCmdlineID)
			if err != nil || strings.Contains(cmdline.TypedSpec().Cmdline, "mitigations=off") != legacy {
				t.Errorf("command line %v, %v", cmdline, err)
			}
		})
	}
}
