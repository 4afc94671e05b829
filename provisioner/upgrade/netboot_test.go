package upgrade_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/talos-provision/provision/provisioner/upgrade"
)

// netBoots is upgrade.NetBoot over a world.
type netBoots struct{ *world }

func (n netBoots) May(string, upgrade.Version) error { return nil }

func (n netBoots) Boot(ctx context.Context, node string, target upgrade.Version) error {
	return n.do(ctx, "NetBoot", node, func() error {
		b := n.boxes[node]
		n.takenDown(b)
		b.netBoots++
		b.boot++
		b.upAt, b.away = time.Now().Add(4*time.Minute), false
		if b.disk == "" {
			b.disk = b.version
		}
		b.version = target.String()
		return nil
	})
}

// noNetBoot refuses one node.
type noNetBoot struct {
	node string
	err  error
}

func (n noNetBoot) May(node string, _ upgrade.Version) error {
	if node == n.node {
		return n.err
	}
	return nil
}

func (n noNetBoot) Boot(context.Context, string, upgrade.Version) error {
	return errors.New("not here")
}

// The new version is booted from the network, writes its boot assets itself, by
// its own way, and is then booted from the disk.
func TestNodesAreUpgradedByABootFromTheNetwork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 2, "v1.12.9")
		o := w.options("v1.13.9")
		o.NetBoot = netBoots{w}
		if _, err := w.upgrade(o); err != nil {
			t.Fatal(err)
		}
		w.upgradedTo("v1.13.9")
		for name, b := range w.boxes {
			if b.netBoots != 1 || b.installs != 1 || b.orders != 1 || b.disk != "" {
				t.Errorf("%s: %d boots from the network, %d installations, %d reboots, disk %q; want one each, and its disk at last", name, b.netBoots, b.installs, b.orders, b.disk)
			}
			if r := w.records[name]; r.API != upgrade.Lifecycle || !r.NetBooted {
				t.Errorf("%s: %+v; want the way of the version that was booted", name, r)
			}
		}
		w.sound()
	})
}

func TestAFailedBootFromTheNetworkIsNamedAndCarriedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 1, "v1.12.9")
		o := w.options("v1.13.9")
		o.NetBoot = netBoots{w}
		w.broken["NetBoot"] = errors.New("no DHCP seen")
		_, err := w.upgrade(o)
		r := w.records["w-1"]
		if !errors.Is(err, upgrade.ErrFailed) || r.Verdict != upgrade.VerdictNetBoot || !strings.Contains(r.Error, "no DHCP seen") {
			t.Fatalf("%v %+v", err, r)
		}
		if b := w.boxes["w-1"]; b.installs != 0 || b.version != "v1.12.9" {
			t.Errorf("%d installations, version %s: want it as it was", b.installs, b.version)
		}
		delete(w.broken, "NetBoot")
		o.Continue, o.RunID = true, "run-2"
		if _, err := w.upgrade(o); err != nil {
			t.Fatal(err)
		}
		w.upgradedTo("v1.13.9")
		w.sound()
	})
}

// Wherever the controller dies, --continue ends it, with one boot from the network a node.
func TestABootFromTheNetworkIsResumed(t *testing.T) {
	t.Parallel()
	for killAt := 1; ; killAt++ {
		ended := false
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1, 1, "v1.12.9")
			o := w.options("v1.13.9")
			o.NetBoot, o.SingleNode = netBoots{w}, true
			w.killAt, w.killBefore = killAt, killAt%2 == 0
			_, err := w.upgrade(o)
			ended = err == nil
			for tries := 0; err != nil; tries++ {
				if tries == 3 {
					t.Fatalf("killed at call %d: %v", killAt, err)
				}
				o.Continue, o.RunID = w.run.ID != "" && w.run.Finished.IsZero(), fmt.Sprint("run-", tries+2)
				_, err = w.upgrade(o)
			}
			w.upgradedTo("v1.13.9")
			for name, b := range w.boxes {
				if b.netBoots != 1 || b.orders != 1 {
					t.Errorf("killed at call %d: %s was booted from the network %d times and rebooted %d times", killAt, name, b.netBoots, b.orders)
				}
			}
			w.sound()
		})
		if ended || t.Failed() {
			return
		}
	}
}
