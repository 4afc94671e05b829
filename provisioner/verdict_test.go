package provisioner

import (
	"time"
)

// latency is how much later than asked for a request may reach a BMC.
const latency = time.Second

// verdict judges a whole history by the world's log.
func (m *model) verdict() {
	m.t.Helper()
	m.check()
	for _, of := range m.w.machines {
		m.judgeTouched(of)
		m.judgeBudgets(of)
		m.judgeFinished(of)
		m.judgeHeld(of)
	}
	m.judgeWindow()
}

// judgeTouched: I1, I2 and I4, and I6 in that nothing that was on is off in the end.
func (m *model) judgeTouched(of *machine) {
	power := m.deeds(of.name, didOff, didOn)
	armings := m.deeds(of.name, didArm, didFailArm)
	switch {
	case of.frozen != "" && len(power)+len(armings) > 0:
		m.t.Errorf("I1, I2: %s is %s, and was touched\n%s", of.name, of.frozen, m.w.history(of))
	case of.refuses != nil && len(power) > 0:
		m.t.Errorf("I4: the BMC of %s keeps no override, and its power was touched\n%s", of.name, m.w.history(of))
	}
	if wipes := m.deeds(of.name, didWipe); len(wipes) > 0 {
		m.t.Errorf("I6: %s was wiped", of.name)
	}
	changed := false
	for _, e := range power {
		changed = changed || e.what == didOff && e.changed
	}
	if changed && !of.on && !of.spoiled {
		m.t.Errorf("I6: %s was on, and was left off\n%s", of.name, m.w.history(of))
	}
	if of.sessions[m.w.epoch] != 0 {
		m.t.Errorf("%s: %d sessions were left open at its BMC", of.name, of.sessions[m.w.epoch])
	}
}

// judgeBudgets: I7, over all controllers.
func (m *model) judgeBudgets(of *machine) {
	attempts := map[string]int{}
	var last time.Time
	for _, e := range m.deeds(of.name, didOn) {
		if !e.changed || !e.armed {
			continue // what is put back on was not booted by us
		}
		if attempts[e.run]++; attempts[e.run] > m.budgets.Attempts {
			m.t.Errorf("I7: run %s switched %s on %d times\n%s", e.run, of.name, attempts[e.run], m.w.history(of))
		}
		if gap := e.at.Sub(last); !last.IsZero() && gap < m.budgets.MinRebootInterval-latency {
			m.t.Errorf("I7: %s was switched on twice within %s\n%s", of.name, gap, m.w.history(of))
		}
		last = e.at
	}
}

// judgeFinished: I8. A machine that came up in time is not power cycled again.
func (m *model) judgeFinished(of *machine) {
	if of.squatted {
		return // nobody could see it
	}
	inTime, lost := true, false
	for _, e := range m.deeds(of.name, didUp, didOff) {
		switch {
		case e.what == didUp:
			inTime = e.since < m.budgets.BootTimeout-10*time.Second
			lost = of.spoiled || of.dhcp && m.killedWithin(e.at.Add(-e.since), of.lag+latency)
		case lost:
			// It was given up while it booted, or the controller died before it had written down where DHCP put it.
		case e.up > 10*time.Second && inTime:
			m.t.Errorf("I8: %s was up in maintenance for %s, and was powered off at %s\n%s", of.name, e.up, e.at.Format("15:04:05"), m.w.history(of))
		}
	}
}

// killedWithin says whether a controller died within some time after an instant.
func (m *model) killedWithin(after time.Time, within time.Duration) bool {
	for _, e := range m.deeds("", didKill) {
		if d := e.at.Sub(after); d >= 0 && d <= within {
			return true
		}
	}
	return false
}

// judgeHeld: a held node is not powered off. What is off already may be switched on:
// a machine that is left off helps nobody.
func (m *model) judgeHeld(of *machine) {
	var held time.Time
	for _, e := range m.deeds(of.name, didHold, didRelease, didOff) {
		switch {
		case e.what == didHold:
			held = e.at
		case e.what == didRelease:
			held = time.Time{}
		case !held.IsZero() && e.at.Sub(held) > latency:
			m.t.Errorf("%s is held since %s, and was powered off\n%s", of.name, held.Format("15:04:05"), m.w.history(of))
		}
	}
}

// judgeWindow: I10, over all controllers, and in each chassis and rack.
func (m *model) judgeWindow() {
	racks := map[string]string{}
	for _, n := range m.nodes {
		racks[n.ID()] = n.Labels["rack"]
	}
	groups := map[string][]time.Time{}
	limits := map[string]int{"": m.power.Parallel}
	for _, e := range m.deeds("", didOn) {
		if !e.changed || !e.armed && m.killedWithin(e.at, m.power.Window) {
			continue // of a machine that was put back on the next controller may not know
		}
		groups[""] = append(groups[""], e.at)
		if m.power.PerChassis > 0 {
			name := "chassis " + e.m.reports.Serial
			groups[name], limits[name] = append(groups[name], e.at), m.power.PerChassis
		}
		if m.power.PerRack > 0 {
			name := "rack " + racks[e.m.name]
			groups[name], limits[name] = append(groups[name], e.at), m.power.PerRack
		}
	}
	for name, times := range groups {
		for i := limits[name]; i < len(times); i++ {
			if gap := times[i].Sub(times[i-limits[name]]); gap < m.power.Window-latency {
				m.t.Errorf("I10: %d power-ons of %q within %s, at %s", limits[name]+1, name, gap, times[i].Format("15:04:05.000"))
			}
		}
	}
}
