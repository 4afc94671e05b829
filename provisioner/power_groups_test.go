package provisioner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory/identity"
)

// admission is one node that was let in.
type admission struct {
	at   time.Time
	name string
}

// queue is a window and who was let in, in the order in which they were.
type queue struct {
	window *PowerWindow
	mu     sync.Mutex
	let    []admission
	work   sync.WaitGroup
}

// join has a node wait, and returns when it does.
func (q *queue) join(ctx context.Context, name string, groups ...PowerGroup) {
	q.work.Go(func() {
		if q.window.Wait(ctx, groups...) != nil {
			return
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		q.let = append(q.let, admission{time.Now(), name})
	})
	synctest.Wait()
}

// order is who was let in so far, and after how many seconds.
func (q *queue) order(since time.Time) []string {
	synctest.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	list := make([]string, 0, len(q.let))
	for _, a := range q.let {
		list = append(list, fmt.Sprintf("%s %.0f", a.name, a.at.Sub(since).Seconds()))
	}
	return list
}

// Who waits longest goes first, unless a group of it is full: that holds nobody else up.
func TestI10AFullGroupHoldsUpItsOwnNodesAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rack, chassis := PowerGroup{"rack r1", 2}, PowerGroup{"chassis S1", 1}
		q := &queue{window: NewPowerWindow(Power{Parallel: 3, Window: 10 * time.Second})}
		start := time.Now()
		q.join(t.Context(), "a", rack, chassis)
		q.join(t.Context(), "b", rack, chassis) // the chassis is full
		q.join(t.Context(), "c", rack)
		q.join(t.Context(), "d", rack) // the rack is full
		q.join(t.Context(), "e")
		q.join(t.Context(), "f") // the window is full
		time.Sleep(time.Minute)
		want := []string{"a 0", "c 0", "e 0", "b 10", "d 10", "f 10"}
		got := q.order(start)
		slices.Sort(got[3:]) // those of one instant
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("let in, with the second (-want +got):\n%s", diff)
		}
		q.work.Wait()
	})
}

func TestI10WhoWaitsLongestGoesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &queue{window: NewPowerWindow(Power{Parallel: 1, Window: 10 * time.Second})}
		start := time.Now()
		for _, name := range []string{"a", "b", "c", "d"} {
			q.join(t.Context(), name)
		}
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"a 0", "b 10", "c 20", "d 30"}, q.order(start)); diff != "" {
			t.Errorf("let in, with the second (-want +got):\n%s", diff)
		}
	})
}

// Whoever gives up while it waits takes no place, and holds nobody up.
func TestI10WhoeverGivesUpWhileItWaitsFreesItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &queue{window: NewPowerWindow(Power{Parallel: 1, Window: 10 * time.Second})}
		start := time.Now()
		impatient, giveUp := context.WithCancel(t.Context())
		q.join(t.Context(), "a")
		q.join(impatient, "b")
		q.join(impatient, "c")
		q.join(t.Context(), "d")
		time.Sleep(5 * time.Second)
		giveUp()
		if q.window.Free() {
			t.Error("it is free, and the window is full")
		}
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"a 0", "d 10"}, q.order(start)); diff != "" {
			t.Errorf("let in, with the second (-want +got):\n%s", diff)
		}
		if !q.window.Free() {
			t.Error("after all it is not free")
		}
	})
}

// New limits hold for those who wait already.
func TestI10NewLimitsHoldForThoseWhoWait(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		next Power
		want []string
	}{
		"more at once":    {Power{Parallel: 3, Window: 10 * time.Second}, []string{"a 0", "b 5", "c 5", "d 10"}},
		"a longer window": {Power{Parallel: 1, Window: 20 * time.Second}, []string{"a 0", "b 20", "c 40", "d 60"}},
		"a shorter one":   {Power{Parallel: 1, Window: 5 * time.Second}, []string{"a 0", "b 5", "c 10", "d 15"}},
		"no window":       {Power{Parallel: 1}, []string{"a 0", "b 5", "c 5", "d 5"}},
		"none is one":     {Power{Window: 10 * time.Second}, []string{"a 0", "b 10", "c 20", "d 30"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := &queue{window: NewPowerWindow(Power{Parallel: 1, Window: 10 * time.Second})}
				start := time.Now()
				for _, who := range []string{"a", "b", "c", "d"} {
					q.join(t.Context(), who)
				}
				time.Sleep(5 * time.Second)
				q.window.SetLimits(tt.next)
				time.Sleep(2 * time.Minute)
				got := q.order(start)
				slices.Sort(got)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("let in, with the second (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// What others switched on counts until it is as old as the window is long.
func TestI10PowerOnsOfOthersCountAsLongAsTheWindow(t *testing.T) {
	t.Parallel()
	rack := PowerGroup{"rack r1", 1}
	for name, tt := range map[string]struct {
		ago  time.Duration
		want string
	}{
		"just now":                           {0, "a 10"},
		"a while ago":                        {7 * time.Second, "a 3"},
		"as long ago as the window is":       {10 * time.Second, "a 0"},
		"long ago":                           {time.Hour, "a 0"},
		"in the future: the clock went back": {-time.Hour, "a 10"},
	} {
		for _, groups := range [][]PowerGroup{nil, {rack}} {
			t.Run(fmt.Sprint(name, groups), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					parallel := 1 + 8*len(groups) // with a group it is the group that is full
					q := &queue{window: NewPowerWindow(Power{Parallel: parallel, Window: 10 * time.Second})}
					start := time.Now()
					q.window.Note(start.Add(-tt.ago), groups...)
					q.join(t.Context(), "a", groups...)
					time.Sleep(time.Minute)
					if diff := cmp.Diff([]string{tt.want}, q.order(start)); diff != "" {
						t.Errorf("let in, with the second (-want +got):\n%s", diff)
					}
				})
			})
		}
	}
}

// The groups of a node are its chassis, by the serial that its boards share, and its rack.
func TestTheBreakersOfANodeAreItsChassisAndItsRack(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"rack": "r7"}
	both := Power{PerChassis: 2, PerRack: 3, RackLabel: "rack"}
	for name, tt := range map[string]struct {
		power  Power
		labels map[string]string
		serial string
		want   []PowerGroup
	}{
		"both":                          {both, labels, " s1 ", []PowerGroup{{"chassis S1", 2}, {"rack r7", 3}}},
		"no limit of a chassis":         {Power{PerRack: 3, RackLabel: "rack"}, labels, "S1", []PowerGroup{{"rack r7", 3}}},
		"no limit of a rack":            {Power{PerChassis: 2, RackLabel: "rack"}, labels, "S1", []PowerGroup{{"chassis S1", 2}}},
		"a placeholder is no chassis":   {both, labels, "To be filled by O.E.M.", []PowerGroup{{"rack r7", 3}}},
		"without the label, in no rack": {both, nil, "S1", []PowerGroup{{"chassis S1", 2}}},
		"another label":                 {Power{PerRack: 3, RackLabel: "row"}, labels, "S1", nil},
	} {
		c := atWork(t, Identified, stepNone)
		c.SetLimits(tt.power, Budgets{})
		n := c.nodes["a/node-1"]
		n.Labels, n.record.Facts = tt.labels, identity.Facts{Serial: tt.serial}
		if diff := cmp.Diff(tt.want, n.powerGroups()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// In no stretch of time as long as the window are more nodes let in than the limits of
// the fleet and of each group say, whatever comes, gives up, or is told by others; and
// whoever stays gets in.
func TestI10NoWindowHasMorePowerOnsThanItsLimits(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomWindow(t, rand.New(rand.NewPCG(seed, 3))) }) //nolint:gosec // a test's own dice
		})
	}
}

func randomWindow(t *testing.T, rng *rand.Rand) {
	t.Helper()
	limits := Power{Parallel: 1 + rng.IntN(4), Window: time.Duration(1+rng.IntN(20)) * time.Second}
	groups := []PowerGroup{{"rack r1", 1 + rng.IntN(3)}, {"rack r2", 1 + rng.IntN(3)}, {"chassis S1", 1 + rng.IntN(2)}, {"chassis S2", 1}}
	of := map[string][]PowerGroup{}
	q := &queue{window: NewPowerWindow(limits)}
	stay := 0
	for range rng.IntN(limits.Parallel + 1) { // by an earlier controller
		at := time.Now().Add(-time.Duration(rng.IntN(20_000)) * time.Millisecond)
		q.window.Note(at)
		q.let = append(q.let, admission{at, "before"})
	}
	slices.SortFunc(q.let, func(a, b admission) int { return a.at.Compare(b.at) })
	for i := range 60 {
		name := fmt.Sprintf("n%02d", i)
		for _, g := range groups {
			if rng.IntN(3) == 0 {
				of[name] = append(of[name], g)
			}
		}
		ctx := t.Context()
		switch rng.IntN(5) {
		case 0: // it gives up
			bounded, cancel := context.WithTimeout(ctx, time.Duration(1+rng.IntN(30))*time.Second)
			defer cancel()
			ctx = bounded
		default:
			stay++
		}
		q.join(ctx, name, of[name]...)
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
	}
	q.work.Wait()
	byGroup := map[PowerGroup][]time.Time{}
	in := map[string]bool{}
	for _, a := range q.let {
		in[a.name] = true
		for _, g := range append([]PowerGroup{{"", limits.Parallel}}, of[a.name]...) {
			byGroup[g] = append(byGroup[g], a.at)
		}
	}
	if len(in) < stay {
		t.Errorf("%d of those who stayed got in, want %d at least", len(in), stay)
	}
	for g, times := range byGroup {
		for i := g.Limit; i < len(times); i++ {
			if gap := times[i].Sub(times[i-g.Limit]); gap < limits.Window {
				t.Errorf("%v: %d nodes in %s, and the window is %s", g, g.Limit+1, gap, limits.Window)
			}
		}
	}
}
