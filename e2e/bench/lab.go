package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The two namespaces and their addresses.
const (
	serverNS, clientNS = "bench-server", "bench-client"
	serverAddress      = "10.99.0.1"
	clientAddress      = "10.99.0.2"
	serverDevice       = "veth-s"
)

// lab is two network namespaces joined by a cable, and a scratch folder.
type lab struct {
	dir string
	log io.Writer
}

func newLab(ctx context.Context, log io.Writer) (*lab, error) {
	dir, err := os.MkdirTemp("", "bench-boot-")
	if err != nil {
		return nil, err
	}
	l := &lab{dir: dir, log: log}
	for _, command := range []string{
		"netns add " + serverNS,
		"netns add " + clientNS,
		"link add " + serverDevice + " netns " + serverNS + " type veth peer name veth-c netns " + clientNS,
		"-n " + serverNS + " address add " + serverAddress + "/16 dev " + serverDevice,
		"-n " + clientNS + " address add " + clientAddress + "/16 dev veth-c",
		"-n " + serverNS + " link set lo up",
		"-n " + clientNS + " link set lo up",
		"-n " + serverNS + " link set " + serverDevice + " up",
		"-n " + clientNS + " link set veth-c up",
	} {
		if out, err := exec.CommandContext(ctx, "ip", strings.Fields(command)...).CombinedOutput(); err != nil {
			l.close()
			return nil, fmt.Errorf("ip %s: %w: %s (is another benchmark running? what a killed one left is removed by: ip netns delete %s; ip netns delete %s)", command, err, bytes.TrimSpace(out), serverNS, clientNS)
		}
	}
	return l, nil
}

func (l *lab) close() {
	for _, ns := range []string{serverNS, clientNS} {
		_ = exec.CommandContext(context.Background(), "ip", "netns", "delete", ns).Run()
	}
	_ = os.RemoveAll(l.dir)
}

func (l *lab) path(name string) string { return filepath.Join(l.dir, name) }

// write makes a file of the scratch folder, with the folders above it.
func (l *lab) write(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(l.path(name)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(l.path(name), content, 0o644)
}

// server is one program under test.
type server struct {
	name    string
	network string // udp or tcp
	port    int    // the port by which it is known to be ready
	args    []string
	env     []string
}

// running is a server at work.
type running struct {
	cmd    *exec.Cmd
	errors bytes.Buffer
	done   chan struct{}
	group  *cgroup // nil where there are none
}

// start starts a server in its namespace and waits until it has its port.
func (l *lab) start(ctx context.Context, s server) (*running, error) {
	r := &running{done: make(chan struct{})}
	r.cmd = exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", serverNS}, s.args...)...)
	r.cmd.Env = append(os.Environ(), s.env...)
	r.cmd.Stderr = &r.errors
	// ip(8) becomes the program, and nginx brings children: they all go together.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if r.group = newCgroup(fmt.Sprintf("bench-boot-%d", os.Getpid())); r.group != nil {
		r.cmd.SysProcAttr.UseCgroupFD, r.cmd.SysProcAttr.CgroupFD = true, int(r.group.file.Fd())
	}
	if err := r.cmd.Start(); err != nil {
		if r.group != nil {
			r.group.close()
		}
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	go func() { _ = r.cmd.Wait(); close(r.done) }()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if l.bound(r.cmd.Process.Pid, s) {
			return r, nil
		}
		select {
		case <-r.done:
			r.stop()
			return nil, fmt.Errorf("%s ended at once: %s", s.name, bytes.TrimSpace(r.errors.Bytes()))
		case <-ctx.Done():
			r.stop()
			return nil, ctx.Err()
		default:
		}
		if time.Now().After(deadline) {
			r.stop()
			return nil, fmt.Errorf("%s does not listen on %s %d: %s", s.name, s.network, s.port, bytes.TrimSpace(r.errors.Bytes()))
		}
	}
}

// bound looks into the namespace of the process: is the port taken?
func (l *lab) bound(pid int, s server) bool {
	want := fmt.Sprintf(":%04X", s.port)
	for _, file := range []string{s.network, s.network + "6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, file))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 1 && strings.HasSuffix(fields[1], want) {
				return true
			}
		}
	}
	return false
}

// stop ends the server and waits; the namespace's ports are free afterwards.
func (r *running) stop() {
	_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-r.done:
	case <-time.After(5 * time.Second):
		_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
		<-r.done
	}
	if r.group != nil {
		r.group.close()
	}
}

// processor is the processor time so far of every process in the server's
// namespace, of which some servers make one for each transfer, and of their
// children that ended.
func (r *running) processor() time.Duration {
	if r.group != nil {
		return r.group.processor()
	}
	home, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", r.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0
	}
	var total time.Duration
	for _, file := range stats {
		if ns, err := os.Readlink(filepath.Join(filepath.Dir(file), "ns/net")); err != nil || ns != home {
			continue // elsewhere, or gone meanwhile
		}
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// The name, in parentheses, may hold anything; what follows is fixed (proc(5)).
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 15 {
			continue
		}
		for _, field := range fields[11:15] { // utime, stime, and those of children that ended
			if ticks, err := strconv.Atoi(field); err == nil {
				total += time.Duration(ticks) * (time.Second / 100)
			}
		}
	}
	return total
}

// client runs a shell command in the client's namespace and gives its output.
func (l *lab) client(ctx context.Context, command string) (string, error) {
	out, _, err := l.timedClient(ctx, command)
	return out, err
}

// timedClient also gives the processor time of the command with its children.
func (l *lab) timedClient(ctx context.Context, command string) (string, time.Duration, error) {
	cmd := exec.CommandContext(ctx, "ip", "netns", "exec", clientNS, "sh", "-c", command)
	cmd.Dir = l.dir
	// An interrupt ends the shell's children with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), 0, fmt.Errorf("%s: %w: %s", command, err, lastLine(string(out)))
	}
	return string(out), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// load is the load average of the last minute, noted beside every table: other
// work on the machine makes all figures smaller.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
