package controllers_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner/web"
)

// giveUpLimit is how soon a leader must say that it is none when it has not reached
// etcd for longer than its session lives.
const giveUpLimit = 10 * time.Second

// I6: a leader that does not reach the state any more, but every BMC, gives its site
// up and leaves the machine as it is. Another one goes on; when the first reaches the
// state again it stands by.
func TestI6ALeaderThatIsCutOffFromTheStateGivesUp(t *testing.T) {
	t.Parallel()
	for _, m := range some(moments(), 1) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			m.post += 12 * time.Second // it needs no boot services while nobody leads
			l := newLab(t, m.machine())
			way, at := newWire(t, l.at)
			leader, other := l.controller(0, map[string]any{"state": "etcd://" + at + "/fleet"}), l.controller(1, nil)
			leader.start()
			leader.awaitLead()
			run := leader.run(web.RunRequest{Cluster: "demo"})
			l.state.await(m.name, m.at)
			way.cut()
			l.goesOnWithout(leader, other, way.heal)
			l.state.awaitFinished(run)
			l.well(m.powerOns())
		})
	}
}

// goesOnWithout is what must happen to a leader that was cut off just now, and to
// another controller, which is started when the first has ended its work: what BMCs
// get before that is of the first.
func (l *lab) goesOnWithout(cut, other *controller, heal func()) {
	l.t.Helper()
	began := time.Now()
	await(l.t, cut.name+" gives its site up", func() bool { return lost(cut) })
	took := time.Since(began)
	l.t.Logf("%s gave up after %v", cut.name, took.Round(10*time.Millisecond))
	if took > giveUpLimit {
		l.t.Errorf("%s gave up after %v, want at most %v", cut.name, took, giveUpLimit)
	}
	effects := l.effects()
	await(l.t, cut.name+" has ended its work", func() bool {
		return strings.Contains(cut.log(), "the site is not led by this controller")
	})
	if after := l.effects(); !slices.Equal(after, effects) {
		l.t.Errorf("cut off, it changed machines: %q after %q", after, effects)
	}
	other.start()
	other.awaitLead()
	await(l.t, "the machines are up", l.allUp)
	l.heals(cut, heal)
}

// heals has a controller reach the state again after another one took its place: it
// must become one that stands by, and change nothing.
func (l *lab) heals(cut *controller, heal func()) {
	l.t.Helper()
	effects := l.effects()
	heal()
	await(l.t, cut.name+" has a new session", func() bool { return strings.Contains(cut.log(), "a new session with etcd has begun") })
	cut.awaitStandby()
	if after := l.effects(); !slices.Equal(after, effects) {
		l.t.Errorf("after it reached the state again the BMCs got %q, before %q", after, effects)
	}
}

// allUp says whether the state has every node of the plan in maintenance.
func (l *lab) allUp() bool {
	seen := l.state.seen()
	for _, m := range l.fleet.Machines() {
		if m.Install && !m.Has(fleet.Stranger) && seen[m.Cluster+"/"+m.Name].State != "Maintenance" {
			return false
		}
	}
	return true
}

// Without etcd nobody leads; when it is back one does, and the run is finished.
func TestTheRunGoesOnWhenEtcdIsBack(t *testing.T) {
	t.Parallel()
	outage := 7 * time.Second // longer than a session lives
	if long() {
		outage = 20 * time.Second
	}
	for _, m := range some(moments(), 1) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			m.post += outage // it needs no boot services while nobody leads
			l := newLab(t, m.machine())
			one, two := l.pair()
			run := one.run(web.RunRequest{Cluster: "demo"})
			l.state.await(m.name, m.at)
			back := time.After(outage)
			l.etcd.Stop()
			await(t, "both have lost their sessions", func() bool {
				return lost(one) && lost(two)
			})
			effects := l.effects()
			<-back
			if after := l.effects(); !slices.Equal(after, effects) {
				t.Errorf("without etcd the BMCs got %q after %q", after, effects)
			}
			l.etcd.Start()
			await(t, "one of them leads", func() bool {
				first, _ := one.standing()
				second, _ := two.standing()
				return first != second
			})
			l.state.awaitFinished(run)
			l.well(m.powerOns())
		})
	}
}

// lost says whether a controller has lost its session with etcd, and says so.
func lost(c *controller) bool {
	leads, _ := c.standing()
	return !leads && strings.Contains(c.log(), "the session with etcd was lost")
}

// some are the first of a table, or all of it when the tests may take their time.
func some[T any](all []T, n int) []T {
	if long() {
		return all
	}
	return all[:n]
}
