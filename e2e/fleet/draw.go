package fleet

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

// What is drawn for a machine. Each has a stream of random numbers of its own,
// so that one more draw for one thing changes nothing of another.
const (
	drawVendor = iota + 1
	drawFaults
	drawPowerLag
	drawBoot // as often as the machine boots
	drawBMC
	drawLoss
	drawSelf
)

// random is the stream for one thing of one machine. It depends on the seed and
// on nothing that happens: the order in which machines run does not matter.
func (c Config) random(what, index, again int) *rand.Rand {
	return rand.New(rand.NewPCG(mix(c.Seed), mix(uint64(what)<<56|uint64(again)<<28|uint64(index)))) //nolint:gosec // repeatable on purpose
}

// mix makes neighbours differ in all their bits (the finaliser of SplitMix64):
// generators that start side by side give numbers that lean on each other.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// VendorShare is a vendor of a mix: Weight of the sum of all weights.
type VendorShare struct {
	Profile redfishtest.Profile
	Weight  int // 1 or more
}

// ParseVendors reads "supermicro:4,dell:3"; a weight that is left out is 1.
func ParseVendors(text string) ([]VendorShare, error) {
	var mix []VendorShare
	for part := range strings.SplitSeq(text, ",") {
		name, number, given := strings.Cut(strings.TrimSpace(part), ":")
		share := VendorShare{Weight: 1}
		var found bool
		if share.Profile, found = redfishtest.ProfileNamed(name); !found {
			return nil, fmt.Errorf("vendor %q is not known: there are %s", name, strings.Join(vendorNames(), ", "))
		}
		if given {
			weight, err := strconv.ParseUint(number, 10, 16)
			if err != nil || weight == 0 {
				return nil, fmt.Errorf("vendor %q: the weight %q is no number from 1 to 65535", name, number)
			}
			share.Weight = int(weight)
		}
		mix = append(mix, share)
	}
	return mix, nil
}

func vendorNames() []string {
	profiles := redfishtest.Profiles()
	names := make([]string, 0, len(profiles))
	for _, p := range profiles {
		names = append(names, p.Name)
	}
	return names
}

// profile is the vendor of a machine: that of its whole chassis.
func (c Config) profile(index int) redfishtest.Profile {
	total := 0
	for _, v := range c.Vendors {
		total += v.Weight
	}
	if total == 0 {
		return c.Profile
	}
	at := c.random(drawVendor, index/c.PerChassis, 0).IntN(total)
	for _, v := range c.Vendors {
		if at -= v.Weight; at < 0 {
			return v.Profile
		}
	}
	return c.Profile
}
