package provisioner

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/talos"
	"github.com/talos-provision/provision/pxe/dhcp"
	"github.com/talos-provision/provision/pxe/httpboot"
)

// What runs on a machine.
const (
	nothing       = ""
	inMaintenance = "maintenance"
	configuredNow = "configured"
)

// powerDown and powerUp are what the power does to a machine. The caller has the lock.
func (w *world) powerDown(m *machine) {
	m.on, m.talos, m.ready = false, nothing, false
	m.cycle++
	if m.dropsOverride {
		m.override = bmc.BootOverride{}
	}
}

func (w *world) powerUp(m *machine) {
	m.on, m.talos, m.ready, m.onSince, m.offBy = true, nothing, false, time.Now(), 0
	m.cycle++
	network := m.override.Armed()
	if !m.keepsOverride {
		m.override = bmc.BootOverride{}
	}
	go w.boot(m, m.cycle, network)
}

// reboot is what somebody does at the machine's own button.
func (w *world) reboot(m *machine, network bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !m.on {
		return
	}
	w.powerDown(m)
	m.on, m.talos = true, nothing
	m.onSince = time.Now()
	go w.boot(m, m.cycle, network)
}

// still says whether the machine has not been switched off since this boot began.
func (w *world) still(m *machine, cycle int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return m.on && m.cycle == cycle
}

// pass lets a boot take its time; false when it is over.
func (w *world) pass(m *machine, cycle int, d time.Duration) bool {
	return sleep(w.ctx, d) == nil && w.still(m, cycle)
}

// boot is one boot of a machine, from its firmware to Talos or to nowhere.
func (w *world) boot(m *machine, cycle int, network bool) {
	w.mu.Lock()
	hang := !w.calm && w.chance(m, m.hangs)
	where := m.rng.IntN(4)
	post := m.post/2 + time.Duration(m.rng.Int64N(int64(m.post)))
	w.mu.Unlock()
	if !hang {
		where = -1
	}
	if !w.pass(m, cycle, post) || where == 0 {
		return
	}
	if network && !m.dead && w.netboot(m, cycle, where) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.on && m.cycle == cycle && m.configured {
		m.talos, m.ready = configuredNow, true
	}
}

// netboot follows the boot services; false says that it goes on with the disk.
func (w *world) netboot(m *machine, cycle, hang int) bool {
	for range 3 {
		answer, c, goesOn := w.askScript(m, cycle, hang)
		if !goesOn || answer.Kind != httpboot.Install {
			return goesOn && answer.Kind == httpboot.Wait // it waits forever
		}
		if !w.pass(m, cycle, 10*time.Second) || hang == 2 {
			return true
		}
		if now, _ := w.controller(); now != c {
			continue // the server went away in the middle of the download: from the beginning
		}
		w.download(m, c)
		w.start(m, cycle, c, answer, hang)
		return true
	}
	return false
}

// askScript is DHCP and the script; nobody answers while the controller is dead.
func (w *world) askScript(m *machine, cycle, hang int) (answer httpboot.Answer, c *Controller, goesOn bool) {
	source := netip.MustParseAddr(m.address)
	for range 40 {
		if !w.pass(m, cycle, 5*time.Second) {
			return answer, nil, true
		}
		if c, _ = w.controller(); c == nil {
			continue
		}
		w.mu.Lock()
		m.leased = true
		w.mu.Unlock()
		c.ObserveLease(dhcp.Lease{MAC: m.facts.MACs[0], IP: source, Class: dhcp.ClassPXE})
		c.ObserveLease(dhcp.Lease{MAC: m.facts.MACs[0], IP: source, Class: dhcp.ClassIPXE})
		if hang == 1 {
			return httpboot.Answer{Kind: httpboot.Wait}, c, true
		}
		answer = w.script(m, c)
		if answer.Kind != httpboot.Wait {
			return answer, c, true
		}
	}
	return answer, nil, false
}

// script asks for the machine's script, and judges whether it may have it (I2, I3).
func (w *world) script(m *machine, c *Controller) httpboot.Answer {
	answer := c.Direct(w.ctx, httpboot.Request{Facts: m.facts, Arch: "amd64", Platform: "efi", Source: netip.MustParseAddr(m.address)})
	if answer.Kind != httpboot.Install {
		return answer
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(entry{what: didServe, m: m})
	switch {
	case m.name == "" || answer.Node != m.name:
		w.breach("I3: %q was served the install of %s", m.name, answer.Node)
	case m.frozen != "":
		w.breach("I2, I3: %s is %s, and was served an install", m.name, m.frozen)
	case !m.launched && time.Since(m.ended) > 0:
		w.breach("I3: %s was served an install, and no controller has it under way\n%s", m.name, w.history(m))
	}
	return answer
}

func (w *world) download(m *machine, c *Controller) {
	for _, name := range []string{"s/v1.13.9/kernel-amd64", "s/v1.13.9/initramfs-amd64.xz"} {
		c.ObserveHTTP(httpboot.Transfer{Source: netip.MustParseAddr(m.address), Name: name, Method: "GET", Bytes: 9, Size: 9})
	}
}

// start is the kernel, and Talos.
func (w *world) start(m *machine, cycle int, c *Controller, answer httpboot.Answer, hang int) {
	if handout, given := c.HandOut(answer.ConfigToken, netip.MustParseAddr(m.address)); given {
		handout.Done(true)
	}
	w.mu.Lock()
	w.tokens = append(w.tokens, answer.ConfigToken)
	if strings.Contains(answer.Args, wipeArg) {
		w.note(entry{what: didWipe, m: m})
		m.configured = false
	}
	w.mu.Unlock()
	if !w.pass(m, cycle, 20*time.Second) || hang == 3 {
		return
	}
	w.mu.Lock()
	if m.configured {
		m.talos, m.ready = configuredNow, true
		w.mu.Unlock()
		return
	}
	m.talos = inMaintenance // its API answers, and is not ready yet
	w.mu.Unlock()
	if !w.pass(m, cycle, 8*time.Second) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.on && m.cycle == cycle {
		m.ready, m.upSince = true, time.Now()
		w.note(entry{what: didUp, m: m, since: time.Since(m.onSince)})
	}
}

// leases are what the DHCP server remembers, also one that is started again.
func (w *world) leases() map[string]netip.Addr {
	w.mu.Lock()
	defer w.mu.Unlock()
	leases := map[string]netip.Addr{}
	for _, m := range w.machines {
		if m.leased {
			leases[m.facts.MACs[0]] = netip.MustParseAddr(m.address)
		}
	}
	return leases
}

// Probe is the network's answer at an address.
func (w *world) Probe(ctx context.Context, host string) talos.Observation {
	if sleep(ctx, 20*time.Millisecond) != nil {
		return talos.Observation{Host: host, Err: ctx.Err()}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.at(host)
	if m == nil || m.talos == nothing {
		return talos.Observation{Host: host, Err: context.DeadlineExceeded}
	}
	if m.talos == configuredNow {
		return talos.Observation{Host: host, State: talos.Configured}
	}
	o := talos.Observation{
		Host: host, State: talos.Maintenance, Version: "v1.13.9", Stage: "booting",
		Facts: identity.Facts{Serial: m.facts.Serial, UUID: m.facts.UUID, MACs: m.facts.MACs},
	}
	if m.ready {
		o.Stage, o.Ready = "maintenance", true
		m.answered = time.Now()
	}
	return o
}

// Disks and Apply are a machine's in maintenance.
func (w *world) Disks(context.Context, string) ([]talos.Disk, error) {
	return []talos.Disk{{DevPath: "/dev/vda", Type: "ssd", Size: 20 << 30}}, nil
}

func (w *world) Apply(ctx context.Context, host string, _ []byte, _ bool, confirm func(talos.Observation) error) (talos.Applied, error) {
	return talos.Applied{}, confirm(w.Probe(ctx, host))
}

// judge checks what the controller says at the moment when it says it.
func (w *world) judge(e store.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.of(e.Cluster + "/" + e.Node)
	switch State(e.State) {
	case PowerCycled:
		if m == nil || !m.launched {
			w.breach("I4: %s/%s is said to be power cycled, and was not switched on with an override that was read back", e.Cluster, e.Node)
		}
	case Maintenance:
		if m == nil || m.answered.IsZero() || time.Since(m.answered) > 2*time.Second {
			w.breach("I5: %s/%s is said to be in maintenance, and did not answer as that", e.Cluster, e.Node)
			return
		}
		m.launched, m.ended = false, time.Now()
	case Failed, Held:
		if m != nil {
			m.launched, m.ended = false, time.Now()
			if State(e.State) == Failed && !m.on && m.offBy != 0 && !m.spoiled {
				w.breach("I6: %s was given up, and left off\n%s", m.name, w.history(m))
			}
		}
	default:
	}
}
