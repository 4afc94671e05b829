package redfishtest

import (
	"context"
	"sync"
)

// Boot is what the firmware does with one power-on.
type Boot struct {
	// Target is the Redfish boot source, "Pxe", "Hdd", "Cd", …; empty means the
	// default order, because no override was in force.
	Target string
	// Mode is "UEFI" or "Legacy".
	Mode string
	// HTTPBootURI is the file to boot when Target is "UefiHttp"; empty means
	// that DHCP names it.
	HTTPBootURI string
	// Media is the URI of the image in the BMC's virtual CD drive, whatever
	// Target is; empty when the drive is. "Cd" boots it.
	Media string
}

// Machine is the computer behind the BMC. A [Service] never calls PowerOn and
// PowerOff at the same time; Powered may be called at any time, also during
// either of them.
//
// The context bounds the call only: it ends when the service is closed, and a
// machine that was started must live on after that.
type Machine interface {
	// PowerOn starts the machine and returns once it runs; it does not wait for
	// the boot. An error leaves the machine off, and the BMC shows that.
	PowerOn(ctx context.Context, boot Boot) error
	// PowerOff cuts the power and returns once the machine is off.
	PowerOff(ctx context.Context) error
	// Powered reports whether the machine runs. A machine that shut itself down
	// reports false, and the BMC follows.
	Powered() bool
}

// NullMachine remembers whether it is powered and how it was last booted, and
// does nothing else. The zero value is off and ready for use.
type NullMachine struct {
	mu    sync.Mutex
	on    bool
	boots []Boot
}

// PowerOn remembers the boot.
func (m *NullMachine) PowerOn(_ context.Context, boot Boot) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on = true
	m.boots = append(m.boots, boot)
	return nil
}

// PowerOff never fails.
func (m *NullMachine) PowerOff(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on = false
	return nil
}

// Powered reports the last of PowerOn and PowerOff.
func (m *NullMachine) Powered() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.on
}

// Boots lists every boot so far, oldest first.
func (m *NullMachine) Boots() []Boot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Boot(nil), m.boots...)
}
