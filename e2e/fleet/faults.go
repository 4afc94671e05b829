package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fault is one thing that is wrong with a machine, by the name that --faults has.
type Fault string

// Faults that a good controller gets a node through.
const (
	// BMCBusy answers a share of the BMC's requests 503 with Retry-After, BMCReset breaks a share of its
	// answers off; never two in a row, so that asking again is enough.
	BMCBusy  Fault = "bmc-503"
	BMCReset Fault = "bmc-reset"
	// PacketLoss drops a share of the machine's DHCP and TFTP packets, each way.
	PacketLoss Fault = "packet-loss"
	// SlowPOST hangs the first boot before the machine sends a packet; the next one does not.
	SlowPOST Fault = "slow-post"
	// SlowDownload bounds how fast the machine takes its images by HTTP.
	SlowDownload Fault = "slow-download"
)

// Faults that must end in Failed or Held, and machines that are nobody's business.
const (
	// Stranger is in no inventory, and boots from the network by itself, over and over.
	Stranger Fault = "stranger"
	// NotInPlan is in the inventory without install: true. Half of them boot from the network by themselves.
	NotInPlan Fault = "not-in-plan"
	// DuplicateSerial gives two machines one serial, board serial and UUID.
	DuplicateSerial Fault = "duplicate-serial"
	// Configured runs an installed Talos with a config that nobody knows.
	Configured Fault = "configured"
	// BMCAuth takes another password than the inventory's, BMCDown does not listen.
	BMCAuth Fault = "bmc-auth"
	BMCDown Fault = "bmc-down"
	// LyingOverride takes a boot override and keeps nothing of it.
	LyingOverride Fault = "lying-override"
	// SilentPower shows On, and the machine never sends a packet.
	SilentPower Fault = "silent-power"
	// IPXENever takes an address and never loads iPXE.
	IPXENever Fault = "ipxe-never"
	// StuckDownload hangs in the middle of its kernel.
	StuckDownload Fault = "stuck-download"
	// NeverReturns starts its kernel, whose Talos API never answers.
	NeverReturns Fault = "never-returns"
	// WrongMachine has another machine in maintenance at its address, all the time.
	WrongMachine Fault = "wrong-machine"
)

// group holds faults of which a machine has one at most.
type group int

const (
	forGood  group = iota // excludes every other fault
	ofBMC                 // one of these, and one of
	ofBoot                // these, and one of
	ofImages              // these
)

// States of nodes that the oracle knows, as the controller reports them.
const (
	stateMaintenance = "Maintenance"
	stateReady       = "Ready"
	stateFailed      = "Failed"
	stateHeld        = "Held"
)

// kind is what a fault is: its group, how strong it is unless told otherwise
// (0: it has no strength), and for those that are for good how a controller must
// end it. Power says that the machine may be powered before that is known.
type kind struct {
	name     Fault
	group    group
	strength float64
	state    string
	causes   []string
	power    bool
}

// kinds is every fault, in the order in which they are drawn.
var kinds = []kind{
	{name: Stranger},
	{name: NotInPlan},
	{name: DuplicateSerial, state: stateHeld, causes: []string{"identity"}},
	{name: Configured, state: stateHeld, causes: []string{"already configured"}},
	{name: BMCAuth, state: stateFailed, causes: []string{"BMC authentication"}},
	{name: BMCDown, state: stateFailed, causes: []string{"BMC unreachable"}},
	{name: LyingOverride, state: stateFailed, causes: []string{"override not kept"}},
	// The BMC shows On, so that power is no cause: what is missing is the machine's own request.
	{name: SilentPower, state: stateFailed, causes: []string{"no DHCP seen"}, power: true},
	{name: IPXENever, state: stateFailed, causes: []string{"iPXE never asked"}, power: true},
	{name: StuckDownload, state: stateFailed, causes: []string{"image never finished"}, power: true},
	{name: NeverReturns, state: stateFailed, causes: []string{"kernel never came up"}, power: true},
	{name: WrongMachine, state: stateFailed, causes: []string{"wrong machine"}, power: true},

	{name: BMCBusy, group: ofBMC, strength: 0.1},
	{name: BMCReset, group: ofBMC, strength: 0.1},
	{name: PacketLoss, group: ofBoot, strength: 0.1},
	{name: SlowPOST, group: ofBoot},
	{name: SlowDownload, group: ofImages, strength: 128},
}

// strengths says what the strength of a fault is, and the most that it may be.
var strengths = map[Fault]struct {
	of   string
	most float64
}{
	BMCBusy:      {"share of the answers", 0.5},
	BMCReset:     {"share of the answers", 0.5},
	PacketLoss:   {"share of the packets", 0.5},
	SlowDownload: {"kB a second", 1e6},
}

func kindOf(f Fault) (kind, bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == f })
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

// Rate is how many machines have a fault, and how much of it.
type Rate struct {
	// Share of the machines, 0 to 1.
	Share float64
	// Strength is a share of answers or packets, or kB a second; 0 takes the fault's usual one.
	Strength float64
}

// Rates are the rates of faults.
type Rates map[Fault]Rate

// ParseRates reads "bmc-auth=0.01,packet-loss=0.05:0.2": a share of the machines
// for each fault, and its strength where it is not the usual one.
func ParseRates(text string) (Rates, error) {
	rates := Rates{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(part), "=")
		if !found {
			return nil, fmt.Errorf("%q: want the form bmc-auth=0.01 or packet-loss=0.05:0.2", part)
		}
		if _, again := rates[Fault(name)]; again {
			return nil, fmt.Errorf("fault %s is given twice", name)
		}
		var rate Rate
		share, strength, given := strings.Cut(value, ":")
		var err error
		if rate.Share, err = strconv.ParseFloat(share, 64); err != nil {
			return nil, fmt.Errorf("fault %s: the share %q is no number from 0 to 1", name, share)
		}
		if given {
			if rate.Strength, err = strconv.ParseFloat(strength, 64); err != nil || !(rate.Strength > 0) {
				return nil, fmt.Errorf("fault %s: the strength %q is no number above 0", name, strength)
			}
		}
		rates[Fault(name)] = rate
	}
	return rates, rates.check()
}

// check says what is wrong with rates, also those that nobody parsed.
func (r Rates) check() error {
	sums := map[group]float64{}
	for name, rate := range r {
		k, known := kindOf(name)
		if !known {
			return fmt.Errorf("fault %q is not known: there are %s", name, strings.Join(FaultNames(), ", "))
		}
		if !(rate.Share >= 0 && rate.Share <= 1) {
			return fmt.Errorf("fault %s: the share %v is no number from 0 to 1", name, rate.Share)
		}
		limit, has := strengths[name]
		switch {
		case rate.Strength != 0 && !has:
			return fmt.Errorf("fault %s is there or not: it has no strength", name)
		case !(rate.Strength >= 0) || has && rate.Strength > limit.most:
			return fmt.Errorf("fault %s: the strength %v is the %s, at most %v", name, rate.Strength, limit.of, limit.most)
		}
		sums[k.group] += rate.Share
	}
	for g, sum := range sums {
		if sum > 1+1e-9 {
			return fmt.Errorf("a machine has one of %s at most, and their shares sum up to %v: more than 1", strings.Join(namesIn(g), ", "), sum)
		}
	}
	return nil
}

// FaultNames are the names of all faults, as ParseRates reads them.
func FaultNames() []string {
	names := make([]string, 0, len(kinds))
	for _, k := range kinds {
		names = append(names, string(k.name))
	}
	return names
}

func namesIn(g group) []string {
	var names []string
	for _, k := range kinds {
		if k.group == g {
			names = append(names, string(k.name))
		}
	}
	return names
}

// strength is how much of a fault there is, where there is any.
func (r Rates) strength(f Fault) float64 {
	if given := r[f].Strength; given > 0 {
		return given
	}
	k, _ := kindOf(f)
	return k.strength
}

// pick is the fault of a group that a number from 0 to below 1 stands for; "" for none.
func (r Rates) pick(g group, at float64) Fault {
	for _, k := range kinds {
		if k.group != g {
			continue
		}
		if at -= r[k.name].Share; at < 0 {
			return k.name
		}
	}
	return ""
}
