package fleet

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/talos-provision/provision/e2e/firmware"
	"github.com/talos-provision/provision/e2e/talosnode"
)

// ledger is what happened to a machine, noted by the machine itself: neither its
// BMC nor a controller is asked.
type ledger struct {
	mu                        sync.Mutex
	powerOns, powerOffs       int // by the BMC
	scripts, kernels, configs int // served to it
	leases                    []netip.Addr
	reached                   Times
	system                    *talosnode.Node // what runs now
}

func (l *ledger) switched(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if on {
		l.powerOns++
		l.reached = Times{PoweredOn: time.Now()}
	} else {
		l.powerOffs++
	}
}

// served notes what the boot services gave.
func (l *ledger) served(s firmware.Served) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reached.note(s)
	switch {
	case s.InstallScript:
		l.scripts++
	case s.Kernel:
		l.kernels++
	case !slices.Contains(l.leases, s.Lease):
		l.leases = append(l.leases, s.Lease)
	}
}

// note writes down when it was served.
func (t *Times) note(s firmware.Served) {
	now := time.Now()
	switch {
	case s.InstallScript:
		t.Script = now
	case s.Kernel:
		t.Kernel = now
	default:
		if t.Lease.IsZero() {
			t.Lease = now
		}
		t.LastLease = now
	}
}

// configured notes a machine config that was taken, not one that was only checked.
func (l *ledger) configured(_ []byte, dryRun bool) {
	if dryRun {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.configs++
}

// runs notes the system that the machine runs from now on, nil for none.
func (l *ledger) runs(n *talosnode.Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.system = n
	if n != nil {
		l.reached.Up = time.Now()
	}
}

// put fills in what the ledger knows.
func (l *ledger) put(t *Truth) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.PowerOns, t.PowerOffs = l.powerOns, l.powerOffs
	t.Scripts, t.Kernels, t.Configs = l.scripts, l.kernels, l.configs
	t.Leases = slices.Clone(l.leases)
	t.Reached = l.reached
	if l.system != nil {
		t.Up = l.system.Serving()
		if t.Up != "" {
			t.Address = l.system.Addr().String()
		}
	}
}
