package identity_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory/identity"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	const (
		uuid1 = "00000000-0000-0000-0000-0cc47a000001"
		uuid2 = "00000000-0000-0000-0000-0cc47a000002"
		mac1  = "0c:c4:7a:00:00:01"
		mac2  = "0c:c4:7a:00:00:02"
	)
	tests := map[string]struct {
		nodes    []identity.Candidate
		observed identity.Facts
		want     identity.Verdict
	}{
		"nobody has it": {
			nodes:    []identity.Candidate{candidate("n1", identity.Facts{Serial: "SN-1"})},
			observed: identity.Facts{Serial: "SN-9", MACs: []string{mac1}},
			want: identity.Verdict{
				Key: identity.KeyMAC, Value: mac1,
				Reason: "no node has MAC 0c:c4:7a:00:00:01 or serial SN-9: add the machine to the inventory if it belongs there",
			},
		},
		"the inventory's serial is the board's": {
			nodes:    []identity.Candidate{candidate("n1", identity.Facts{Serial: "zm000s000001"})},
			observed: identity.Facts{Serial: "S100000X", BoardSerial: "ZM000S000001"},
			want: identity.Verdict{
				Outcome: identity.Match, Name: "n1", Key: identity.KeyBoardSerial, Value: "ZM000S000001",
				Reason: "the machine is n1 by board serial ZM000S000001",
			},
		},
		"MAC in another notation": {
			nodes:    []identity.Candidate{candidate("n1", identity.Facts{MACs: []string{"0CC4.7A00.0001"}})},
			observed: identity.Facts{MACs: []string{"0c-c4-7a-00-00-01"}},
			want: identity.Verdict{
				Outcome: identity.Match, Name: "n1", Key: identity.KeyMAC, Value: mac1,
				Reason: "the machine is n1 by MAC 0c:c4:7a:00:00:01",
			},
		},
		"a MAC that the BMC does not list contradicts nothing": {
			nodes:    []identity.Candidate{candidate("n1", identity.Facts{Serial: "SN-1", MACs: []string{mac1}})},
			observed: identity.Facts{Serial: "SN-1", MACs: []string{mac2}},
			want: identity.Verdict{
				Outcome: identity.Match, Name: "n1", Key: identity.KeySerial, Value: "SN-1",
				Reason: "the machine is n1 by serial SN-1",
			},
		},
		"a UUID that followed the network card is only told (metal-hammer#52)": {
			nodes:    []identity.Candidate{candidate("n1", identity.Facts{BoardSerial: "ZM1", UUID: uuid1})},
			observed: identity.Facts{BoardSerial: "ZM1", UUID: uuid2},
			want: identity.Verdict{
				Outcome: identity.Match, Name: "n1", Key: identity.KeyBoardSerial, Value: "ZM1",
				Reason: "the machine is n1 by board serial ZM1; its UUID is now " + uuid2 + ", not " + uuid1 +
					", which a Supermicro board does when its first network card changes",
			},
		},
		"a UUID that differs without a board serial": {
			nodes:    []identity.Candidate{candidate("n1", identity.Facts{Serial: "SN-1", UUID: uuid1})},
			observed: identity.Facts{Serial: "SN-1", UUID: uuid2},
			want: identity.Verdict{
				Outcome: identity.Conflict, Names: []string{"n1"}, Key: identity.KeyUUID, Value: uuid2,
				Reason: "serial SN-1 is n1's, but the machine's UUID is " + uuid2 + " and not " + uuid1 +
					", and no board serial settles it: give n1 its boardSerial, or correct its uuid",
			},
		},
		"a network card that was moved to another machine": {
			nodes:    []identity.Candidate{candidate("n1", identity.Facts{Serial: "SN-1", MACs: []string{mac1}})},
			observed: identity.Facts{Serial: "SN-9", MACs: []string{mac1}},
			want: identity.Verdict{
				Outcome: identity.Conflict, Names: []string{"n1"}, Key: identity.KeySerial, Value: "SN-9",
				Reason: "MAC 0c:c4:7a:00:00:01 is n1's, but the machine shows serial SN-9 and not serial SN-1: " +
					"if a card or board was moved, correct the node it came from; if not, correct serial of n1",
			},
		},
		"two nodes at once": {
			nodes: []identity.Candidate{
				candidate("n2", identity.Facts{MACs: []string{mac2}}),
				candidate("n1", identity.Facts{Serial: "SN-1"}),
			},
			observed: identity.Facts{Serial: "SN-1", MACs: []string{mac2}},
			want: identity.Verdict{
				Outcome: identity.Conflict, Names: []string{"n1", "n2"}, Key: identity.KeyMAC, Value: mac2,
				Reason: "the machine shows serial SN-1 of n1 and MAC 0c:c4:7a:00:00:02 of n2: correct the node that is wrong; " +
					"if a part was moved between machines, update both",
			},
		},
		"a shared value that is not the node's": {
			nodes: []identity.Candidate{
				candidate("n1", identity.Facts{Serial: "SN-1"}),
				candidate("n2", identity.Facts{Serial: "SN-2", MACs: []string{mac2}}),
				candidate("n3", identity.Facts{Serial: "SN-3", MACs: []string{mac2}}),
			},
			observed: identity.Facts{Serial: "SN-1", MACs: []string{mac2}},
			want: identity.Verdict{
				Outcome: identity.Conflict, Names: []string{"n1", "n2", "n3"}, Key: identity.KeyMAC, Value: mac2,
				Reason: "serial SN-1 is n1's, but the machine also shows MAC 0c:c4:7a:00:00:02, which belongs to n2 and n3: correct the node that is wrong",
			},
		},
		"one board serial at two BMCs freezes both although the UUIDs differ (I1)": {
			nodes: []identity.Candidate{
				candidate("n1", identity.Facts{BoardSerial: "ZM1", UUID: uuid1}),
				candidate("n2", identity.Facts{BoardSerial: "ZM1", UUID: uuid2}),
			},
			observed: identity.Facts{BoardSerial: "ZM1", UUID: uuid1},
			want: identity.Verdict{
				Outcome: identity.Conflict, Names: []string{"n1", "n2"}, Key: identity.KeyBoardSerial, Value: "ZM1",
				Reason: "board serial ZM1 is claimed by n1 and n2: a board is one machine, so none of them is touched until " +
					"one boardSerial, serial or bmc.address is corrected",
			},
		},
		"a chassis serial does not settle a shared serial": {
			nodes: []identity.Candidate{
				candidate("n1", identity.Facts{Serial: "SN-1"}),
				candidate("n2", identity.Facts{Serial: "SN-1", ChassisSerial: "CH-2"}),
			},
			observed: identity.Facts{Serial: "SN-1", ChassisSerial: "CH-2"},
			want: identity.Verdict{
				Outcome: identity.Conflict, Names: []string{"n1", "n2"}, Key: identity.KeySerial, Value: "SN-1",
				Reason: "serial SN-1 is shared by n1 and n2 and only chassis serial CH-2 tells them apart, which is no board's own: give each node its boardSerial, uuid or mac",
			},
		},
		"a sibling whose BMC is down does not hold up the known one": {
			nodes: []identity.Candidate{
				candidate("n1", identity.Facts{Serial: "SN-1"}),
				candidate("n2", identity.Facts{Serial: "SN-1"}, identity.Facts{Serial: "SN-1", BoardSerial: "ZM2", UUID: uuid2}),
			},
			observed: identity.Facts{Serial: "SN-1", BoardSerial: "ZM2", UUID: uuid2},
			want: identity.Verdict{
				Outcome: identity.Match, Name: "n2", Key: identity.KeyBoardSerial, Value: "ZM2",
				Reason: "the machine is n2 by board serial ZM2",
			},
		},
		"placeholders": {
			nodes:    []identity.Candidate{candidate("n1", identity.Facts{Serial: "To be filled by O.E.M.", UUID: "ffffffff-ffff-ffff-ffff-ffffffffffff"})},
			observed: identity.Facts{Serial: "To Be Filled By O.E.M.", UUID: "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", MACs: []string{"00:00:00:00:00:00"}},
			want: identity.Verdict{
				Reason: "the machine shows no usable serial, board serial, UUID or MAC (blank values and placeholders identify nothing): " +
					"look at it through its BMC, or give its node a bmc.address",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, identity.NewIndex(test.nodes).Match(test.observed), test.want)
		})
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	type answer struct {
		Key    identity.Key
		Agrees bool
		Reason string
	}
	bmc := identity.Facts{
		Serial: "S100000X0000001", BoardSerial: "ZM000S000001", ChassisSerial: "C100000AA000001",
		UUID: "005CB4E7-0989-EB11-8000-7CC255000001", MACs: []string{"7c:c2:55:00:00:01"},
	}
	tests := map[string]struct {
		expected []identity.Facts
		observed identity.Facts
		want     answer
	}{
		"the inventory names the chassis serial": {
			[]identity.Facts{{Serial: "C100000AA000001"}},
			bmc, answer{identity.KeySerial, true, "serial C100000AA000001 agrees"},
		},
		"the inventory names the board serial": {
			[]identity.Facts{{Serial: "zm000s000001"}},
			bmc, answer{identity.KeyBoardSerial, true, "board serial ZM000S000001 agrees"},
		},
		"the inventory's serial is another machine's": {[]identity.Facts{{Serial: "S1"}}, bmc, answer{
			identity.KeySerial, false, "the machine shows board serial ZM000S000001, serial S100000X0000001 and chassis serial C100000AA000001, " +
				"expected serial S1: this is another machine; correct serial, or bmc.address if it leads to the wrong machine",
		}},
		"another board of the same chassis": {
			[]identity.Facts{{Serial: "S100000X0000001", BoardSerial: "ZM000S000002"}},
			bmc,
			answer{identity.KeyBoardSerial, false, "the machine's board serial is ZM000S000001, expected ZM000S000002: " +
				"this is another board; correct boardSerial, or bmc.address if it leads to the wrong machine"},
		},
		"Talos confirms by UUID in the other byte order": {
			[]identity.Facts{{}, bmc},
			identity.Facts{Serial: "S100000X0000001", UUID: "e7b45c00-8909-11eb-8000-7cc255000001"},
			answer{identity.KeyUUID, true, "UUID e7b45c00-8909-11eb-8000-7cc255000001 agrees"},
		},
		"a wrong machine at the node's address (I5)": {
			[]identity.Facts{bmc},
			identity.Facts{Serial: "S100000X0000001", UUID: "e7b45c00-8909-11eb-8000-7cc255000009"},
			answer{identity.KeyUUID, false, "the machine's UUID is e7b45c00-8909-11eb-8000-7cc255000009, expected 005cb4e7-0989-eb11-8000-7cc255000001: " +
				"this is another machine; correct uuid, or bmc.address if it leads to the wrong machine"},
		},
		"nothing in common": {
			[]identity.Facts{{MACs: []string{"7c:c2:55:00:00:09"}}},
			identity.Facts{MACs: []string{"7c:c2:55:00:00:01"}},
			answer{"", false, "the machine shows MAC 7c:c2:55:00:00:01, of which nothing is known; expected MAC 7c:c2:55:00:00:09"},
		},
		"nothing expected": {nil, bmc, answer{
			"", false, "nothing is expected of the machine, so nothing confirms it: give its node a bmc.address, serial, boardSerial, uuid or mac",
		}},
		"nothing shown": {[]identity.Facts{bmc}, identity.Facts{Serial: "Default string"}, answer{
			"", false, "the machine shows no usable serial, board serial, UUID or MAC, so nothing confirms it",
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, agrees, reason := identity.Compare(test.expected, test.observed)
			if diff := cmp.Diff(test.want, answer{key, agrees, reason}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
