package inventory_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
)

func TestFactsAreWhatIdentifiesTheMachine(t *testing.T) {
	t.Parallel()
	loaded := clean(t, map[string]string{
		"c/n1.yaml": "serial: S1\nboardSerial: B1\nuuid: 00000000-0000-0000-0000-0cc47a000001\nmac: 0c:c4:7a:00:00:01\nmacs: [0c:c4:7a:00:00:02]\n",
	})
	want := identity.Facts{
		Serial: "S1", BoardSerial: "B1", UUID: "00000000-0000-0000-0000-0cc47a000001",
		MACs: []string{"0c:c4:7a:00:00:01", "0c:c4:7a:00:00:02"},
	}
	if diff := cmp.Diff(want, node(t, loaded, "n1").Facts()); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
}

func TestEqualComparesValuesOnly(t *testing.T) {
	t.Parallel()
	above := clean(t, map[string]string{"_defaults.yaml": "ntp: a\n", "c/n1.yaml": "serial: S1\n"})
	own := clean(t, map[string]string{"c/n1.yaml": "ntp: a\nserial: S1\n"})
	if !node(t, above, "n1").Equal(node(t, own, "n1")) {
		t.Error("nodes differ only in where their values came from, but are not equal")
	}
	other := clean(t, map[string]string{"c/n1.yaml": "ntp: b\nserial: S1\n"})
	if node(t, own, "n1").Equal(node(t, other, "n1")) {
		t.Error("nodes differ in ntp, but are equal")
	}
}

func TestFindingsInJSON(t *testing.T) {
	t.Parallel()
	findings := inventory.Findings{
		{Severity: inventory.Error, File: "c/n1.yaml", Line: 2, Column: 5, Field: "ip", Message: "m", Hint: "h"},
		{Severity: inventory.Warning, File: "c/n2.yaml", Message: "m"},
	}
	text, err := json.Marshal(findings)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"severity":"error","file":"c/n1.yaml","line":2,"column":5,"field":"ip","message":"m","hint":"h"},` +
		`{"severity":"warning","file":"c/n2.yaml","message":"m"}]`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	var again inventory.Findings
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(findings, again); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	if err := json.Unmarshal([]byte(`[{"severity":"fatal"}]`), &again); err == nil {
		t.Error("an unknown severity is accepted")
	}
}
