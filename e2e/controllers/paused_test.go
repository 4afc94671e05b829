package controllers_test

import (
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/provisioner/web"
)

// A leader that was stopped for so long that another one took its place finds that
// out before it does anything to a machine.
func TestALeaderThatWakesUpLateDoesNothingMore(t *testing.T) {
	t.Parallel()
	for _, m := range some(moments()[1:], 1) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, m.machine())
			leader, standby := l.pair()
			run := leader.run(web.RunRequest{Cluster: "demo"})
			l.state.await(m.name, m.at)
			leader.signal(syscall.SIGSTOP)
			l.awaitTakeover(standby, time.Now())
			l.state.awaitFinished(run)
			l.wakes(leader)
			l.well(1)
		})
	}
}

// When it wakes up while the other one works on the machine, the two do no more to it
// than one would.
func TestALeaderThatWakesUpBesideAnotherLeavesItAlone(t *testing.T) {
	t.Parallel()
	for _, m := range some(moments(), 1) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, m.machine())
			leader, standby := l.pair()
			run := leader.run(web.RunRequest{Cluster: "demo"})
			l.state.await(m.name, m.at)
			leader.signal(syscall.SIGSTOP)
			l.awaitTakeover(standby, time.Now())
			leader.signal(syscall.SIGCONT)
			l.state.awaitFinished(run)
			await(t, "it finds out that its session was lost", func() bool { return lost(leader) })
			leader.awaitStandby()
			l.well(1)
			if leads, what := standby.standing(); !leads {
				t.Errorf("%s leads no more: %s", standby.name, what)
			}
		})
	}
}

// It may be stopped between two requests to a BMC: the second is not sent any more.
func TestALeaderThatWakesUpWithinAnOrderToABMCDoesNotGiveIt(t *testing.T) {
	t.Parallel()
	l := newLab(t, moment{post: time.Second}.machine())
	leader, standby := l.pair()
	stopped := make(chan struct{})
	bmc := l.fleet.Machines()[0].BMC()
	bmc.Inject(redfishtest.Fault{ // it is asked right before the power is switched
		Method: http.MethodGet, Path: "/redfish/v1/Systems/1/ResetActionInfo", Times: 1,
		Action: redfishtest.Call(func(*redfishtest.Service) {
			leader.signal(syscall.SIGSTOP)
			close(stopped)
		}),
	})
	run := leader.run(web.RunRequest{Cluster: "demo"})
	<-stopped
	l.awaitTakeover(standby, time.Now())
	l.state.awaitFinished(run)
	l.wakes(leader)
	l.well(1)
}

// wakes lets a controller go on that was stopped and has lost the site: it must
// become one that stands by, and change nothing.
func (l *lab) wakes(c *controller) {
	l.t.Helper()
	effects, events := l.effects(), l.state.count()
	c.signal(syscall.SIGCONT)
	await(l.t, "it finds out that its session was lost", func() bool {
		return strings.Contains(c.log(), "the session with etcd was lost")
	})
	c.awaitStandby()
	if after := l.effects(); !slices.Equal(after, effects) {
		l.t.Errorf("after it woke up the BMCs got %q, before %q", after, effects)
	}
	if n := l.state.count(); n != events {
		l.t.Errorf("after it woke up there are %d events, before %d", n, events)
	}
}
