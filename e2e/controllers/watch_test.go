package controllers_test

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner/store"
)

// watch looks at the shared state, past the controllers.
type watch struct {
	t      *testing.T
	where  string
	after  uint64 // events up to this one were seen
	opened *store.Store
}

func newWatch(t *testing.T, location string) *watch {
	t.Helper()
	return &watch{t: t, where: location}
}

// store opens the state when there is one.
func (w *watch) store() *store.Store {
	w.t.Helper()
	if w.opened != nil {
		return w.opened
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	s, err := store.Connect(ctx, w.where, store.Options{ReadOnly: true, Timeout: patience / 2})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.Close() })
	w.opened = s
	return s
}

// leads says whether a controller leads a site, as the state has it.
func (w *watch) leads(c *controller, site string) bool {
	w.t.Helper()
	who, found, err := w.store().Leader(site)
	if err != nil {
		w.t.Fatal(err)
	}
	return found && strings.HasSuffix(who, "/"+strconv.Itoa(c.process.Process.Pid))
}

// await returns when the predicate takes an event, the next one that it does.
func (w *watch) await(what string, take func(store.Event) bool) {
	w.t.Helper()
	found := false
	await(w.t, what, func() bool {
		err := w.store().EventsAfter(w.after, func(seq uint64, e store.Event) bool {
			w.after = seq
			w.t.Logf("%s %s %s %s %s", e.Time.Local().Format("15:04:05.000"), e.Node, e.State, e.Message, e.Error)
			found = take(e)
			return !found
		})
		if err != nil {
			w.t.Fatal(err)
		}
		return found
	})
}

// reaches takes events of a state, and of a message in it if one is given.
func reaches(state, message string) func(store.Event) bool {
	return func(e store.Event) bool { return e.State == state && (message == "" || e.Message == message) }
}

// count is how many events there are.
func (w *watch) count() uint64 {
	w.t.Helper()
	last, err := w.store().LastEvent()
	if err != nil {
		w.t.Fatal(err)
	}
	return last
}

// awaitFinished returns when every run has come to its end, and each is one that
// was named.
func (w *watch) awaitFinished(ids ...string) {
	w.t.Helper()
	await(w.t, "the runs are finished", func() bool {
		runs, err := w.store().Runs()
		if err != nil {
			w.t.Fatal(err)
		}
		var finished []string
		for _, r := range runs {
			if !r.Finished.IsZero() {
				finished = append(finished, r.ID)
			}
		}
		slices.Sort(finished)
		return slices.Equal(finished, slices.Sorted(slices.Values(ids)))
	})
}

// seen is what the state says of every node.
func (w *watch) seen() map[string]fleet.Seen {
	w.t.Helper()
	nodes, err := w.store().Status("")
	if err != nil {
		w.t.Fatal(err)
	}
	seen := map[string]fleet.Seen{}
	for _, n := range nodes {
		one := fleet.Seen{State: n.State}
		if n.Cause != "" {
			one.Cause = n.Cause
		}
		seen[n.Cluster+"/"+n.Name] = one
	}
	return seen
}

// well fails the test unless the machines themselves say that all went well: those of
// the plan are up and were switched on at most so often, nobody
// else was touched, and no BMC has a session left.
func (l *lab) well(powerOns int) {
	l.t.Helper()
	seen := l.state.seen()
	maps.DeleteFunc(seen, func(id string, _ fleet.Seen) bool { return !l.has(id) })
	await(l.t, "no BMC session is left open", func() bool {
		return !slices.ContainsFunc(l.fleet.Machines(), func(m *fleet.Machine) bool { return m.BMC().OpenSessions() > 0 })
	})
	oracle := l.fleet.Oracle()
	for _, v := range oracle.Check(seen, l.plan) {
		l.t.Error(v)
	}
	for i, m := range oracle.Machines {
		planned := m.InPlan && (l.plan == nil || slices.Contains(l.plan, m.ID()))
		if planned && (m.PowerOns < 1 || m.PowerOns > powerOns) {
			l.t.Errorf("%s was powered on %d times, want 1 to %d; resets %v", m.ID(), m.PowerOns, powerOns, l.fleet.Machines()[i].BMC().Resets())
		}
	}
}

// has says whether a node is of this site.
func (l *lab) has(id string) bool {
	return slices.ContainsFunc(l.fleet.Machines(), func(m *fleet.Machine) bool { return m.Cluster+"/"+m.Name == id })
}

// effects are all requests that BMCs got which change something, by machine: logging in
// and out changes nothing.
func (l *lab) effects() []string {
	var all []string
	for _, m := range l.fleet.Machines() {
		for _, r := range m.BMC().Requests() {
			if r.Method != http.MethodGet && r.Method != http.MethodHead && !strings.Contains(r.Path, "/Sessions") {
				all = append(all, m.Name+": "+r.Method+" "+r.Path+" "+r.Body)
			}
		}
	}
	return all
}
