package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/talos-provision/provision/e2e/fleet"
)

// measurement is what one run cost, or the medians of several.
type measurement struct {
	Nodes int `json:"nodes"`
	// Wall is the time of the whole process, Plan the part of it before the first event, in nanoseconds.
	Wall time.Duration `json:"wall"`
	Plan time.Duration `json:"plan"`
	// CPUPerNode is user and system time of the process in milliseconds a node, PlanPerNode what of it was spent before the first event.
	CPUPerNode  float64 `json:"cpuMillisecondsPerNode"`
	PlanPerNode float64 `json:"planMillisecondsPerNode"`
	// PeakRSS and State are bytes: the most memory that was resident, and the state file at the end.
	PeakRSS int64 `json:"peakRSS"`
	State   int64 `json:"state"`
	Events  int   `json:"events"`
	// Again is how many boots failed and were tried again: then the host was too slow for the fleet.
	Again int `json:"again"`
	// EventsPerSecond is over the time after the plan.
	EventsPerSecond float64   `json:"eventsPerSecond"`
	Latency         []latency `json:"latency"`
}

// cluster is the name of every fleet's cluster.
const cluster = "demo"

// measure runs the program over a fresh fleet.
func measure(ctx context.Context, o options, dir string, nodes int) (m measurement, err error) {
	f, err := fleet.Start(ctx, fleet.Config{
		Dir: dir, Cluster: cluster, Nodes: nodes, Network: o.network, Seed: 1,
		SharedBMCs: true, Delays: o.delays, BootTimeout: 3 * time.Minute, Attempts: 3, TimeScale: 0.25,
	})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := openWindow(f.ConfigFile(), o.rate); err != nil {
		return m, err
	}
	p, err := start(ctx, o, nodes, "--config", f.ConfigFile(), "--cluster", cluster, "--yes", "-o", "json")
	if err != nil {
		return m, err
	}
	if err := p.finish(ctx); err != nil {
		return m, err
	}
	oracle := f.Oracle()
	for _, v := range oracle.Check(p.seen(), nil) {
		return m, fmt.Errorf("the fleet says otherwise: %v", v)
	}
	info, err := os.Stat(filepath.Join(dir, "state", "state.db"))
	if err != nil {
		return m, fmt.Errorf("look at the state: %w", err)
	}
	n := float64(nodes)
	return measurement{
		Nodes: nodes, Wall: p.wall, Plan: p.planned,
		CPUPerNode: milliseconds(p.cpu) / n, PlanPerNode: milliseconds(p.planCPU) / n,
		PeakRSS: p.peak, State: info.Size(), Events: p.events, Again: bootedAgain(oracle),
		EventsPerSecond: float64(p.events) / (p.wall - p.planned).Seconds(),
		Latency:         latencies(oracle, p.told),
	}, nil
}

// bootedAgain is how many boots there were beyond one for each machine.
func bootedAgain(o fleet.Oracle) (again int) {
	for _, m := range o.Machines {
		again += max(0, m.PowerOns-1)
	}
	return again
}

// openWindow lets so many machines be powered on each second.
func openWindow(config string, rate int) error {
	text, err := os.ReadFile(config)
	if err != nil {
		return fmt.Errorf("open the power window: %w", err)
	}
	before, after, found := bytes.Cut(text, []byte("power:\n"))
	if !found {
		return fmt.Errorf("open the power window: %s has no power section", config)
	}
	lines := strings.SplitAfter(string(after), "\n")
	for len(lines) > 0 && strings.HasPrefix(lines[0], " ") {
		lines = lines[1:]
	}
	power := fmt.Sprintf("power:\n  parallel: %d\n  window: 1s\n  jitter: 0s\n", rate)
	if err := os.WriteFile(config, []byte(string(before)+power+strings.Join(lines, "")), 0o600); err != nil {
		return fmt.Errorf("open the power window: %w", err)
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
