package talos_test

import (
	"testing"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/google/go-cmp/cmp"
	configres "github.com/siderolabs/talos/pkg/machinery/resources/config"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"

	"github.com/talos-provision/provision/provisioner/talos"
)

func security(secureBoot, uki bool) resource.Resource {
	r := runtime.NewSecurityStateSpec(runtime.NamespaceName)
	r.TypedSpec().SecureBoot, r.TypedSpec().BootedWithUKI = secureBoot, uki
	return r
}

func metaKey(tag uint8, value string) resource.Resource {
	r := runtime.NewMetaKey(runtime.NamespaceName, runtime.MetaKeyTagToID(tag))
	r.TypedSpec().Value = value
	return r
}

// siderolabs/talos#9245: an installer for Secure Boot on a node without it, and
// the other way round. What the node booted with is told, or that it is not known.
func TestIssue9245DetailsTellSecureBoot(t *testing.T) {
	t.Parallel()
	extensions := []talos.Extension{{Name: "gvisor", Version: "2025"}, {Name: "schematic", Version: "376567"}}
	tests := map[string]struct {
		config    string
		resources []resource.Resource
		want      talos.Details
	}{
		"all": {
			config:    withUKIArg,
			resources: []resource.Resource{security(true, true), bootedBy("Talos-v1.13.9.efi"), metaKey(6, "Talos-v1.12.11.efi"), metaKey(7, "staged")},
			want: talos.Details{
				SecureBoot: true, SecureBootKnown: true, BootedWithUKI: true, BootedEntry: "Talos-v1.13.9.efi", UpgradeFallback: "Talos-v1.12.11.efi",
				Extensions: extensions, ExtraKernelArgs: []string{"console=ttyS1", "intel_iommu=on"}, GrubUseUKICmdline: true,
			},
		},
		"without Secure Boot": {config: noArgs, resources: []resource.Resource{security(false, false)}, want: talos.Details{SecureBootKnown: true, Extensions: extensions}},
		"nothing told":        {config: of14, want: talos.Details{Extensions: extensions}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, "v1.13.9", tt.config)
			n.resources = append(n.resources, tt.resources...)
			got, err := n.admin(t).Details(t.Context(), "127.0.0.1")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("details (-want +got):\n%s", diff)
			}
		})
	}
}

// siderolabs/talos#13967: when the newer call loses arguments that are in use.
func TestIssue13967DroppedArgs(t *testing.T) {
	t.Parallel()
	args := []string{"console=ttyS1"}
	tests := map[string]struct {
		details talos.Details
		want    []string
	}{
		"none":             {details: talos.Details{}},
		"GRUB":             {talos.Details{ExtraKernelArgs: args}, args},
		"GRUB, not by it":  {talos.Details{ExtraKernelArgs: args, BootedWithUKI: true}, args},
		"GRUB with UKI":    {talos.Details{ExtraKernelArgs: args, GrubUseUKICmdline: true}, nil},
		"systemd-boot":     {talos.Details{ExtraKernelArgs: args, BootedEntry: "Talos-v1.13.9.efi"}, nil},
		"an upgrade tried": {talos.Details{ExtraKernelArgs: args, UpgradeFallback: "A"}, args},
	}
	for name, tt := range tests {
		if diff := cmp.Diff(tt.want, tt.details.DroppedArgs()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDetailsThatAreNotToldAreAnError(t *testing.T) {
	t.Parallel()
	t.Run("role", func(t *testing.T) {
		t.Parallel()
		n := newNode(t, "v1.13.9", noArgs)
		n.denied = []resource.Type{configres.MachineConfigType}
		_, err := n.admin(t).Details(t.Context(), "127.0.0.1")
		wantKind(t, err, talos.ErrNotAuthorized)
	})
	t.Run("a config that cannot be read", func(t *testing.T) {
		t.Parallel()
		n := newNode(t, "v1.13.9", "machine:\n  install:\n    grubUseUKICmdline: hunter2secret\n")
		_, err := n.admin(t).Details(t.Context(), "127.0.0.1")
		wantKind(t, err, nil)
		if contains(err, "hunter2") { // I9
			t.Errorf("error = %q shows the config", err)
		}
	})
	t.Run("no config", func(t *testing.T) {
		t.Parallel()
		n := newNode(t, "v1.13.9", noArgs)
		n.resources = n.resources[:len(n.resources)-1]
		if got, err := n.admin(t).Details(t.Context(), "127.0.0.1"); err != nil || got.ExtraKernelArgs != nil {
			t.Errorf("details = %+v, %v", got, err)
		}
	})
}
