// Command fleet measures what a run costs its controller. An emulated fleet, which
// is in this process, is provisioned by the real `provision --cluster`, which is
// another process: so the processor time and the memory of that one are the
// controller's alone. Each run is judged by the fleet's own oracle; one in which a
// node did not come up is an error, not a figure.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/talos-provision/provision/e2e/fleet"
)

// options are the command line.
type options struct {
	sizes   []int
	rounds  int
	rate    int // power-ons a second
	program string
	perf    string
	json    bool
	timeout time.Duration
	delays  fleet.Delays
	network netip.Prefix
}

func main() {
	o := options{delays: fleet.Delays{
		PowerLag:   fleet.Uniform(200*time.Millisecond, time.Second),
		POST:       fleet.Uniform(2*time.Second, 6*time.Second),
		KernelTime: fleet.Uniform(3*time.Second, 8*time.Second),
	}}
	nodes := flag.String("nodes", "1000,10000", "sizes of fleets, with commas between")
	flag.IntVar(&o.rounds, "rounds", 1, "runs of each size; the table has their medians")
	flag.IntVar(&o.rate, "rate", 13, "power-ons a second that the power window allows: more than two processors can emulate make machines and controller wait for each other")
	flag.StringVar(&o.program, "program", "", "the `file` to measure, in place of this source's provision")
	flag.StringVar(&o.perf, "perf", "", "`folder` for a profile of each run, by perf record")
	flag.TextVar(&o.network, "network", netip.MustParsePrefix("127.112.0.0/16"), "a /16 of 127.0.0.0/8 for the fleets")
	flag.BoolVar(&o.json, "json", false, "print one JSON document in place of the table")
	flag.DurationVar(&o.timeout, "timeout", 30*time.Minute, "for everything together")
	flag.TextVar(&o.delays.POST, "post", o.delays.POST, "time of a machine from power-on to its first packet, as 2s, uniform:2s-6s or normal:4s,1s")
	flag.TextVar(&o.delays.KernelTime, "kernel-time", o.delays.KernelTime, "time from the kernel's start to the Talos API, alike")
	flag.TextVar(&o.delays.PowerLag, "power-lag", o.delays.PowerLag, "time that a BMC takes to switch, alike")
	flag.Parse()
	err := o.parse(*nodes)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = bench(ctx, o)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-fleet:", err)
		os.Exit(1)
	}
}

func (o *options) parse(nodes string) error {
	for text := range strings.SplitSeq(nodes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-nodes %s: %q is no number of machines", nodes, text)
		}
		o.sizes = append(o.sizes, n)
	}
	if o.rounds < 1 || o.rate < 1 {
		return fmt.Errorf("-rounds %d -rate %d: both are 1 or more", o.rounds, o.rate)
	}
	return nil
}

// bench measures every size, in turn within each round: what else the host does
// meets them all.
func bench(ctx context.Context, o options) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not finished within %s: give a longer -timeout, or smaller -nodes", o.timeout))
	defer cancel()
	dir, err := os.MkdirTemp("", "bench-fleet-")
	if err != nil {
		return fmt.Errorf("make a folder for the fleets: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if o.program == "" {
		if o.program, err = build(ctx, dir); err != nil {
			return err
		}
	}
	bySize := make([][]measurement, len(o.sizes))
	for round := range o.rounds {
		for i, n := range o.sizes {
			m, err := measure(ctx, o, filepath.Join(dir, fmt.Sprintf("%d-%d", round, n)), n)
			if err != nil {
				return fmt.Errorf("a run over %d nodes: %w", n, err)
			}
			fmt.Fprintf(os.Stderr, "round %d, %d nodes: %s, %.1f ms of CPU a node, %d MB\n", round+1, n, m.Wall.Round(time.Second), m.CPUPerNode, m.PeakRSS>>20)
			bySize[i] = append(bySize[i], m)
		}
	}
	medians := make([]measurement, 0, len(o.sizes))
	for _, all := range bySize {
		medians = append(medians, median(all))
	}
	if o.json {
		return json.NewEncoder(os.Stdout).Encode(report{Load: load(), Rounds: o.rounds, Sizes: medians})
	}
	return table(os.Stdout, medians)
}

// build makes the program as it is shipped: static, without the race detector.
func build(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "provision")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", program, "github.com/talos-provision/provision/cmd/provision")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build provision: %w\n%s", err, out)
	}
	return program, nil
}
