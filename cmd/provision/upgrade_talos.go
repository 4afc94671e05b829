package main

import (
	"context"
	"fmt"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/talos"
	"github.com/talos-provision/provision/provisioner/upgrade"
)

// upgradeTalos calls each node with its own talosconfig, and has whatever changes
// a node confirm over the same connection which machine it is (I5).
type upgradeTalos struct{ u *upgrader }

var _ upgrade.Talos = upgradeTalos{}

// at is the way to the node at an address.
func (t upgradeTalos) at(host string) (talos.Admin, error) {
	n, known := t.u.nodeAt(func(n inventory.Node) bool { return n.IP == host })
	if !known {
		return talos.Admin{}, fmt.Errorf("no node of %s has the address %s in the inventory", t.u.flags.cluster, host)
	}
	access, err := t.u.accesses.of(n)
	if err != nil {
		return talos.Admin{}, err
	}
	return talos.Admin{
		Access: access, Timeout: t.u.config.Upgrade.CallTimeout,
		Confirm: func(facts identity.Facts) error { return t.u.confirmMachine(n, facts) },
	}, nil
}

// Inspect tells all that a node says of itself.
func (t upgradeTalos) Inspect(ctx context.Context, host string) talos.Running {
	admin, err := t.at(host)
	if err != nil {
		return talos.Running{Host: host, Err: err}
	}
	seen := admin.Inspect(ctx, host)
	if seen.Reached {
		t.u.mu.Lock()
		t.u.seen[host] = seen.Facts
		t.u.mu.Unlock()
	}
	return seen
}

// Details tells how a node was installed.
func (t upgradeTalos) Details(ctx context.Context, host string) (talos.Details, error) {
	admin, err := t.at(host)
	if err != nil {
		return talos.Details{}, err
	}
	return admin.Details(ctx, host)
}

// EtcdMembers lists the members of etcd.
func (t upgradeTalos) EtcdMembers(ctx context.Context, host string) ([]talos.Member, error) {
	admin, err := t.at(host)
	if err != nil {
		return nil, err
	}
	return admin.EtcdMembers(ctx, host)
}

// EtcdStatus is the node's own view of etcd.
func (t upgradeTalos) EtcdStatus(ctx context.Context, host string) (talos.MemberStatus, error) {
	admin, err := t.at(host)
	if err != nil {
		return talos.MemberStatus{}, err
	}
	return admin.EtcdStatus(ctx, host)
}

// EtcdAlarms lists the alarms of etcd.
func (t upgradeTalos) EtcdAlarms(ctx context.Context, host string) ([]talos.Alarm, error) {
	admin, err := t.at(host)
	if err != nil {
		return nil, err
	}
	return admin.EtcdAlarms(ctx, host)
}

// ForfeitLeadership moves the leadership of etcd away from the node.
func (t upgradeTalos) ForfeitLeadership(ctx context.Context, host string) (string, error) {
	admin, err := t.at(host)
	if err != nil {
		return "", err
	}
	return admin.ForfeitLeadership(ctx, host)
}

// Health has the node check its cluster.
func (t upgradeTalos) Health(ctx context.Context, host string, request talos.HealthRequest, progress func(string)) error {
	admin, err := t.at(host)
	if err != nil {
		return err
	}
	return admin.Health(ctx, host, request, progress)
}

// Pull has the node pull an installer.
func (t upgradeTalos) Pull(ctx context.Context, host, image string, progress func(string)) error {
	admin, err := t.at(host)
	if err != nil {
		return err
	}
	return admin.Pull(ctx, host, image, progress)
}

// Upgrade has the node write its new boot assets.
func (t upgradeTalos) Upgrade(ctx context.Context, host string, request talos.UpgradeRequest) (talos.UpgradeResult, error) {
	admin, err := t.at(host)
	if err != nil {
		return talos.UpgradeResult{}, err
	}
	return admin.Upgrade(ctx, host, request)
}

// Reboot has the node reboot.
func (t upgradeTalos) Reboot(ctx context.Context, host string, mode talos.RebootMode) error {
	admin, err := t.at(host)
	if err != nil {
		return err
	}
	return admin.Reboot(ctx, host, mode)
}
