package fleet

import (
	"net/netip"
	"time"
)

// Truth is what is so of one machine, by the machine's own account.
type Truth struct {
	Cluster string `json:"cluster"`
	Name    string `json:"node"`
	// Vendor is the name of its BMC's profile, Chassis the number of its chassis from 1.
	Vendor  string `json:"vendor"`
	Chassis int    `json:"chassis"`
	// Listed says that the inventory has it, InPlan that it is marked install: true there.
	Listed bool `json:"listed"`
	InPlan bool `json:"inPlan"`
	// Faults are what is wrong with it.
	Faults   []Fault     `json:"faults,omitempty"`
	Expected Expectation `json:"expected,omitzero"`

	// PowerOns and PowerOffs are how often its BMC really switched it. Scripts are the install scripts that
	// it was served, Kernels the kernels that it got whole, Configs the machine configs that it took.
	PowerOns  int `json:"powerOns"`
	PowerOffs int `json:"powerOffs"`
	Scripts   int `json:"scripts"`
	Kernels   int `json:"kernels"`
	Configs   int `json:"configs"`
	// Leases are the addresses that DHCP gave it, each once.
	Leases []netip.Addr `json:"leases,omitempty"`
	// Reached is when it came how far, since it was last switched on.
	Reached Times `json:"reached,omitzero"`
	// Up is what its own system serves now: "maintenance", "configured" or "" for nothing; Address is where.
	Up      string `json:"up,omitempty"`
	Address string `json:"address,omitempty"`
	// Sessions are those that are open on its BMC, by the time at which each was opened.
	Sessions []time.Time `json:"sessions,omitempty"`
}

// Times are when a machine came how far in its latest boot, by its own clock; what
// it did not reach is zero.
type Times struct {
	// PoweredOn is when its BMC switched it on; Lease and LastLease are its first and its latest lease (its firmware's
	// and iPXE's).
	PoweredOn time.Time `json:"poweredOn,omitzero"`
	Lease     time.Time `json:"lease,omitzero"`
	LastLease time.Time `json:"lastLease,omitzero"`
	// Script is when it had an install script, Kernel when the whole kernel, Up when its Talos API began to answer.
	Script time.Time `json:"script,omitzero"`
	Kernel time.Time `json:"kernel,omitzero"`
	Up     time.Time `json:"up,omitzero"`
}

// ID is the machine's name as the controller has it: cluster/node.
func (t Truth) ID() string { return t.Cluster + "/" + t.Name }

// Expectation is how a good controller ends a machine that is in its plan.
type Expectation struct {
	// State is Maintenance (or Ready), Failed or Held; Causes are the acceptable classes of cause for the latter two.
	State  string   `json:"state"`
	Causes []string `json:"causes,omitempty"`
	// PowerOns is how often the machine may be switched on at most.
	PowerOns int `json:"powerOns"`
}

// Oracle knows the truth of every machine of a fleet at one moment.
type Oracle struct {
	Seed uint64 `json:"seed"`
	// Attempts is the budget of power cycles that provision.yaml gives each node.
	Attempts int     `json:"attempts"`
	Machines []Truth `json:"machines"`
	// Since, which the judge may set, forgives BMC sessions that were opened before: a controller that
	// was killed cannot close its own. It is when the last controller was started.
	Since time.Time `json:"since,omitzero"`
}

// Oracle is the truth of this moment. To judge a controller by it, read the
// controller's states first: a node that it has confirmed stays up.
func (f *Fleet) Oracle() Oracle {
	o := Oracle{Seed: f.config.Seed, Attempts: f.config.Attempts, Machines: make([]Truth, 0, len(f.machines))}
	for _, m := range f.machines {
		o.Machines = append(o.Machines, m.truth())
	}
	return o
}

// Describe is the truth of the fleet that Start would start, before anything
// happens: the same for the same configuration. Nothing is started or written.
func Describe(config Config) (Oracle, error) {
	config, err := config.complete()
	if err != nil {
		return Oracle{}, err
	}
	f := &Fleet{config: config}
	f.makeMachines()
	return f.Oracle(), nil
}

func (m *Machine) truth() Truth {
	t := Truth{
		Cluster: m.Cluster, Name: m.Name, Vendor: m.profile.Name, Chassis: m.index/m.fleet.config.PerChassis + 1,
		Listed: m.listed(), InPlan: m.inPlan(), Faults: m.Wrong,
	}
	if t.InPlan {
		t.Expected = m.expected()
	}
	m.ledger.put(&t)
	if m.bmc != nil {
		t.Sessions = m.bmc.SessionsOpened()
	}
	return t
}

// expected is how a good controller ends the machine.
func (m *Machine) expected() Expectation {
	e := Expectation{State: stateMaintenance, PowerOns: m.fleet.config.Attempts}
	if m.fleet.config.MachineConfigs {
		e.State = stateReady
	}
	for _, f := range m.Wrong {
		k, known := kindOf(f)
		if !known || k.state == "" {
			continue
		}
		e.State, e.Causes = k.state, append(e.Causes, k.causes...)
		if !k.power {
			e.PowerOns = 0
		}
	}
	if m.mayBeBlamed() {
		e.Causes = append(e.Causes, "identity")
	}
	return e
}

// mayBeBlamed tells whether a node that shows nothing but its packets may be
// taken for a neighbour: one with the same chassis serial that boots from the
// network by itself, and whose own serials nobody knows. A controller then says
// that it cannot tell the two apart.
func (m *Machine) mayBeBlamed() bool {
	if !m.Has(SilentPower) && !m.Has(IPXENever) {
		return false
	}
	per := m.fleet.config.PerChassis
	first := m.index / per * per
	for _, other := range m.fleet.machines[first:min(first+per, len(m.fleet.machines))] {
		if other != m && other.Has(NotInPlan) && other.Hardware.Serial == m.Hardware.Serial {
			return true
		}
	}
	return false
}
