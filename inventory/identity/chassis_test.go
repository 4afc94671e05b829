package identity_test

import (
	"testing"

	"github.com/talos-provision/provision/inventory/identity"
)

// Some BMCs show only the chassis' serial, which firmware and Talos never show:
// that the two have no serial in common contradicts nothing.
func TestAChassisSerialContradictsNoSystemSerial(t *testing.T) {
	t.Parallel()
	const uuid, mac = "7a1e0000-0000-4000-8000-0cc47a000001", "0c:c4:7a:00:00:01"
	firmware := identity.Facts{Serial: "S1", BoardSerial: "B1", UUID: uuid, MACs: []string{mac}}
	for name, tc := range map[string]struct {
		known []identity.Facts
		want  identity.Outcome
	}{
		"the BMC shows the chassis only": {
			known: []identity.Facts{{}, {ChassisSerial: "C1", UUID: uuid, MACs: []string{mac}}}, want: identity.Match,
		},
		"the inventory's serial is the chassis'": {
			known: []identity.Facts{{Serial: "C1"}, {ChassisSerial: "C1", UUID: uuid, MACs: []string{mac}}}, want: identity.Match,
		},
		"the system's serial differs and only a card agrees": {
			known: []identity.Facts{{Serial: "S2"}, {Serial: "S2", ChassisSerial: "C1", MACs: []string{mac}}}, want: identity.Conflict,
		},
		"one number for system and chassis differs": {
			known: []identity.Facts{{}, {Serial: "S2", ChassisSerial: "S2", MACs: []string{mac}}}, want: identity.Conflict,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			index := identity.NewIndex([]identity.Candidate{{Name: "a/n1", Facts: tc.known}})
			if got := index.Match(firmware); got.Outcome != tc.want {
				t.Errorf("got %+v, want outcome %v", got, tc.want)
			}
		})
	}
}
