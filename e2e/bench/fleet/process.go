package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner/store"
)

// sample is how often the memory of the process is looked at. The kernel keeps
// the peak; only what is gained right before its end is missed.
const sample = 100 * time.Millisecond

// process is the controller at work.
type process struct {
	cmd     *exec.Cmd
	out     io.Reader
	problem bytes.Buffer
	began   time.Time
	perf    *exec.Cmd // nil: no profile is taken

	told    map[string][]telling // by node; what it said of it, oldest first
	events  int
	planned time.Duration
	planCPU time.Duration
	wall    time.Duration
	cpu     time.Duration
	peak    int64
}

// telling is one event, and when it was heard of here.
type telling struct {
	store.Event
	heard time.Time
}

func start(ctx context.Context, o options, nodes int, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, o.program, args...), told: map[string][]telling{}, began: time.Now()}
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 30 * time.Second
	p.cmd.Stderr = &p.problem
	var err error
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		return nil, fmt.Errorf("start the controller: %w", err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the controller: %w", err)
	}
	if o.perf == "" {
		return p, nil
	}
	p.perf = exec.CommandContext(ctx, "perf", "record", "-q", "-F", "199", "-g", "-p", strconv.Itoa(p.cmd.Process.Pid), //nolint:gosec // of numbers and our own flag
		"-o", filepath.Join(o.perf, fmt.Sprintf("fleet-%d.perf", nodes)))
	if err := p.perf.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("profile the controller: %w", err), p.cmd.Process.Kill(), p.cmd.Wait())
	}
	return p, nil
}

// finish listens until the process ends, and takes its bill.
func (p *process) finish(ctx context.Context) error {
	watched := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(watched)
		p.watch(ended)
	}()
	heard := p.listen()
	err := p.cmd.Wait()
	p.wall = time.Since(p.began)
	close(ended)
	<-watched
	if p.perf != nil {
		_ = p.perf.Wait() // ends with the process
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil || heard != nil:
		return fmt.Errorf("%w: %s", errors.Join(err, heard), p.problem.Bytes())
	}
	p.cpu = p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
	return nil
}

// listen reads the events.
func (p *process) listen() error {
	lines := bufio.NewScanner(p.out)
	for lines.Scan() {
		t := telling{heard: time.Now()}
		if err := json.Unmarshal(lines.Bytes(), &t.Event); err != nil {
			_, _ = io.Copy(io.Discard, p.out)
			return fmt.Errorf("the controller says %q: %w", lines.Text(), err)
		}
		if p.events == 0 {
			p.planned, p.planCPU = t.heard.Sub(p.began), cpuTime(p.cmd.Process.Pid)
		}
		p.events++
		p.told[t.Node] = append(p.told[t.Node], t)
	}
	return lines.Err()
}

// watch keeps the peak of the memory.
func (p *process) watch(ended <-chan struct{}) {
	ticks := time.NewTicker(sample)
	defer ticks.Stop()
	for {
		select {
		case <-ended:
			return
		case <-ticks.C:
			p.peak = max(p.peak, peakMemory(p.cmd.Process.Pid))
		}
	}
}

// seen is how the controller left each node, for the oracle.
func (p *process) seen() map[string]fleet.Seen {
	seen := make(map[string]fleet.Seen, len(p.told))
	for node, all := range p.told {
		last := all[len(all)-1]
		seen[cluster+"/"+node] = fleet.Seen{State: last.State, Cause: last.Cause}
	}
	return seen
}

// peakMemory is the most memory that a process had resident, in bytes; 0 when it has ended.
func peakMemory(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kilobytes, _ := strconv.ParseInt(fields[0], 10, 64)
	return kilobytes << 10
}

// cpuTime is the processor time of a process so far; /proc counts in hundredths of a second.
func cpuTime(pid int) time.Duration {
	const user, system = 11, 12 // after the name in parentheses, from 0
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) <= system {
		return 0
	}
	u, _ := strconv.ParseInt(fields[user], 10, 64)
	s, _ := strconv.ParseInt(fields[system], 10, 64)
	return time.Duration(u+s) * 10 * time.Millisecond
}

func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
