package main

import (
	"math"
	"slices"
	"time"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner"
)

// latency is what was added to one step of the nodes' lives, in milliseconds.
type latency struct {
	Step  string  `json:"step"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Nodes int     `json:"nodes"`
}

// steps of a node's life. Each begins with what the machine itself noted, and ends
// with the first event that tells of it or of a later one, as it is heard of by
// who reads the run's output; the last one ends with the machine.
var steps = []struct {
	name  string
	begin func(fleet.Times) time.Time
	told  []string // the beginnings of messages, that of this step first and later ones after it; none: end counts
	state provisioner.State
	end   func(fleet.Times) time.Time
}{
	{name: "machine is on -> PowerCycled", begin: func(t fleet.Times) time.Time { return t.PoweredOn }, state: provisioner.PowerCycled},
	{name: "firmware has its lease -> Booting", begin: func(t fleet.Times) time.Time { return t.Lease }, state: provisioner.Booting},
	{
		name: "script at work -> told", begin: func(t fleet.Times) time.Time { return t.Script },
		told: []string{"its install script", "the kernel was", "kernel and initramfs"},
	},
	{
		name: "kernel is whole -> told", begin: func(t fleet.Times) time.Time { return t.Kernel },
		told: []string{"the kernel was", "kernel and initramfs"},
	},
	{name: "Talos API is up -> Maintenance", begin: func(t fleet.Times) time.Time { return t.Up }, state: provisioner.Maintenance},
	{
		name: "iPXE has its lease -> script at work", begin: func(t fleet.Times) time.Time { return t.LastLease },
		end: func(t fleet.Times) time.Time { return t.Script },
	},
}

// latencies compares what the machines know with what the controller told.
func latencies(o fleet.Oracle, told map[string][]telling) []latency {
	all := make([]latency, 0, len(steps))
	for _, s := range steps {
		var added []float64
		for _, m := range o.Machines {
			begin := s.begin(m.Reached)
			end, found := heard(told[m.Name], s.state, s.told)
			if s.end != nil {
				end, found = s.end(m.Reached), true
			}
			if found && !begin.IsZero() {
				added = append(added, milliseconds(max(0, end.Sub(begin))))
			}
		}
		slices.Sort(added)
		all = append(all, latency{Step: s.name, P50: quantile(added, 0.5), P99: quantile(added, 0.99), Nodes: len(added)})
	}
	return all
}

// heard is when the first event of the state, or with one of the messages, was heard of.
func heard(all []telling, state provisioner.State, messages []string) (time.Time, bool) {
	for _, t := range all {
		if state != "" && t.State == string(state) {
			return t.heard, true
		}
		for _, m := range messages {
			if len(t.Message) >= len(m) && t.Message[:len(m)] == m {
				return t.heard, true
			}
		}
	}
	return time.Time{}, false
}

// quantile is the value that a share of a sorted list does not exceed; 0 of none.
func quantile(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}
