package talos_test

import (
	"testing"

	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/talos"
)

// siderolabs/talos#7694, #8804, siderolabs/omni#38, #1241: SMBIOS UUIDs that are
// all zero, all ones or the same in each machine. What a probe reads identifies
// a machine all the same, by its other marks, and never by such a UUID.
func TestIssue7694AMeaninglessUUIDIdentifiesNobody(t *testing.T) {
	t.Parallel()
	for _, meaningless := range []string{"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "03000200-0400-0500-0006-000700080009"} {
		t.Run(meaningless, func(t *testing.T) {
			t.Parallel()
			index := identity.NewIndex([]identity.Candidate{
				{Name: "node-01", Facts: []identity.Facts{{UUID: meaningless, Serial: "S-1"}}},
				{Name: "node-02", Facts: []identity.Facts{{UUID: meaningless, Serial: "S-2"}}},
			})
			observe := func(serial string) identity.Verdict {
				resources := machineIn(runtime.MachineStageMaintenance, serial)
				system(resources).UUID = meaningless
				return index.Match(talos.Prober{Port: (&fake{resources: resources}).start(t)}.Probe(t.Context(), "127.0.0.1").Facts)
			}
			if got := observe("S-2"); got.Outcome != identity.Match || got.Name != "node-02" {
				t.Errorf("with a serial: %+v, want node-02", got)
			}
			if got := observe("0123456789"); got.Outcome == identity.Match {
				t.Errorf("with placeholders only: %+v, want nobody", got)
			}
		})
	}
}
