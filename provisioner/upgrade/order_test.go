package upgrade_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/provisioner/upgrade"
)

func TestOrder(t *testing.T) {
	t.Parallel()
	turns := []upgrade.Turn{
		{Node: "cp-1", ControlPlane: true, Leader: true}, {Node: "cp-2", ControlPlane: true, ServesAPI: true}, {Node: "cp-3", ControlPlane: true},
		{Node: "w-4", Chassis: "a", Label: "1"}, {Node: "w-3", Chassis: "a", Label: "1"}, {Node: "w-2", Chassis: "b", Label: "1"}, {Node: "w-1", Label: "2"}, {Node: "w-5", Label: "2"},
	}
	want := [][]string{{"w-5"}, {"w-2", "w-3"}, {"w-4"}, {"w-1"}, {"cp-3"}, {"cp-2"}, {"cp-1"}}
	if diff := cmp.Diff(want, upgrade.Order(turns, []string{"w-5"}, 2)); diff != "" {
		t.Error(diff)
	}
}

func TestShares(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		share       string
		total, want int
	}{{"1", 10, 1}, {"3", 10, 3}, {"25%", 10, 2}, {"5%", 10, 1}, {"100%", 7, 7}, {"50%", 0, 1}} {
		s, err := upgrade.ParseShare(c.share)
		if got := s.Of(c.total); err != nil || got != c.want {
			t.Errorf("%s of %d: %d, %v", c.share, c.total, got, err)
		}
	}
	for _, s := range []string{"", "0", "-1", "0%", "101%", "two", "%", "1.5"} {
		if got, err := upgrade.ParseShare(s); err == nil {
			t.Errorf("%q is read as %v", s, got)
		}
	}
	if got := (upgrade.Share{}).Of(9); got != 1 {
		t.Error(got)
	}
}

// TestOrderHoldsItsRules over random clusters: every node once; no batch too
// large, with two of a chassis, with two labels, or with a control plane and
// another; canaries first; the leader last.
func TestOrderHoldsItsRules(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test is to be repeatable
		turns := map[string]upgrade.Turn{}
		size := random.IntN(20)
		list := make([]upgrade.Turn, 0, size)
		var canaries []string
		for i := range size {
			turn := upgrade.Turn{
				Node: fmt.Sprintf("n-%d", i), ControlPlane: i < 3, Leader: i == 1, ServesAPI: i == 2,
				Chassis: []string{"", "a", "b"}[random.IntN(3)], Label: []string{"", "1", "2"}[random.IntN(3)],
			}
			if random.IntN(9) == 0 {
				canaries = append(canaries, turn.Node)
			}
			turns[turn.Node], list = turn, append(list, turn)
		}
		random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		limit := 1 + random.IntN(4)
		batches := upgrade.Order(list, canaries, limit)
		seen := map[string]bool{}
		for i, batch := range batches {
			chassis := map[string]bool{}
			for _, name := range batch {
				turn := turns[name]
				switch {
				case seen[name]:
					t.Errorf("seed %d: %s twice", seed, name)
				case i < len(canaries) && name != canaries[i]:
					t.Errorf("seed %d: %s before the canary %s", seed, name, canaries[i])
				case len(batch) > limit, turn.ControlPlane && len(batch) > 1, slices.Contains(canaries, name) && len(batch) > 1:
					t.Errorf("seed %d: batch %v", seed, batch)
				case turn.Chassis != "" && chassis[turn.Chassis]:
					t.Errorf("seed %d: %v has two of %s", seed, batch, turn.Chassis)
				case turn.Label != turns[batch[0]].Label:
					t.Errorf("seed %d: %v mixes labels", seed, batch)
				case turn.Leader && i != len(batches)-1 && !slices.Contains(canaries, name):
					t.Errorf("seed %d: the leader is not last", seed)
				}
				seen[name], chassis[turn.Chassis] = true, true
			}
		}
		if len(seen) != len(turns) {
			t.Errorf("seed %d: %d of %d nodes", seed, len(seen), len(turns))
		}
	}
}
