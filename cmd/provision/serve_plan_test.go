package main

import (
	"errors"
	"io"
	"testing"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/web"
)

// secondLater is a fleet of two nodes, the second of which is not to be installed yet.
func secondLater(t *testing.T) *fleet.Fleet {
	t.Helper()
	return startFleet(t, fleet.Config{Nodes: 2, Adjust: func(m *fleet.Machine) { m.Install = m.Name == "node-01" }})
}

// What is carried out is what somebody has seen: a plan that is another one by now is
// refused, and nothing is touched.
func TestAPlanThatChangedIsRefusedWithTheNewOne(t *testing.T) {
	t.Parallel()
	f := secondLater(t)
	d := startDaemon(t, f)
	request := web.RunRequest{Cluster: "demo"}
	seen, err := d.Plan(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	d.afterEdit(func() { edit(t, f, "nodes/demo/node-02.yaml", "install: false", "install: true") })
	request.Digest = seen.Digest
	_, err = d.Start(t.Context(), request)
	var refused *web.Error
	if !errors.As(err, &refused) || !errors.Is(err, web.ErrPlanChanged) || refused.Plan == nil {
		t.Fatalf("the old plan is answered by %v, want that it has changed", err)
	}
	if n := refused.Plan.Plan.Count(provisioner.ActionInstall); n != 2 || refused.Plan.Digest == seen.Digest {
		t.Errorf("the new plan installs %d nodes under the digest %s", n, refused.Plan.Digest)
	}
	untouched(t, f.Machines()...)
	if runs := d.runs(); len(runs) != 0 {
		t.Errorf("runs: %+v, want none", runs)
	}

	request.Digest = refused.Plan.Digest
	if _, err := d.Start(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if run := d.finished(); len(run.Summary.Done) != 2 {
		t.Errorf("the new plan ended as %+v", run.Summary)
	}

	// I8: a plan that was confirmed before another run did the work does not do it again.
	if _, err := d.Start(t.Context(), request); !errors.Is(err, web.ErrPlanChanged) {
		t.Errorf("the plan of a run that is over is answered by %v, want that it has changed", err)
	}
	if got := powerOns(f); got[0] != 1 || got[1] != 1 {
		t.Errorf("powered on %v times, want once each", got)
	}
}

// answers types a line at each question, after what happens before it.
type answers []func() string

func (a *answers) Read(b []byte) (int, error) {
	if len(*a) == 0 {
		return 0, io.EOF
	}
	next := (*a)[0]
	*a = (*a)[1:]
	return copy(b, next()), nil
}

// At a terminal the person is shown the new plan and asked again.
func TestAPlanThatChangedIsShownAndAskedAgain(t *testing.T) {
	t.Parallel()
	f := secondLater(t)
	d := startDaemon(t, f)
	r := provisionAt(t, &answers{
		func() string {
			d.afterEdit(func() { edit(t, f, "nodes/demo/node-02.yaml", "install: false", "install: true") })
			return "yes\n"
		},
		func() string { return "no\n" },
	}, true, "--config", f.ConfigFile(), "--cluster", "demo")
	r.says(t, exitRefused, "The plan has changed meanwhile", "1 to install", "2 to install", "not confirmed: nothing was touched")
	untouched(t, f.Machines()...)
}
