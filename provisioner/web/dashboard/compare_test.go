package dashboard_test

import (
	"strings"
	"testing"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
	"github.com/talos-provision/provision/provisioner/web/dashboard/dashboardtest"
)

func TestWhatObserversSayIsComparedInWords(t *testing.T) {
	t.Parallel()
	facts := func(serial, board, uuid, mac string) identity.Facts {
		f := identity.Facts{Serial: serial, BoardSerial: board, UUID: uuid}
		if mac != "" {
			f.MACs = strings.Split(mac, " ")
		}
		return f
	}
	const uuid, swapped = "005cb4e7-0989-eb11-8000-7cc255000001", "E7B45C00-8909-11EB-8000-7CC255000001"
	for _, tc := range []struct {
		name                     string
		inventory, bmc, firmware identity.Facts
		want                     []string
	}{
		{"all agree", facts("A1B2C3", "", "", ""), facts("a1b2c3 ", "", "", ""), facts("A1B2C3", "", "", ""), []string{"Serial A1B2C3 a1b2c3 A1B2C3 – = equal", "BMC : it is the node's machine: serial"}},
		{"another serial", facts("A1B2C3", "", "", ""), facts("X9Y8Z7", "", "", ""), facts("", "", "", ""), []string{"Serial A1B2C3 X9Y8Z7 – – ≠ different", "this is another machine"}},
		{"the inventory names the board", facts("BRD0001", "", "", ""), facts("CHS0001", "BRD0001", "", ""), facts("", "", "", ""), []string{"= equal to its board serial", "Board serial – BRD0001 – – only the BMC says"}},
		{"a UUID in both byte orders", facts("", "", uuid, ""), facts("", "", swapped, ""), facts("", "", "", ""), []string{"UUID " + uuid + " " + swapped + " – – = equal"}},
		{"a placeholder", facts("", "", "", ""), facts("To be filled by O.E.M.", "", "", ""), facts("", "", "", ""), []string{"a placeholder: it identifies nothing"}},
		{"cards that each sees some of", facts("", "", "", "52:54:00:00:00:01"), facts("", "", "", "52-54-00-00-00-01 525400000002"), facts("", "", "", "52:54:00:00:00:01"), []string{"MAC 52:54:00:00:00:01 52:54:00:00:00:01, 52:54:00:00:00:02 52:54:00:00:00:01 – = equal, as far as each sees"}},
		{"other cards", facts("", "", "", "52:54:00:00:00:01"), facts("", "", "", "52:54:00:00:00:02"), facts("", "", "", ""), []string{"≠ different"}},
		{"the BMC's address alone", facts("", "", "", ""), facts("A1B2C3", "", "", ""), facts("", "", "", ""), []string{"it is the node's by bmc.address alone"}},
	} {
		data := dashboardtest.Data{
			Fleet: []web.InventoryNode{{Cluster: "c", Node: "n", Facts: tc.inventory}},
			Nodes: []store.Node{{Cluster: "c", Name: "n", State: "Identified", Facts: tc.bmc}},
			Boots: map[string]store.Boot{"c/n": {Facts: tc.firmware}},
		}
		said := unescaped(words(serve(t, data, nil).get("/nodes/c/n")))
		for _, want := range tc.want {
			if !strings.Contains(said, want) {
				t.Errorf("%s: the page does not say %q: %s", tc.name, want, said)
			}
		}
	}
}

func TestANodesPageSaysByWhatItIsToldFromAllOthers(t *testing.T) {
	t.Parallel()
	const chassis, board, uuid = "CHS0001", "BRD0002", "005cb4e7-0989-eb11-8000-7cc255000001"
	record := store.Node{
		Cluster: "c", Name: "n", State: "Maintenance", IdentifiedBy: identity.KeyBoardSerial,
		Facts:      identity.Facts{Serial: chassis, BoardSerial: board, UUID: uuid},
		TalosFacts: identity.Facts{Serial: chassis, UUID: uuid},
	}
	fleet := []web.InventoryNode{{Cluster: "c", Node: "n", Facts: identity.Facts{Serial: chassis}}}
	said := unescaped(words(serve(t, dashboardtest.Data{Fleet: fleet, Nodes: []store.Node{record}}, nil).get("/nodes/c/n")))
	for _, want := range []string{
		"Told from all others : by its board serial " + board, "Talos : it is the node's machine: ", "Serial CHS0001 CHS0001 – CHS0001 = equal", "UUID – " + uuid + " – " + uuid + " = equal",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the page does not say %q: %s", want, said)
		}
	}
	record.TalosFacts.Serial, record.TalosFacts.UUID = "OTHER99", "115cb4e7-0989-eb11-8000-7cc255000009"
	said = unescaped(words(serve(t, dashboardtest.Data{Fleet: fleet, Nodes: []store.Node{record}}, nil).get("/nodes/c/n")))
	if want := "Serial CHS0001 CHS0001 – OTHER99 ≠ different"; !strings.Contains(said, want) {
		t.Errorf("the page does not say %q: %s", want, said)
	}
}

func TestOnlyCollisionsThatFreezeNodesAreCounted(t *testing.T) {
	t.Parallel()
	shared := web.Collision{Key: identity.KeySerial, Value: "S1", Nodes: []string{"c/a", "c/b"}}
	frozen := web.Collision{Key: identity.KeyUUID, Value: "U1", Nodes: []string{"c/d", "c/e"}, Frozen: []string{"c/d", "c/e"}}
	for want, collisions := range map[string][]web.Collision{
		`<span id="nav-count-collisions" class="count"></span>`:  {shared},
		`<span id="nav-count-collisions" class="count">1</span>`: {shared, frozen},
	} {
		if page := serve(t, dashboardtest.Data{Collisions: collisions}, nil).get("/"); !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
}
