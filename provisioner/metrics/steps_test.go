package metrics

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/talos-provision/provision/provisioner/store"
)

// begun is when the events of a test begin.
var begun = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// tell hands events of the node demo/a to a set, each some seconds after the one before.
type tell struct {
	run, previous, state, cause string
	after                       time.Duration
}

func (s *Set) told(events ...tell) {
	at := begun
	watch := s.Events(nil)
	for _, e := range events {
		at = at.Add(e.after)
		watch(store.Event{Time: at, Run: e.run, Cluster: "demo", Node: "a", Previous: e.previous, State: e.state, Cause: e.cause})
	}
}

// durations are the sums of the steps in seconds, by state and outcome, of those that were seen.
func durations(t *testing.T, s *Set) map[string]float64 {
	t.Helper()
	sums := map[string]float64{}
	for name, m := range gathered(t, s)["provision_step_duration_seconds"] {
		if m.GetHistogram().GetSampleCount() > 0 {
			sums[name] = m.GetHistogram().GetSampleSum()
		}
	}
	return sums
}

func TestStepsAreMeasuredFromTheEventsOfOneRun(t *testing.T) {
	t.Parallel()
	whole := []tell{
		{"1", "Pending", "Pending", "", 0}, {"1", "Pending", "Identified", "", time.Second}, {"1", "Identified", "Armed", "", 2 * time.Second},
		{"1", "Armed", "Armed", "", time.Second}, {"1", "Armed", "PowerCycled", "", 3 * time.Second}, {"1", "PowerCycled", "Booting", "", 60 * time.Second},
		{"1", "Booting", "Booting", "", time.Second}, {"1", "Booting", "Maintenance", "", 29 * time.Second},
	}
	for _, test := range []struct {
		name   string
		events []tell
		want   map[string]float64
	}{
		{"a whole run", whole, map[string]float64{
			"Pending advanced": 1, "Identified advanced": 2, "Armed advanced": 4, "PowerCycled advanced": 60, "Booting advanced": 30,
		}},
		{"a run that goes on in another process", []tell{
			{"1", "Booting", "Booting", "", 0}, {"1", "Booting", "Maintenance", "", 30 * time.Second}, {"1", "Maintenance", "Configured", "", 5 * time.Second},
		}, map[string]float64{"Maintenance advanced": 5}},
		{"another run of the node", []tell{
			{"1", "Pending", "Pending", "", 0}, {"2", "Pending", "Pending", "", time.Hour}, {"2", "Pending", "Identified", "", time.Second},
		}, map[string]float64{"Pending advanced": 1}},
		{"a second try", []tell{
			{"1", "Armed", "PowerCycled", "", 0}, {"1", "PowerCycled", "Pending", "", 900 * time.Second}, {"1", "Pending", "Identified", "", 2 * time.Second},
			{"1", "Identified", "Failed", "BMC", 4 * time.Second},
		}, map[string]float64{"PowerCycled retried": 900, "Pending advanced": 2, "Identified failed": 4}},
		{"a node that is not touched", []tell{{"1", "Pending", "Held", "identity", 0}}, map[string]float64{}},
		{"a node that is held on its way", []tell{
			{"1", "Identified", "Armed", "", 0}, {"1", "Armed", "Held", "held by a person", 7 * time.Second},
		}, map[string]float64{"Armed held": 7}},
		{"events that are not in order", []tell{
			{"1", "Identified", "Armed", "", time.Minute}, {"1", "Armed", "PowerCycled", "", -time.Second},
			{"1", "Maintenance", "Configured", "", time.Second},
		}, map[string]float64{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := New("test")
			s.told(test.events...)
			if diff := cmp.Diff(test.want, durations(t, s)); diff != "" {
				t.Errorf("seconds (-want +got):\n%s", diff)
			}
		})
	}
}

// What was before a pause of a run, or before another controller led, is not told as a step.
func TestAPauseIsNoStep(t *testing.T) {
	t.Parallel()
	for cluster, want := range map[string]map[string]float64{
		"":      {},
		"demo":  {},
		"dem":   {"PowerCycled advanced": 3600},
		"other": {"PowerCycled advanced": 3600},
	} {
		s := New("test")
		s.told(tell{"1", "Armed", "PowerCycled", "", 0})
		s.Forget(cluster)
		s.told(tell{"1", "PowerCycled", "Booting", "", time.Hour})
		if diff := cmp.Diff(want, durations(t, s)); diff != "" {
			t.Errorf("after %q was forgotten (-want +got):\n%s", cluster, diff)
		}
	}
}

func TestPowerOnsRetriesAndFailuresAreCounted(t *testing.T) {
	t.Parallel()
	s := New("test")
	s.told(
		tell{"1", "Armed", "PowerCycled", "", 0}, tell{"1", "PowerCycled", "PowerCycled", "", 0}, // a problem that DHCP reports
		tell{"1", "PowerCycled", "Pending", "", 0}, tell{"1", "Pending", "Identified", "", 0}, tell{"1", "Armed", "PowerCycled", "", 0},
		tell{"1", "PowerCycled", "Failed", "no DHCP seen", 0}, tell{"1", "Failed", "Failed", "no DHCP seen", 0},
		tell{"2", "Pending", "Held", "identity", 0},
	)
	want := map[string]float64{
		"provision_power_ons_total ":                        2,
		"provision_node_retries_total ":                     1,
		"provision_node_failures_total no DHCP seen failed": 1,
		"provision_node_failures_total identity held":       1,
	}
	got := map[string]float64{}
	for name, family := range gathered(t, s) {
		for labels, m := range family {
			if _, wanted := want[name+" "+labels]; wanted || m.GetCounter().GetValue() != 0 {
				got[name+" "+labels] = m.GetCounter().GetValue()
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
}

// Who watches beside the counting sees every event.
func TestEventsAreHandedOn(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*Set{"a set": New("test"), "no set": nil} {
		var seen []string
		s.Events(func(e store.Event) { seen = append(seen, e.State) })(store.Event{State: "Booting", Previous: "PowerCycled"})
		if diff := cmp.Diff([]string{"Booting"}, seen); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if (*Set)(nil).Events(nil) != nil {
		t.Error("nobody watches nothing")
	}
	prometheus.NewPedanticRegistry().MustRegister((*Set)(nil)) // a nil set has no metrics
}
