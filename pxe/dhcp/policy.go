package dhcp

import "time"

// Mode is what the server is to its network.
type Mode string

// The modes.
const (
	// ModeServer leases addresses and tells what to boot.
	ModeServer Mode = ""
	// ModeProxy leaves addresses to somebody else's DHCP server and only tells PXE
	// firmware, UEFI HTTP boot and iPXE what to boot (ProxyDHCP, PXE 2.1).
	ModeProxy Mode = "proxy"
)

// Admission says how far a machine is served.
type Admission int

// The admissions.
const (
	// Boot: address and boot file.
	Boot Admission = iota
	// LeaseOnly: an address as for any other computer, nothing to boot. Firmware
	// then goes on to its next boot device. In ModeProxy this is Silent.
	LeaseOnly
	// Silent: no answer at all; another server may serve the machine.
	Silent
)

// admit asks the policy about a machine.
func (e *engine) admit(mac string) Admission {
	if e.options.Admit == nil {
		return Boot
	}
	return e.options.Admit(mac)
}

// Bounds of the loop detection.
const (
	// mostBinaries is how often a machine may be told to load an iPXE binary within
	// loopWindow before it has asked for a boot script.
	mostBinaries = 3
	loopWindow   = time.Minute
	// loopPause is how long a machine in a loop is told nothing to boot.
	loopPause = 5 * time.Minute
	// mostWatched bounds the memory that a flood of invented clients can take.
	mostWatched = 8192
)

// loops notices machines that load iPXE again and again without getting to a
// boot script: an iPXE that is not recognised (warewulf3#104), or one that
// cannot reach HTTP.
type loops struct {
	machines map[string]*attempts // by raw MAC
	swept    time.Time
}

type attempts struct {
	times  []time.Time // of binaries, oldest first, within loopWindow
	xid    uint32      // of the last one: a repeated request is no new attempt
	paused time.Time   // told nothing until then
}

// paused reports whether the machine is told nothing to boot for now.
func (l *loops) paused(mac string, now time.Time) bool {
	a := l.machines[mac]
	return a != nil && a.paused.After(now)
}

// count notes that a machine was told to load a binary. It reports true when
// that makes a loop, once.
func (l *loops) count(mac string, xid uint32, now time.Time) bool {
	a := l.machines[mac]
	if a == nil {
		if len(l.machines) >= mostWatched && !l.sweep(now) {
			return false
		}
		if l.machines == nil {
			l.machines = map[string]*attempts{}
		}
		a = &attempts{}
		l.machines[mac] = a
	}
	if len(a.times) > 0 && a.xid == xid {
		return false
	}
	a.xid = xid
	for len(a.times) > 0 && now.Sub(a.times[0]) > loopWindow {
		a.times = a.times[1:]
	}
	if a.times = append(a.times, now); len(a.times) <= mostBinaries {
		return false
	}
	a.times, a.paused = nil, now.Add(loopPause)
	return true
}

// forget ends the watch: the machine got to its script.
func (l *loops) forget(mac string) { delete(l.machines, mac) }

// sweep drops what is too old to matter and says whether that made room. It
// looks once a second at most: in a flood it would cost more than the answers.
func (l *loops) sweep(now time.Time) bool {
	if since := now.Sub(l.swept); since >= 0 && since < time.Second {
		return false
	}
	l.swept = now
	for mac, a := range l.machines {
		last := a.paused
		if n := len(a.times); n > 0 && a.times[n-1].Add(loopWindow).After(last) {
			last = a.times[n-1].Add(loopWindow)
		}
		if !last.After(now) {
			delete(l.machines, mac)
		}
	}
	return len(l.machines) < mostWatched
}
