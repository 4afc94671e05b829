package talos_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/talosnode"
	"github.com/talos-provision/provision/provisioner/talos"
)

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

// siderolabs/talos#5311: what answers without a client certificate depends on
// the version. The table must be what an emulated node of each version does.
func TestIssue5311CapabilitiesAreThoseOfTheVersion(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1.9.5", "v1.10.9", "v1.11.6", "v1.12.11", "v1.13.9", "v1.14.0"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			can, err := talos.CapabilitiesOf(version)
			if err != nil {
				t.Fatal(err)
			}
			o := talos.Prober{Port: portOf(startNode(t, talosnode.Start, config(version)).Addr())}.Probe(t.Context(), "127.0.0.1")
			type told struct{ Version, Cmdline bool }
			want := told{Version: can.VersionCall || can.VersionResource, Cmdline: can.CmdlineResource}
			if diff := cmp.Diff(want, told{o.Version == version, o.Cmdline != ""}); diff != "" {
				t.Errorf("told in maintenance mode (-table +node):\n%s", diff)
			}
		})
	}
}

func TestCapabilitiesOfAVersion(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		minor int
		want  string
	}{
		"v1.9.5": {minor: 9}, "1.13.9": {minor: 13}, "v1.14.0-rc.1": {minor: 14},
		"v1.8.4": {want: "not one of the versions"}, "v1.99.0": {want: "not one of the versions"},
		"v1.13": {want: "no Talos version"}, "": {want: "no Talos version"}, "v2.0.0": {want: "no Talos version"}, "latest": {want: "no Talos version"},
	}
	for version, tt := range tests {
		got, err := talos.CapabilitiesOf(version)
		if got.Minor != tt.minor || (tt.want == "") != (err == nil) || tt.want != "" && !contains(err, tt.want) {
			t.Errorf("CapabilitiesOf(%q) = %+v, %v", version, got, err)
		}
	}
}
