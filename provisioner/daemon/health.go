package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/talos-provision/provision/provisioner/web"
)

// Settled returns when the daemon serves its site or is known to stand by, or with
// ctx's error.
func (d *Daemon) Settled(ctx context.Context) error {
	select {
	case <-d.settled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lifeTimeout is how long the daemon may take to show that it is not stuck.
const lifeTimeout = 5 * time.Second

// Lives says whether the daemon answers, rather than being stuck on itself.
func (d *Daemon) Lives(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, lifeTimeout)
	defer cancel()
	answered := make(chan struct{})
	go func() {
		d.Standing()
		close(answered)
	}()
	select {
	case <-answered:
		return true
	case <-ctx.Done():
		return false
	}
}

// Standing says in a line what the daemon does.
func (d *Daemon) Standing() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leading == nil {
		return d.standing
	}
	return fmt.Sprintf("leads site %q with %d nodes; %d runs go on", d.opts.Site, len(d.generation.Tree.Nodes), len(d.jobs))
}

// Health says what works and what does not.
func (d *Daemon) Health(context.Context) []web.Check {
	d.mu.Lock()
	leads, standing, src := d.leading != nil, d.standing, d.src
	d.mu.Unlock()
	checks := []web.Check{
		{Name: "site", OK: leads, What: "leads the site and serves machines"},
		{Name: "state", OK: true, What: "the state store answers"},
		{Name: "inventory", OK: true, What: "the newest inventory is in use"},
	}
	if !leads {
		checks[0].What = standing
	}
	if err := d.opts.Store.Alive(); err != nil {
		checks[1].OK, checks[1].What = false, err.Error()
	}
	if src == nil {
		checks[2].OK, checks[2].What = false, "no inventory was loaded yet"
	} else if refusal := src.Status().Refusal; refusal != nil {
		// The last good one goes on: that is no reason to send nobody here.
		checks[2].What = "the newest inventory is refused, the last good one goes on: " + refusal.Error()
	}
	return checks
}
