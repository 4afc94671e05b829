package provisioner

import (
	"time"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/store"
)

// powerGroups are the breakers that the node shares with others: its chassis and its rack.
func (n *node) powerGroups() []PowerGroup {
	return n.c.groupsOf(n.Labels, n.snapshot().Facts)
}

func (c *Controller) groupsOf(labels map[string]string, facts identity.Facts) []PowerGroup {
	power := c.power()
	var groups []PowerGroup
	// Boards of one chassis report the same system serial. Of a machine that is alone in its chassis the group has one member.
	if serial := identity.NormalizeSerial(facts.Serial); power.PerChassis > 0 && serial != "" {
		groups = append(groups, PowerGroup{"chassis " + serial, power.PerChassis})
	}
	if rack := labels[power.RackLabel]; power.PerRack > 0 && rack != "" {
		groups = append(groups, PowerGroup{"rack " + rack, power.PerRack})
	}
	return groups
}

// prime counts the power-ons that an earlier process did in the window of this
// one, once: a restart must not let a second burst follow the first (I10).
func (c *Controller) prime() error {
	c.mu.Lock()
	done := c.primed
	c.primed = true
	labels := make(map[string]map[string]string, len(c.inventory.Nodes))
	for _, n := range c.inventory.Nodes {
		labels[n.ID()] = n.Labels
	}
	c.mu.Unlock()
	if done || c.power().Window <= 0 {
		return nil
	}
	records, err := c.opts.Store.Nodes("")
	if err != nil {
		c.mu.Lock()
		c.primed = false
		c.mu.Unlock()
		return err
	}
	for _, r := range records {
		if !r.LastPowerOn.IsZero() {
			groups := c.groupsOf(labels[recordID(r)], r.Facts)
			c.window.Note(r.LastPowerOn, groups...)
			c.powerOns.Note(r.LastPowerOn, groups...)
		}
	}
	return nil
}

func recordID(r store.Node) string { return r.Cluster + "/" + r.Name }

// remaining is how much is left of a span that began at a stored time, by this
// host's clock. A time in the future was written before the clock was set back:
// the span then begins now, so that nobody waits for years.
func remaining(since time.Time, span time.Duration) time.Duration {
	if since.IsZero() {
		return 0
	}
	elapsed := time.Since(since)
	if elapsed < 0 {
		return span
	}
	return max(span-elapsed, 0)
}

// past is a stored time as this host's clock can have it: one in the future was
// written before the clock was set back, and is taken to be now.
func past(stored time.Time) time.Time {
	if now := time.Now(); stored.After(now) {
		return now
	}
	return stored
}

// SetLimits puts other limits in the place of the present ones. Nodes whose
// deadline runs already keep it until their next step.
func (c *Controller) SetLimits(power Power, budgets Budgets) {
	c.mu.Lock()
	c.opts.Power, c.opts.Budgets = power, budgets.withDefaults()
	c.mu.Unlock()
	c.window.SetLimits(power)
	c.powerOns.SetLimits(power.steady())
}

func (c *Controller) budgets() Budgets {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opts.Budgets
}

func (c *Controller) power() Power {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opts.Power
}
