package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner/store"
)

func TestTheWindowIsOpenedAndTheRestIsKept(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "provision.yaml")
	if err := os.WriteFile(config, []byte("state: s\npower:\n  parallel: 8\n  window: 2s\n  jitter: 1s\nbudgets:\n  attempts: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := openWindow(config, 40); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(config)
	want := "state: s\npower:\n  parallel: 40\n  window: 1s\n  jitter: 0s\nbudgets:\n  attempts: 2\n"
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	if err := os.WriteFile(config, []byte("state: s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := openWindow(config, 40); err == nil {
		t.Error("a configuration without the section: no error")
	}
}

// Each step is from the machine's own moment to the first event that tells of it or of a later one.
func TestLatencyIsFromTheMachinesMomentToWhatIsHeard(t *testing.T) {
	t.Parallel()
	base := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return base.Add(time.Duration(ms) * time.Millisecond) }
	event := func(ms int, state, message string) telling {
		return telling{Event: store.Event{State: state, Message: message}, heard: at(ms)}
	}
	o := fleet.Oracle{Machines: []fleet.Truth{{Name: "n", Reached: fleet.Times{
		PoweredOn: at(0), Lease: at(100), LastLease: at(200), Script: at(230), Kernel: at(300), Up: at(1000),
	}}}}
	got := latencies(o, map[string][]telling{"n": {
		event(40, "PowerCycled", "powered on"), event(90, "Booting", "its firmware got an address"),
		event(310, "Booting", "the kernel was downloaded"), event(1250, "Maintenance", "Talos is up"),
	}})
	want := map[string]float64{"PowerCycled": 40, "Booting": 0, "script at work -> told": 80, "kernel is whole": 10, "Maintenance": 250, "script at work": 30}
	for i, key := range []string{"PowerCycled", "Booting", "script at work -> told", "kernel is whole", "Maintenance", "script at work"} {
		if l := got[i]; !strings.Contains(l.Step, key) || l.P50 != want[key] || l.P99 != want[key] || l.Nodes != 1 {
			t.Errorf("step %d: %+v, want %v ms for %q", i, l, want[key], key)
		}
	}
}

func TestMediansAndQuantiles(t *testing.T) {
	t.Parallel()
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	if p50, p99, none := quantile(hundred, 0.5), quantile(hundred, 0.99), quantile(nil, 0.5); p50 != 50 || p99 != 99 || none != 0 {
		t.Errorf("of 1 to 100: p50 %v, p99 %v; of none %v", p50, p99, none)
	}
	got := median([]measurement{{Nodes: 5, CPUPerNode: 9, Wall: 3}, {Nodes: 5, CPUPerNode: 1, Wall: 1}, {Nodes: 5, CPUPerNode: 2, Wall: 2}})
	if got.Nodes != 5 || got.CPUPerNode != 2 || got.Wall != 2 {
		t.Errorf("of three runs: %+v", got)
	}
	var out bytes.Buffer
	if err := table(&out, []measurement{{Nodes: 10, CPUPerNode: 2}, {Nodes: 100, CPUPerNode: 3}}); err != nil || !strings.Contains(out.String(), "100 : 10 nodes: 1.50") {
		t.Errorf("error %v, table:\n%s", err, out.String())
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		nodes        string
		rounds, rate int
	}{"no number": {"a", 1, 1}, "no machine": {"10,0", 1, 1}, "no round": {"10", 0, 1}, "no power-on": {"10", 1, 0}} {
		o := options{rounds: tt.rounds, rate: tt.rate}
		if err := o.parse(tt.nodes); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	o := options{rounds: 1, rate: 1}
	if err := o.parse("10,20"); err != nil || len(o.sizes) != 2 || o.sizes[1] != 20 {
		t.Errorf("two sizes: %v, %v", o.sizes, err)
	}
}
