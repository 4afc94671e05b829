// Package talosnode emulates a Talos node as far as its API on port 50000 can
// be seen from the network: a real gRPC server with real TLS that answers each
// call as that version of Talos does, from maintenance mode over the
// installation to a member of a running cluster.
package talosnode

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/constants"
)

// Node is an emulated node: what the machine runs from one boot to the end of
// its power. Where it resets itself, one Node sees several boots.
type Node struct {
	cfg  Config
	log  *slog.Logger
	bare *bareConfig // of StartConfigured
	// wiped: what the command line wipes was wiped. Only the goroutine of live touches it.
	wiped bool

	life context.Context //nolint:containedctx // ends with Stop; a node is a machine that runs
	// power is what Start was given: in a machine it outlasts a reset.
	power context.Context //nolint:containedctx // as above
	end   context.CancelFunc
	// forget releases what ties the node to its context.
	forget func() bool
	work   sync.WaitGroup

	mu      sync.Mutex
	addr    net.Addr
	running *system // what listens; nil while nothing does
}

// Start runs the node as it comes up from what was booted and what is on its
// disk, until ctx is done or Stop is called: without a machine config on the
// disk in maintenance mode; with one, configured (siderolabs/talos#6696), or not
// at all if the kernel argument talos.halt_if_installed=1 forbids it. It returns
// when the port is open, or will not be for a while: a worker waits for a
// control plane to sign its certificate. It returns an error when the address
// cannot be bound or the config is not valid.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	return start(ctx, cfg, nil)
}

// StartConfigured runs a node that has a machine config nobody knows: its
// certificates come from an authority of its own, and it demands a client
// certificate of that authority, so that nobody without [Node.ClientTLS] gets an
// answer. It is running and ready at once.
func StartConfigured(ctx context.Context, cfg Config) (*Node, error) {
	bare, err := newBareConfig()
	if err != nil {
		return nil, fmt.Errorf("making certificates for an emulated Talos node: %w", err)
	}
	return start(ctx, cfg, bare)
}

// Addr is the address the node listens on when it listens.
func (n *Node) Addr() net.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addr
}

// ClientTLS is what an administrator of a node of StartConfigured connects
// with; nil for any other node, whose clients come with a talosconfig.
func (n *Node) ClientTLS() *tls.Config {
	if n.bare == nil {
		return nil
	}
	return n.bare.client.Clone()
}

// Stop closes the port and cuts every connection at once, as a power cut or a
// reset does. It may be called any number of times.
func (n *Node) Stop() {
	n.forget()
	n.end()
	n.work.Wait()
}

func start(ctx context.Context, cfg Config, bare *bareConfig) (*Node, error) {
	if cfg.FromDisk && cfg.Version == "" {
		cfg.Version = cfg.Disk.State().Version
	}
	if cfg.Clusters == nil {
		cfg.Clusters = &Clusters{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Address = listenAddress(cfg.Address)
	if _, err := behaviourOf(cfg.Version); err != nil {
		return nil, fmt.Errorf("starting an emulated Talos node: %w", err)
	}
	addr, err := net.ResolveTCPAddr("tcp", cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("starting an emulated Talos node: address %q: %w", cfg.Address, err)
	}
	n := &Node{cfg: cfg, log: cfg.Log, bare: bare, addr: addr, power: ctx}
	// A machine lives until somebody ends it, not as long as the call that started it.
	n.life, n.end = context.WithCancel(context.WithoutCancel(ctx))
	up := make(chan error, 1)
	n.work.Go(func() { n.live(up) })
	n.forget = context.AfterFunc(ctx, n.end)
	if err := <-up; err != nil {
		n.Stop()
		return nil, err
	}
	return n, nil
}

// live is the node's life from one boot to the next, until Stop. It tells up
// once what came of the first.
func (n *Node) live(up chan<- error) {
	tell := func(err error) {
		if up != nil {
			up <- err
			up = nil
		}
	}
	for {
		sys, err := n.boot()
		if err != nil || sys == nil {
			if err != nil && up == nil {
				n.log.Error("emulated Talos node does not come up", "address", n.cfg.Address, "error", err)
			}
			tell(err)
			return
		}
		how, err := n.run(sys, tell)
		tell(err)
		if err != nil && n.life.Err() == nil {
			n.log.Error("emulated Talos node does not come up", "address", n.cfg.Address, "error", err)
		}
		if err != nil || n.life.Err() != nil || !n.leave(how) {
			return
		}
	}
}

// run is one boot: it serves until the power goes or the system ends itself.
func (n *Node) run(sys *system, tell func(error)) (ending, error) {
	if from := sys.source(); from != "" {
		tell(nil)
		defer sys.stop()
		return n.fetch(sys, from)
	}
	if err := sys.obtainCertificate(func() { tell(nil) }); err != nil {
		return ending{}, err
	}
	if err := sys.listen(); err != nil {
		return ending{}, err
	}
	n.mu.Lock()
	n.addr, n.running = sys.listener.Addr(), sys
	n.mu.Unlock()
	n.cfg.Address = n.addr.String() // a port that was chosen stays
	tell(nil)
	n.log.Debug("emulated Talos node listens", "address", n.cfg.Address, "version", sys.version, "state", sys.mode.String())
	how := sys.serve()
	n.mu.Lock()
	n.running = nil
	n.mu.Unlock()
	return how, nil
}

// leave does what comes between two boots, and reports whether there is another
// one by this Node.
func (n *Node) leave(how ending) bool {
	switch how.kind {
	case endsForgetting:
		return false
	case endsInstalling:
		n.cfg.Cmdline = how.system.args.String()
		again, reset := n.install(how)
		if !again {
			return false
		}
		if !reset { // was installed before: it goes on without a reset
			return sleep(n.life, n.cfg.BootTime) == nil
		}
	case endsInPowerOff:
		if n.cfg.PowerOff != nil {
			go n.cfg.PowerOff() // it will call Stop, which waits for this goroutine
		}
		return false
	case endsWithPower, endsInReset:
	}
	if n.meetsUpgradeFault() {
		return false
	}
	if n.cfg.Reboot != nil {
		go n.cfg.Reboot()
		return false
	}
	n.cfg.FromDisk = n.cfg.Disk.State().Installed()
	return sleep(n.life, n.cfg.BootTime) == nil
}

func listenAddress(address string) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	return net.JoinHostPort(address, strconv.Itoa(constants.ApidPort))
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
