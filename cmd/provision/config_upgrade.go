package main

import (
	"time"

	"github.com/talos-provision/provision/provisioner/upgrade"
)

// upgradeConfig is the section upgrade of provision.yaml.
type upgradeConfig struct {
	// Registry is where nodes pull installers from: the Image Factory's, or a mirror of it.
	Registry string `yaml:"registry"`
	// MaxUnavailable is how many workers may be away at the same time: 2, or 25%.
	MaxUnavailable string        `yaml:"maxUnavailable"`
	GateTimeout    time.Duration `yaml:"gateTimeout"`
	PullTimeout    time.Duration `yaml:"pullTimeout"`
	DrainTimeout   time.Duration `yaml:"drainTimeout"`
	InstallTimeout time.Duration `yaml:"installTimeout"`
	RebootTimeout  time.Duration `yaml:"rebootTimeout"`
	VerifyTimeout  time.Duration `yaml:"verifyTimeout"`
	CallTimeout    time.Duration `yaml:"callTimeout"`
	// Poll is the time between two looks at a node, Grace how long a reboot that may have been ordered gets to show.
	Poll  time.Duration `yaml:"poll"`
	Grace time.Duration `yaml:"grace"`
	// LeaseDuration and LeaseRenew are of the Lease that keeps other controllers off.
	LeaseDuration time.Duration `yaml:"leaseDuration"`
	LeaseRenew    time.Duration `yaml:"leaseRenew"`
}

func defaultUpgradeConfig() upgradeConfig {
	return upgradeConfig{
		Registry: upgrade.DefaultRegistry, MaxUnavailable: "1",
		GateTimeout: 10 * time.Minute, PullTimeout: 15 * time.Minute, DrainTimeout: 5 * time.Minute, InstallTimeout: 15 * time.Minute,
		RebootTimeout: 20 * time.Minute, VerifyTimeout: 10 * time.Minute, CallTimeout: 15 * time.Second,
		Poll: 5 * time.Second, Grace: 90 * time.Second, LeaseDuration: 15 * time.Minute, LeaseRenew: 10 * time.Second,
	}
}

// durations are all of them, by their keys.
func (c *upgradeConfig) durations() map[string]time.Duration {
	return map[string]time.Duration{
		"gateTimeout": c.GateTimeout, "pullTimeout": c.PullTimeout, "drainTimeout": c.DrainTimeout, "installTimeout": c.InstallTimeout,
		"rebootTimeout": c.RebootTimeout, "verifyTimeout": c.VerifyTimeout, "callTimeout": c.CallTimeout, "poll": c.Poll, "grace": c.Grace,
		"leaseDuration": c.LeaseDuration, "leaseRenew": c.LeaseRenew,
	}
}

func (c *upgradeConfig) check() error {
	for key, value := range c.durations() {
		if value <= 0 {
			return usageError("upgrade.%s is %v: it must be more than nothing", key, value)
		}
	}
	if c.LeaseDuration < 3*c.LeaseRenew {
		return usageError("upgrade.leaseDuration is %v: it must be three times upgrade.leaseRenew (%v) or more", c.LeaseDuration, c.LeaseRenew)
	}
	if _, err := upgrade.ParseShare(c.MaxUnavailable); err != nil {
		return usageError("upgrade.maxUnavailable: %v", err)
	}
	return nil
}

func (c *upgradeConfig) timeouts() upgrade.Timeouts {
	return upgrade.Timeouts{
		Gate: c.GateTimeout, Pull: c.PullTimeout, Drain: c.DrainTimeout, Install: c.InstallTimeout, Reboot: c.RebootTimeout,
		Verify: c.VerifyTimeout, Call: c.CallTimeout, Poll: c.Poll, Grace: c.Grace,
	}
}
