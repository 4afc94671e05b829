package fleet

import (
	"errors"
	"slices"
	"time"
)

// assign draws what is wrong with each machine, by its index. A machine that can
// never be installed has no other fault, so that there is one cause for its end.
func (c Config) assign() (wrong [][]Fault, twins map[int]int) {
	wrong, twins = make([][]Fault, c.Nodes), map[int]int{}
	if len(c.Faults) == 0 {
		return wrong, twins
	}
	for i := range c.Nodes {
		if _, paired := twins[i]; paired {
			continue
		}
		r := c.random(drawFaults, i, 0)
		fault := c.Faults.pick(forGood, r.Float64())
		if fault == DuplicateSerial {
			if twin := c.twin(i, wrong); twin < 0 {
				fault = "" // nobody is there to share its serial with
			} else {
				wrong[twin] = []Fault{DuplicateSerial}
				twins[twin], twins[i] = i, i
			}
		}
		if fault != "" {
			wrong[i] = []Fault{fault}
			continue
		}
		for _, g := range []group{ofBMC, ofBoot, ofImages} {
			if fault := c.Faults.pick(g, r.Float64()); fault != "" {
				wrong[i] = append(wrong[i], fault)
			}
		}
	}
	return wrong, twins
}

// hidesBoard are vendors whose BMCs show no board serial. There two machines with
// one serial and one UUID are told apart by their MACs, and rightly installed.
var hidesBoard = map[string]bool{"ami": true, "cisco": true, "sushy-tools": true}

// twin is the machine that another one shares its serials with: the next one, or
// the one before, of the same vendor; -1 when there is none without a fault of its own.
func (c Config) twin(i int, wrong [][]Fault) int {
	vendor := c.profile(i).Name
	if hidesBoard[vendor] {
		return -1
	}
	if i+1 < c.Nodes && c.profile(i+1).Name == vendor {
		return i + 1
	}
	if i > 0 && c.profile(i-1).Name == vendor && !hopeless(wrong[i-1]) {
		return i - 1
	}
	return -1
}

// hopeless tells whether faults keep a machine from being installed.
func hopeless(faults []Fault) bool {
	return slices.ContainsFunc(faults, func(f Fault) bool {
		k, known := kindOf(f)
		return known && k.group == forGood
	})
}

// checkFaults says what of the configuration does not go with its faults.
func (c Config) checkFaults() error {
	if err := c.Faults.check(); err != nil {
		return err
	}
	for _, k := range kinds {
		if k.group == forGood && c.Faults[k.name].Share > 0 && (len(c.Clusters) > 0 || c.MachineConfigs) {
			return errors.New("fault " + string(k.name) + " is for a fleet of one cluster without machine configs: others wait for the nodes that it keeps away")
		}
	}
	if c.Faults[SlowPOST].Share > 0 && c.Attempts < 2 {
		return errors.New("fault slow-post takes a first attempt: give nodes two attempts or more")
	}
	if c.Faults[SlowDownload].Share > 0 {
		seconds := float64(2*c.ImageSize) / (1000 * c.Faults.strength(SlowDownload))
		if time.Duration(seconds*float64(time.Second)) > c.BootTimeout/2 {
			return errors.New("fault slow-download: kernel and initramfs would not come within half the boot timeout: make images smaller, or the rate or the timeout larger")
		}
	}
	return nil
}
