package qemu

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"github.com/vishvananda/netns"
)

// NetNS is a network namespace of its own, known to ip-netns(8) by its name.
type NetNS struct {
	name   string
	handle netns.NsHandle
}

// newNetNS makes a namespace. The caller owns it and must call remove.
func newNetNS(ctx context.Context, name string) (*NetNS, error) {
	if err := runIP(ctx, "", "netns", "add", name); err != nil {
		return nil, fmt.Errorf("making the network namespace %s (this needs root): %w", name, err)
	}
	handle, err := netns.GetFromName(name)
	if err != nil {
		_ = runIP(ctx, "", "netns", "delete", name)
		return nil, fmt.Errorf("opening the network namespace %s: %w", name, err)
	}
	return &NetNS{name: name, handle: handle}, nil
}

// Name is the name for `ip netns exec NAME`.
func (n *NetNS) Name() string { return n.name }

// remove deletes the namespace with every link in it.
func (n *NetNS) remove(ctx context.Context) error {
	_ = n.handle.Close()
	return runIP(ctx, "", "netns", "delete", n.name)
}

// Do calls f on a thread inside the namespace. Sockets that f opens belong to
// the namespace for good; goroutines that f starts do not run inside, and
// programs that it starts with a parent-death signal die with the thread: use
// Command and Network.Start for those.
func (n *NetNS) Do(f func() error) error {
	result := make(chan error, 1)
	go func() {
		// The thread is never unlocked, so that the runtime ends it with this goroutine: there is
		// no way back that could fail and leave a foreign namespace to other goroutines.
		runtime.LockOSThread()
		if err := netns.Set(n.handle); err != nil {
			result <- fmt.Errorf("entering the network namespace %s: %w", n.name, err)
			return
		}
		result <- f()
	}()
	return <-result
}

// Listen opens a listener inside the namespace.
func (n *NetNS) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	var listener net.Listener
	err := n.Do(func() (err error) {
		var config net.ListenConfig
		listener, err = config.Listen(ctx, network, address)
		return err
	})
	return listener, err
}

// Dial connects from inside the namespace. The host must be an IP address: a
// name would be looked up on another thread, outside. It has the form that
// http.Transport.DialContext and tls.Dialer-like code expect.
func (n *NetNS) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("dialling %s in the network namespace %s: %w", address, n.name, err)
	}
	if net.ParseIP(host) == nil {
		return nil, fmt.Errorf("dialling %s in the network namespace %s: give an IP address, not a name", address, n.name)
	}
	var conn net.Conn
	err = n.Do(func() (err error) {
		var dialer net.Dialer
		conn, err = dialer.DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Command prepares a program that runs inside the namespace and is killed when
// ctx ends or when this process dies. Start it with Network.Start to have it
// stopped by Close as well.
func (n *NetNS) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", n.name, program}, args...)...)
	// ip(8) executes the program in its own place, so the process id and this setting are the program's.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// runIP runs ip(8); a non-empty batch is given to its standard input.
func runIP(ctx context.Context, batch string, args ...string) error {
	cmd := exec.CommandContext(ctx, "ip", args...)
	cmd.Stdin = strings.NewReader(batch)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(text)))
	}
	return nil
}
