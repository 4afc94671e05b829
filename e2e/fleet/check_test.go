package fleet

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var addresses = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

// theTruth is a fleet after a run that went well.
func theTruth() Oracle {
	good := Expectation{State: "Maintenance", PowerOns: 2}
	return Oracle{Attempts: 2, Machines: []Truth{
		{Cluster: "demo", Name: "good", Listed: true, InPlan: true, Expected: good, PowerOns: 1, Scripts: 1, Kernels: 1, Up: "maintenance"},
		{Cluster: "demo", Name: "dead", Listed: true, InPlan: true, Faults: []Fault{SilentPower}, Expected: Expectation{State: "Failed", Causes: []string{"no DHCP seen", "identity"}, PowerOns: 2}, PowerOns: 2, PowerOffs: 1},
		{Cluster: "demo", Name: "held", Listed: true, InPlan: true, Faults: []Fault{Configured}, Expected: Expectation{State: "Held", Causes: []string{"already configured"}}, Up: "configured"},
		{Cluster: "demo", Name: "spare", Listed: true, Faults: []Fault{NotInPlan}},
		{Cluster: "demo", Name: "stranger", Faults: []Fault{Stranger}, Leases: []netip.Addr{netip.MustParseAddr("127.0.0.9")}},
	}}
}

func theStates() map[string]Seen {
	return map[string]Seen{
		"demo/good": {State: "Maintenance"}, "demo/dead": {State: "Failed", Cause: "no DHCP seen"}, "demo/held": {State: "Held", Cause: "already configured"},
	}
}

func TestTheOracleCatchesEachViolation(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	const good, dead, held, spare, stranger = 0, 1, 2, 3, 4
	tests := []struct {
		name   string
		change func(o *Oracle, seen map[string]Seen)
		want   []string // node: rule
		safety bool     // it is found in the middle of a run, too
	}{
		{"nothing is wrong", func(*Oracle, map[string]Seen) {}, nil, true},
		{"another acceptable cause", func(_ *Oracle, s map[string]Seen) { s["demo/dead"] = Seen{"Failed", "identity"} }, nil, true},
		{"a node outside the plan is powered", func(o *Oracle, _ map[string]Seen) { o.Machines[spare].PowerOns = 1 }, []string{"spare: outside the plan"}, true},
		{"a node outside the plan is switched off", func(o *Oracle, _ map[string]Seen) { o.Machines[spare].PowerOffs = 1 }, []string{"spare: outside the plan"}, true},
		{"a stranger is served an install script", func(o *Oracle, _ map[string]Seen) { o.Machines[stranger].Scripts = 1 }, []string{"stranger: outside the plan"}, true},
		{"a stranger is served a kernel", func(o *Oracle, _ map[string]Seen) { o.Machines[stranger].Kernels = 1 }, []string{"stranger: outside the plan"}, true},
		{"a node outside the plan gets a config", func(o *Oracle, _ map[string]Seen) { o.Machines[spare].Configs = 1 }, []string{"spare: outside the plan"}, true},
		{"a node outside the plan is confirmed", func(_ *Oracle, s map[string]Seen) { s["demo/spare"] = Seen{State: "Maintenance"} }, []string{"spare: outside the plan"}, true},
		{"what is not up is confirmed", func(o *Oracle, _ map[string]Seen) { o.Machines[good].Up = "" }, []string{"good: confirmed"}, true},
		{"what is configured is confirmed", func(o *Oracle, _ map[string]Seen) { o.Machines[good].Up = "configured" }, []string{"good: confirmed"}, true},
		{"a dead node is confirmed", func(_ *Oracle, s map[string]Seen) { s["demo/dead"] = Seen{State: "Maintenance"} }, []string{"dead: confirmed", "dead: bad node"}, false},
		{"the budget is exceeded", func(o *Oracle, _ map[string]Seen) { o.Machines[good].PowerOns = 3 }, []string{"good: power budget"}, true},
		{"a configured node is touched", func(o *Oracle, _ map[string]Seen) { o.Machines[held].PowerOffs = 1 }, []string{"held: untouched"}, true},
		{"a good node failed", func(_ *Oracle, s map[string]Seen) { s["demo/good"] = Seen{"Failed", "BMC"} }, []string{"good: good node"}, false},
		{"a good node is under way", func(_ *Oracle, s map[string]Seen) { s["demo/good"] = Seen{State: "Booting"} }, []string{"good: good node"}, false},
		{"a good node is forgotten", func(_ *Oracle, s map[string]Seen) { delete(s, "demo/good") }, []string{"good: good node"}, false},
		{"a bad node is forgotten", func(_ *Oracle, s map[string]Seen) { delete(s, "demo/held") }, []string{"held: bad node"}, false},
		{"a bad node is under way", func(_ *Oracle, s map[string]Seen) { s["demo/dead"] = Seen{State: "Booting"} }, []string{"dead: bad node"}, false},
		{"the cause is another", func(_ *Oracle, s map[string]Seen) { s["demo/dead"] = Seen{"Failed", "power"} }, []string{"dead: cause"}, false},
		{"held, not failed", func(_ *Oracle, s map[string]Seen) { s["demo/dead"] = Seen{"Held", "no DHCP seen"} }, []string{"dead: cause"}, false},
		{"failed, not held", func(_ *Oracle, s map[string]Seen) { s["demo/held"] = Seen{"Failed", "already configured"} }, []string{"held: cause"}, false},
		{"a session is open", func(o *Oracle, _ map[string]Seen) { o.Machines[stranger].Sessions = []time.Time{noon} }, []string{"stranger: session"}, false},
		{"a session was opened by a controller before", func(o *Oracle, _ map[string]Seen) {
			o.Machines[good].Sessions, o.Since = []time.Time{noon}, noon.Add(1)
		}, nil, true},
		{"a session was opened by the last controller", func(o *Oracle, _ map[string]Seen) {
			o.Machines[good].Sessions, o.Since = []time.Time{noon.Add(-1), noon}, noon
		}, []string{"good: session"}, false},
		{"ready, and is not", func(o *Oracle, s map[string]Seen) {
			o.Machines[good].Expected.State, s["demo/good"] = "Ready", Seen{State: "Ready"}
		}, []string{"good: confirmed"}, true},
		{"ready, and is", func(o *Oracle, s map[string]Seen) {
			o.Machines[good].Expected.State, o.Machines[good].Up, s["demo/good"] = "Ready", "configured", Seen{State: "Ready"}
		}, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o, seen := theTruth(), theStates()
			tt.change(&o, seen)
			if diff := cmp.Diff(tt.want, told(o.Check(seen, nil))); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
			var safety []string
			if tt.safety {
				safety = tt.want
			}
			got := told(o.Safety(seen, nil))
			if tt.name == "a dead node is confirmed" {
				safety = tt.want[:1]
			}
			if diff := cmp.Diff(safety, got); diff != "" {
				t.Errorf("safety (-want +got):\n%s", diff)
			}
		})
	}
}

// told is each violation without its detail.
func told(violations []Violation) (all []string) {
	for _, v := range violations {
		all = append(all, strings.TrimPrefix(v.Node, "demo/")+": "+string(v.Rule))
	}
	return all
}

func TestARunOverSomeNodesIsJudgedByThem(t *testing.T) {
	t.Parallel()
	o, seen := theTruth(), theStates()
	delete(seen, "demo/held")
	if got := o.Check(seen, []string{"demo/good", "demo/dead"}); len(got) != 0 {
		t.Errorf("violations: %v", got)
	}
	want := []string{"good: outside the plan", "good: outside the plan", "good: outside the plan", "dead: outside the plan"}
	if got := told(o.Check(seen, []string{})); !slices.Equal(got, want) {
		t.Errorf("a run over no node: %v, want %v", got, want)
	}
}

func TestTheStatusOfTheCommandIsRead(t *testing.T) {
	t.Parallel()
	got, err := ReadStatus(strings.NewReader(`[
		{"cluster":"demo","node":"a","state":"Maintenance","message":"Talos is up","attempts":1,"lastPowerOn":"2026-01-01T00:00:00Z"},
		{"cluster":"demo","node":"b","state":"Held","message":"identity","error":"two of them"}]`))
	want := map[string]Seen{"demo/a": {State: "Maintenance"}, "demo/b": {State: "Held", Cause: "identity"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	if _, err := ReadStatus(strings.NewReader("{")); err == nil || !strings.Contains(err.Error(), "provision status -o json") {
		t.Errorf("error = %v", err)
	}
}
