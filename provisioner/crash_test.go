package provisioner

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner/store"
)

// crash is a run over two machines in which the controller dies once.
type crash struct {
	*lab
	// at is the write, or the request to a BMC, at which it dies, from 1 on; after says that the write is done.
	at       int
	after    bool
	requests bool // count those, not writes
	counted  int
}

func newCrash(t *testing.T) *crash {
	t.Helper()
	leased := nodeOf("a", 2)
	leased.IP = ""
	k := &crash{lab: newLab(t, 1, nodeOf("a", 1), leased)}
	k.power.Parallel = 1
	k.onRecord = func(write func() error, _ store.Node) error {
		if k.requests || !k.isIt() {
			return write()
		}
		if k.after {
			if err := write(); err != nil {
				return err
			}
		}
		k.kill()
		return errKilled
	}
	k.w.hook = func(string, *machine) {
		if k.requests && k.isIt() {
			k.kill()
		}
	}
	return k
}

// isIt counts, and says when the controller dies.
func (k *crash) isIt() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.counted++
	return k.counted == k.at
}

// count is how many writes, or requests, a run has that nobody kills.
func countOfRun(t *testing.T, requests bool) (count int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := newCrash(t)
		k.requests = requests
		if _, err := k.run(k.open(), k.request("a")); err != nil {
			t.Fatal(err)
		}
		k.close()
		count = k.counted
	})
	return count
}

// I8: wherever the controller dies, before or after any write and at any request to a
// BMC, the next one goes on, and every machine is powered off once and on once. The
// one exception is a machine that was switched on, and found nobody who would have
// booted it until its boot timeout was over: it is power cycled once more.
func TestI8EachMachineIsPowerCycledOnceWhereverTheControllerDies(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		after, requests bool
		away            time.Duration
	}{
		"before a write":                       {false, false, 2 * time.Second},
		"after a write":                        {true, false, 2 * time.Second},
		"at a request":                         {false, true, 2 * time.Second},
		"before a write, and is away for long": {false, false, 20 * time.Minute},
		"after a write, and is away for long":  {true, false, 20 * time.Minute},
		"at a request, and is away for long":   {false, true, 20 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			count := countOfRun(t, tt.requests)
			if count < 16 {
				t.Fatalf("a run has %d points to die at, which cannot be all", count)
			}
			for at := 1; at <= count; at++ {
				t.Run(fmt.Sprint(at), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						k := newCrash(t)
						k.at, k.after, k.requests = at, tt.after, tt.requests
						if !k.dieAndGoOn(tt.away) && at < count-4 { // what is seen of a boot may be told in fewer writes
							t.Errorf("it did not come to point %d of %d", at, count)
						}
					})
				})
			}
		})
	}
}

// dieAndGoOn is the life of two controllers; false when the first did not die.
func (k *crash) dieAndGoOn(away time.Duration) (died bool) {
	t := k.t
	_, _ = k.run(k.open(), k.request("a"))
	if c, _ := k.w.controller(); c != nil {
		k.close()
		return false
	}
	if sleep(t.Context(), away) != nil {
		t.Fatal("the test ended")
	}
	again := k.strandedNodes(away)
	for range 2 { // a run whose last write was done is finished by the next, which may have nothing else to do
		c := k.open()
		if summary, err := k.run(c, k.request("a")); err != nil || len(summary.Done) != 2 {
			t.Errorf("the second controller: %+v, %v", summary, err)
		}
		for _, n := range k.nodes {
			k.judgeNode(n, 1+again[n.ID()])
		}
		k.close()
	}
	k.check()
	return true
}

// strandedNodes are those that were switched on, and could not boot in time.
func (k *crash) strandedNodes(away time.Duration) map[string]int {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	again := map[string]int{}
	for _, m := range k.w.machines {
		if m.launched && m.talos != inMaintenance && away > k.budgets.BootTimeout {
			again[m.name] = 1
		}
	}
	return again
}

func (k *crash) judgeNode(n inventory.Node, cycles int) {
	offs, ons := 0, 0
	for _, e := range k.deeds(n.ID(), didOff, didOn) {
		switch {
		case e.what == didOff && e.changed:
			offs++
		case e.what == didOn && e.changed && e.armed:
			ons++
		}
	}
	if record := k.record(n.ID()); offs != cycles || ons != cycles || record.Attempts != cycles && record.Attempts != 0 || State(record.State) != Maintenance {
		k.t.Errorf("%s was powered off %d times and on %d times, want %d each; recorded are %d attempts, %s (%s)\n%s",
			n.ID(), offs, ons, cycles, record.Attempts, record.State, record.Error, k.w.history(k.w.of(n.ID())))
	}
}
