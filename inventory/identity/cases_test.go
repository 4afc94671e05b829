package identity_test

import (
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory/identity"
)

// asked reads the facts out of an iPXE query string as the boot services do.
func asked(t *testing.T, query string) identity.Facts {
	t.Helper()
	v, err := url.ParseQuery(query)
	if err != nil {
		t.Fatalf("parse query %q: %v", query, err)
	}
	return identity.Facts{
		Serial:      v.Get("serial"),
		BoardSerial: v.Get("board-serial"),
		UUID:        v.Get("uuid"),
		MACs:        v["mac"],
	}
}

func candidate(name string, facts ...identity.Facts) identity.Candidate {
	return identity.Candidate{Name: name, Facts: facts}
}

func check(t *testing.T, got, want identity.Verdict) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
}

// chassis is four Supermicro boards in one chassis: the serials of system and
// chassis are shared, the board serial is not.
func chassis(uuids ...string) []identity.Candidate {
	nodes := make([]identity.Candidate, 0, 4)
	for i, digit := range []string{"1", "2", "3", "4"} {
		nodes = append(nodes, candidate("node-0"+digit, identity.Facts{
			Serial: "S100000X0000001", ChassisSerial: "C100000AA000001",
			BoardSerial: "ZM000S00000" + digit, UUID: uuids[i%len(uuids)],
		}))
	}
	return nodes
}

func TestT2FourNodesOfOneChassis(t *testing.T) {
	t.Parallel()
	own := []string{
		"00000000-0000-0000-0000-0CC47A000001", "00000000-0000-0000-0000-0CC47A000002",
		"00000000-0000-0000-0000-0CC47A000003", "00000000-0000-0000-0000-0CC47A000004",
	}
	third := identity.Verdict{
		Outcome: identity.Match, Name: "node-03", Key: identity.KeyBoardSerial, Value: "ZM000S000003",
		Reason: "the machine is node-03 by board serial ZM000S000003",
	}
	tests := map[string]struct {
		nodes []identity.Candidate
		query string
		want  identity.Verdict
	}{
		"board serial picks the third": {chassis(own...), "serial=S100000X0000001&board-serial=ZM000S000003", third},
		"so it does when the UUIDs are equal too (sidero#930)": {
			chassis(own[0]), "serial=S100000X0000001&board-serial=ZM000S000003&uuid=00000000-0000-0000-0000-0cc47a000001", third,
		},
		"the chassis serial alone identifies nobody": {chassis(own...), "serial=S100000X0000001", identity.Verdict{
			Outcome: identity.Conflict, Names: []string{"node-01", "node-02", "node-03", "node-04"},
			Key: identity.KeySerial, Value: "S100000X0000001",
			Reason: "serial S100000X0000001 is shared by node-01, node-02, node-03 and node-04 and nothing else tells them apart: " +
				"give each node its boardSerial, uuid or mac, or a bmc.address to learn them from",
		}},
		"a fifth board of the chassis is none of the four": {chassis(own...), "serial=S100000X0000001&board-serial=ZM000S000005", identity.Verdict{
			Outcome: identity.Conflict, Names: []string{"node-01", "node-02", "node-03", "node-04"},
			Key: identity.KeySerial, Value: "S100000X0000001",
			Reason: "serial S100000X0000001 is shared by node-01, node-02, node-03 and node-04 and nothing else tells them apart: " +
				"give each node its boardSerial, uuid or mac, or a bmc.address to learn them from",
		}},
		"nor is it the only node that is in the inventory": {chassis(own...)[:1], "serial=S100000X0000001&board-serial=ZM000S000005", identity.Verdict{
			Outcome: identity.Conflict, Names: []string{"node-01"}, Key: identity.KeyBoardSerial, Value: "ZM000S000005",
			Reason: "serial S100000X0000001 is node-01's, but the machine's board serial is ZM000S000005 and not ZM000S000001: " +
				"if the board was replaced, correct boardSerial of node-01; if not, this is another machine of the same chassis",
		}},
		"Talos shows no board serial, the UUID decides": {chassis(own...), "serial=S100000X0000001&uuid=00000000-0000-0000-0000-0cc47a000002", identity.Verdict{
			Outcome: identity.Match, Name: "node-02", Key: identity.KeyUUID, Value: "00000000-0000-0000-0000-0cc47a000002",
			Reason: "the machine is node-02 by UUID 00000000-0000-0000-0000-0cc47a000002",
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, identity.NewIndex(test.nodes).Match(asked(t, test.query)), test.want)
		})
	}
}

func TestT3BlankSerialsIdentifyNobody(t *testing.T) {
	t.Parallel()
	blank := func(uuid string) identity.Facts {
		return identity.Facts{Serial: "          ", BoardSerial: "          ", UUID: uuid}
	}
	x := identity.NewIndex([]identity.Candidate{
		candidate("node-01", blank("00000000-0000-0000-0000-0CC47A000001")),
		candidate("node-02", blank("00000000-0000-0000-0000-0CC47A000002")),
	})

	check(t, x.Match(blank("00000000-0000-0000-0000-0CC47A000002")), identity.Verdict{
		Outcome: identity.Match, Name: "node-02", Key: identity.KeyUUID, Value: "00000000-0000-0000-0000-0cc47a000002",
		Reason: "the machine is node-02 by UUID 00000000-0000-0000-0000-0cc47a000002",
	})
	check(t, x.Match(blank("")), identity.Verdict{
		Reason: "the machine shows no usable serial, board serial, UUID or MAC (blank values and placeholders identify nothing): " +
			"look at it through its BMC, or give its node a bmc.address",
	})
	if got := x.Collisions(); len(got) != 0 {
		t.Errorf("blank serials collide: %v", got)
	}
}

func TestT4UUIDInEitherByteOrder(t *testing.T) {
	t.Parallel()
	x := identity.NewIndex([]identity.Candidate{
		candidate("node-01", identity.Facts{UUID: "005CB4E7-0989-EB11-8000-7CC255000001"}),
	})
	check(t, x.Match(asked(t, "uuid=e7b45c00-8909-11eb-8000-7cc255000001")), identity.Verdict{
		Outcome: identity.Match, Name: "node-01", Key: identity.KeyUUID, Value: "e7b45c00-8909-11eb-8000-7cc255000001",
		Reason: "the machine is node-01 by UUID e7b45c00-8909-11eb-8000-7cc255000001",
	})
}

func TestT5DellCompositeBoardSerial(t *testing.T) {
	t.Parallel()
	x := identity.NewIndex([]identity.Candidate{
		candidate("node-01", identity.Facts{
			Serial: "ABC1234", BoardSerial: "CN0000000A0001", ChassisSerial: "ENC9999",
			UUID: "44454c4c-4200-1043-8031-b2c04f333334", // the BMC's smbiosGUID
		}),
		candidate("node-02", identity.Facts{Serial: "ABC1235", BoardSerial: "CN0000000A0002", ChassisSerial: "ENC9999"}),
	})
	for _, query := range []string{
		"serial=ABC1234&board-serial=.ABC1234.CN0000000A0001.01a.&uuid=4c4c4544-0042-4310-8031-b2c04f333334",
		"serial=ABC1234&board-serial=/ABC1234/CN0000000A0001/",
		"board-serial=%2FABC1234%2FCN0000000A0001%2F%20%20",
	} {
		check(t, x.Match(asked(t, query)), identity.Verdict{
			Outcome: identity.Match, Name: "node-01", Key: identity.KeyBoardSerial, Value: "CN0000000A0001",
			Reason: "the machine is node-01 by board serial CN0000000A0001",
		})
	}

	replaced := x.Match(asked(t, "serial=ABC1234&board-serial=.ABC1234.CN0000000A0009.01a."))
	check(t, replaced, identity.Verdict{
		Outcome: identity.Conflict, Names: []string{"node-01"}, Key: identity.KeyBoardSerial, Value: "CN0000000A0009",
		Reason: "serial ABC1234 is node-01's, but the machine's board serial is CN0000000A0009 and not CN0000000A0001: " +
			"if the board was replaced, correct boardSerial of node-01; if not, this is another machine of the same chassis",
	})
}

func TestT6HPEBoardSerialWithPercent(t *testing.T) {
	t.Parallel()
	x := identity.NewIndex([]identity.Candidate{
		candidate("node-01", identity.Facts{Serial: "MXQ0000001", BoardSerial: "PWAMT%%LMB0001"}),
		candidate("node-02", identity.Facts{Serial: "MXQ0000002", BoardSerial: "PWAMT%%LM/B N02"}),
	})
	check(t, x.Match(asked(t, "board-serial=PWAMT%25%25LMB0001")), identity.Verdict{
		Outcome: identity.Match, Name: "node-01", Key: identity.KeyBoardSerial, Value: "PWAMT%%LMB0001",
		Reason: "the machine is node-01 by board serial PWAMT%%LMB0001",
	})
	check(t, x.Match(asked(t, "board-serial=PWAMT%25%25LM/B%20N02%20%20")), identity.Verdict{
		Outcome: identity.Match, Name: "node-02", Key: identity.KeyBoardSerial, Value: "PWAMT%%LM/B N02",
		Reason: "the machine is node-02 by board serial PWAMT%%LM/B N02",
	})
}

func TestT11SharedChassisSerial(t *testing.T) {
	t.Parallel()
	node := func(name, board string) identity.Candidate {
		return candidate(name, identity.Facts{Serial: "S16600000000001", BoardSerial: board, ChassisSerial: "CF400AE00N00001"})
	}
	two := identity.NewIndex([]identity.Candidate{node("node-01", "VM100S000001"), node("node-02", "VM100S000002")})
	for name, board := range map[string]string{"node-01": "VM100S000001", "node-02": "VM100S000002"} {
		check(t, two.Match(identity.Facts{Serial: "S16600000000001", BoardSerial: board}), identity.Verdict{
			Outcome: identity.Match, Name: name, Key: identity.KeyBoardSerial, Value: board,
			Reason: "the machine is " + name + " by board serial " + board,
		})
	}

	// I1: a board is one machine; both nodes are frozen, the third goes on.
	twice := identity.NewIndex([]identity.Candidate{
		node("node-01", "VM100S000001"), node("node-02", "VM100S000001"), node("node-03", "VM100S000003"),
	})
	check(t, twice.Match(identity.Facts{Serial: "S16600000000001", BoardSerial: "vm100s000001 "}), identity.Verdict{
		Outcome: identity.Conflict, Names: []string{"node-01", "node-02"}, Key: identity.KeyBoardSerial, Value: "VM100S000001",
		Reason: "board serial VM100S000001 is claimed by node-01 and node-02: a board is one machine, " +
			"so none of them is touched until one boardSerial, serial or bmc.address is corrected",
	})
	if got := twice.Match(identity.Facts{Serial: "S16600000000001", BoardSerial: "VM100S000003"}); got.Name != "node-03" {
		t.Errorf("the third node is held up: %+v", got)
	}
	want := []identity.Collision{
		{Key: identity.KeyBoardSerial, Value: "VM100S000001", Names: []string{"node-01", "node-02"}},
		{Key: identity.KeySerial, Value: "S16600000000001", Names: []string{"node-01", "node-02", "node-03"}},
		{Key: identity.KeyChassisSerial, Value: "CF400AE00N00001", Names: []string{"node-01", "node-02", "node-03"}},
	}
	if diff := cmp.Diff(want, twice.Collisions()); diff != "" {
		t.Errorf("collisions (-want +got):\n%s", diff)
	}
}

func TestT12bDellBoardSerialAgainstInventorySerial(t *testing.T) {
	t.Parallel()
	query := asked(t, "board-serial=/F54P1G3/CNIVC0014M0388/")
	for serial, key := range map[string]identity.Key{
		"CNIVC0014M0388": identity.KeyBoardSerial,
		"F54P1G3":        identity.KeySerial,
	} {
		x := identity.NewIndex([]identity.Candidate{
			candidate("node-01", identity.Facts{Serial: serial}),
			candidate("node-02", identity.Facts{Serial: "F54P1G4"}),
		})
		check(t, x.Match(query), identity.Verdict{
			Outcome: identity.Match, Name: "node-01", Key: key, Value: serial,
			Reason: "the machine is node-01 by " + string(key) + " " + serial,
		})
	}
}
