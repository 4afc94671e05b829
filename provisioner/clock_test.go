package provisioner

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
)

// resumed is a run over one node that an earlier controller left with this record,
// with its machine in maintenance or silent.
func resumed(t *testing.T, left store.Node, leased, up bool, check func(l *lab, summary Summary, took time.Duration)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := nodeOf("a", 1)
		if leased {
			n.IP = ""
		}
		l := newLab(t, 1, n)
		m := l.w.machines[0]
		c := l.open()
		defer l.close()
		run, _, err := l.state.BeginRun(store.Run{ID: "r1", Cluster: "a", Started: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		left.Cluster, left.Name, left.Run, left.Facts = "a", "node-1", run.ID, m.reports
		if err := l.state.Record(left, store.Event{}); err != nil {
			t.Fatal(err)
		}
		m.launched = true
		if up {
			m.upNow()
		}
		began := time.Now()
		summary, err := l.run(c, l.request("a"))
		if err != nil {
			t.Fatal(err)
		}
		check(l, summary, time.Since(began))
		l.check()
	})
}

// I8: a node that came up while no controller was there to see it is confirmed, and
// not power cycled again, however long ago that was and whatever the clock says.
func TestI8ANodeThatCameUpWhileNoControllerWasThereIsNotPowerCycledAgain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		state  State
		step   step
		on     time.Duration // when it was switched on, from now
		leased bool
	}{
		"switched on, an hour ago":                           {PowerCycled, stepNone, -time.Hour, false},
		"booting, an hour ago":                               {Booting, step(stageInitramfs), -time.Hour, false},
		"booting, an hour ago, its address is a lease":       {Booting, step(stageDHCP), -time.Hour, true},
		"booting, a year ago":                                {Booting, step(stageDHCP), -365 * 24 * time.Hour, false},
		"booting, in a year: the clock was set back":         {Booting, step(stageDHCP), 365 * 24 * time.Hour, false},
		"the answer to the power-on was lost, an hour ago":   {Armed, stepPoweringOn, -time.Hour, false},
		"the answer to the power-on was lost, just now":      {Armed, stepPoweringOn, 0, false},
		"just switched on, and within its boot timeout":      {PowerCycled, stepNone, -time.Minute, false},
		"just before the boot timeout is over":               {PowerCycled, stepNone, -8*time.Minute + time.Millisecond, false},
		"in the moment in which the boot timeout is over":    {PowerCycled, stepNone, -8 * time.Minute, false},
		"with all attempts made, and long after the last of": {Booting, step(stageKernel), -time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			left := store.Node{State: string(tt.state), Step: string(tt.step), Attempts: 3, Since: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(tt.on)}
			left.LastPowerOn = left.Since
			if tt.leased {
				left.Address = "10.0.1.1"
			}
			resumed(t, left, tt.leased, true, func(l *lab, summary Summary, took time.Duration) {
				if len(summary.Done) != 1 || took > time.Minute {
					t.Errorf("%d done, %+v, after %s; want it at once", len(summary.Done), summary, took)
				}
				for _, e := range l.deeds("", didArm, didOff, didOn) {
					if e.what != didOn || e.changed { // a machine that is on may be asked to be on
						t.Errorf("%s: it was touched", e.what)
					}
				}
			})
		})
	}
}

// A time that lies in the future was written before the clock was set back: nobody
// waits for it longer than for one that is now.
func TestAStoredTimeInTheFutureIsWaitedForNoLongerThanItsInterval(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	for name, tt := range map[string]struct {
		state  State
		on     time.Duration
		offAt  time.Duration // when its next power-off comes, from the beginning of the run
		within time.Duration
	}{
		"a new life, switched on in a year":     {Failed, year, 5 * time.Minute, 30 * time.Second},
		"a new life, switched on in a minute":   {Failed, time.Minute, 5 * time.Minute, 30 * time.Second},
		"a new life, switched on just now":      {Failed, 0, 5 * time.Minute, 30 * time.Second},
		"a new life, switched on a year ago":    {Failed, -year, 0, 30 * time.Second},
		"it boots, switched on in a year":       {Booting, year, 8 * time.Minute, 30 * time.Second},
		"it boots, switched on just now":        {Booting, 0, 8 * time.Minute, 30 * time.Second},
		"it boots, switched on seven minutes":   {Booting, -7 * time.Minute, time.Minute, 30 * time.Second},
		"it boots, switched on a long time ago": {Booting, -year, 0, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
			left := store.Node{State: string(tt.state), Attempts: 1, Since: began.Add(tt.on), LastPowerOn: began.Add(tt.on)}
			resumed(t, left, false, false, func(l *lab, summary Summary, _ time.Duration) {
				offs := l.deeds("a/node-1", didOff)
				if len(offs) != 1 || len(summary.Done) != 1 {
					t.Fatalf("%d power-offs, %+v; want one, and it up", len(offs), summary)
				}
				if at := offs[0].at.Sub(began); at < tt.offAt-latency || at > tt.offAt+tt.within {
					t.Errorf("powered off after %s, want %s to %s", at, tt.offAt, tt.offAt+tt.within)
				}
			})
		})
	}
}

// A controller that finds its node switched on by nobody switches it on, and counts
// the time from there: not from what was written by the one that died.
func TestI7APowerOnThatWasNotDoneIsDoneWithATimeOfItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1, nodeOf("a", 1))
		l.w.machines[0].lag = 0
		armed := false
		l.w.hook = func(what string, _ *machine) {
			if what == "power on" && !armed {
				armed = true
				l.kill()
			}
		}
		_, _ = l.run(l.open(), l.request("a"))
		l.w.mu.Lock()
		l.w.powerDown(l.w.machines[0]) // whatever came of the request
		l.w.machines[0].hangs = 1
		l.w.mu.Unlock()
		time.Sleep(30 * time.Minute) // fake
		began := time.Now()
		c := l.open()
		ended := make(chan struct{})
		go func() {
			_, _ = l.run(c, l.request("a"))
			close(ended)
		}()
		time.Sleep(l.budgets.BootTimeout - 10*time.Second)
		l.w.mu.Lock()
		l.w.calm = true
		l.w.mu.Unlock()
		<-ended
		defer l.close()
		var late []time.Duration
		for _, e := range l.deeds("a/node-1", didOn) {
			if e.at.After(began) {
				late = append(late, e.at.Sub(began))
			}
		}
		if len(late) == 2 && late[1]-late[0] < l.budgets.BootTimeout-latency || len(late) > 2 || len(late) == 0 {
			t.Errorf("switched on %v after the restart; want once, and again when its boot timeout is over at the soonest", late)
		}
		if r := l.record("a/node-1"); State(r.State) != Maintenance || r.Attempts > l.budgets.Attempts {
			t.Errorf("%s after %d attempts: %s", r.State, r.Attempts, r.Error)
		}
	})
}
