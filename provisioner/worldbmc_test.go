package provisioner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/inventory"
)

// errKilled is all that a dead controller gets.
var errKilled = errors.New("the process is dead")

// board is a session with the BMC of one machine, of one controller's life.
type board struct {
	w     *world
	m     *machine
	epoch int
}

// dialer gives the BMCs to the controller of this epoch.
func (w *world) dialer(epoch int) Dialer {
	return func(ctx context.Context, n inventory.Node) (BMC, error) {
		m := w.of(n.ID())
		if m == nil {
			return nil, bmc.ErrUnreachable
		}
		b := &board{w, m, epoch}
		if err := b.ask(ctx, "log in", nil); err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		m.sessions[epoch]++
		return b, nil
	}
}

// faults are what a BMC's request ends in now and then.
var faults = []error{
	bmc.ErrUnreachable, bmc.ErrUnauthorized, bmc.ErrSessionLimit, bmc.ErrPowerTimeout,
	errors.New("HTTP 503, try again later"), context.DeadlineExceeded,
}

// ask is one request: the BMC takes it, works on it, and answers. What it does is
// done even if the controller that asked is dead by then, in half of the cases.
func (b *board) ask(ctx context.Context, what string, effect func() error) error {
	w, m := b.w, b.m
	w.mu.Lock()
	if b.epoch != w.epoch {
		w.mu.Unlock()
		return errKilled
	}
	if m.busy == b.epoch+1 {
		w.breach("I10: the BMC of %s was asked to %s while it works on another request", m.name, what)
	}
	m.busy = b.epoch + 1
	latency := time.Duration(m.rng.IntN(300)) * time.Millisecond
	var fault error
	if !w.calm && w.chance(m, m.faults) {
		fault = faults[m.rng.IntN(len(faults))]
	}
	late := w.chance(m, 0.5)
	hook := w.hook
	w.mu.Unlock()
	if hook != nil {
		hook(what, m)
	}
	waited := sleep(ctx, latency)
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.busy == b.epoch+1 {
		m.busy = 0
	}
	dead := b.epoch != w.epoch
	switch {
	case dead && (!late || fault != nil):
		return errKilled
	case fault != nil && late:
		return fault // before it did anything
	case waited != nil:
		return waited
	}
	if effect != nil {
		if err := effect(); err != nil {
			return err
		}
	}
	if dead {
		return errKilled
	}
	if fault != nil {
		m.spoiled = true // it did what was asked, and the answer says that it failed
	}
	return fault
}

func (b *board) Identify(ctx context.Context) (id bmc.Identity, err error) {
	err = b.ask(ctx, "identify", func() error {
		id = bmc.Identity{Vendor: "V", Model: "M", Facts: b.m.reports, PowerState: bmc.Off}
		if b.m.on {
			id.PowerState = bmc.On
		}
		return nil
	})
	return id, err
}

func (b *board) Arm(ctx context.Context, _ bmc.BootRequest) (now bmc.BootOverride, err error) {
	err = b.ask(ctx, "arm", func() error {
		if b.m.refuses != nil {
			return b.m.refuses
		}
		now = bmc.BootOverride{Target: "Pxe", Enabled: "Once", Mode: "UEFI"}
		b.m.override, b.m.armed = now, true
		b.w.note(entry{what: didArm, m: b.m, run: b.run()})
		return nil
	})
	if err != nil {
		b.w.mu.Lock()
		defer b.w.mu.Unlock()
		if b.epoch == b.w.epoch {
			b.m.armed = false // as far as anybody was told
			b.w.note(entry{what: didFailArm, m: b.m, run: b.run()})
		}
	}
	return now, err
}

// run is the run that the request belongs to. The caller has the lock.
func (b *board) run() string {
	cluster, _, _ := cutNode(b.m.name)
	return b.w.runs[cluster]
}

func (b *board) Disarm(ctx context.Context) error {
	return b.ask(ctx, "disarm", func() error {
		b.m.override = bmc.BootOverride{}
		return nil
	})
}

func (b *board) BootOverride(ctx context.Context) (now bmc.BootOverride, err error) {
	err = b.ask(ctx, "read the override", func() error {
		now = b.m.override
		return nil
	})
	return now, err
}

// PowerOff switches the machine off, which takes its time.
func (b *board) PowerOff(ctx context.Context) error {
	w, m := b.w, b.m
	err := b.ask(ctx, "power off", func() error {
		e := entry{what: didOff, m: m, run: b.run(), changed: m.on}
		if m.on && m.talos == inMaintenance && m.ready && w.itself(m) {
			e.up = time.Since(m.upSince)
		}
		w.note(e)
		m.armed = false
		m.launched = false
		if m.on {
			m.offBy = b.epoch + 1
			w.powerDown(m)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.settle(ctx)
}

// settle is the time that the machine takes to reach its power state.
func (b *board) settle(ctx context.Context) error {
	b.w.mu.Lock()
	lag := time.Duration(b.m.rng.Int64N(int64(b.m.lag) + 1))
	b.w.mu.Unlock()
	if err := sleep(ctx, lag); err != nil {
		return err
	}
	return b.ask(ctx, "read the power state", nil)
}

// PowerOn switches the machine on; one that is on is left alone.
func (b *board) PowerOn(ctx context.Context) error {
	w, m := b.w, b.m
	err := b.ask(ctx, "power on", func() error {
		w.note(entry{what: didOn, m: m, run: b.run(), changed: !m.on, armed: m.armed})
		if !m.on {
			m.launched = m.armed
			w.powerUp(m)
		}
		return nil
	})
	if err != nil {
		w.mu.Lock()
		m.spoiled = true // the way to switch it on is what failed
		w.mu.Unlock()
		return err
	}
	if err = b.settle(ctx); err != nil {
		w.mu.Lock()
		m.spoiled = true
		w.mu.Unlock()
	}
	return err
}

func (b *board) Close(context.Context) error {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.m.sessions[b.epoch]--
	return nil
}

// cutNode takes a node's id apart.
func cutNode(id string) (cluster, name string, err error) {
	for i := range id {
		if id[i] == '/' {
			return id[:i], id[i+1:], nil
		}
	}
	return "", "", fmt.Errorf("%q is no node", id)
}
