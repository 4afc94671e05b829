package provisioner

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/pxe/httpboot"
)

func TestABootOfANodeIsNotedWithWhatItsFirmwareSaid(t *testing.T) {
	t.Parallel()
	c := atWork(t, Booting, "")
	state, err := store.Open(filepath.Join(stateDir(t), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = state.Close() })
	c.opts.Store = state
	r := ask(board1)
	r.Manufacturer, r.NICs = "Supermicro", board1.MACs
	install := httpboot.Answer{Kind: httpboot.Install, Node: "a/node-1", Reason: "it is armed", Script: "#!ipxe\nkernel\n"}
	c.ObserveScript(r, install)
	// What only asks again, and what is nobody's, is no boot of the node.
	c.ObserveScript(r, httpboot.Answer{Kind: httpboot.Wait, Node: "a/node-1", Script: "#!ipxe\nsleep\n"})
	c.ObserveScript(r, httpboot.Answer{Kind: httpboot.LocalBoot, Reason: "nobody's"})
	got, found, err := state.Boot("a", "node-1")
	if err != nil || !found {
		t.Fatalf("found %v, error %v", found, err)
	}
	if got.Time.IsZero() {
		t.Error("the boot has no time")
	}
	got.Time = time.Time{}
	want := store.Boot{
		Cluster: "a", Node: "node-1", Source: "10.0.0.77", Facts: board1, Arch: "amd64", Platform: "efi", Manufacturer: "Supermicro",
		NICs: board1.MACs, Kind: "install", Reason: "it is armed", Script: "#!ipxe\nkernel\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if unknown, err := state.UnknownMachines(); err != nil || len(unknown) != 1 || unknown[0].Reason != "nobody's" {
		t.Errorf("unknown machines %+v, error %v", unknown, err)
	}
}

func TestABootCircleDoesNotWearTheStoreOut(t *testing.T) {
	t.Parallel()
	c := atWork(t, Booting, "")
	state, err := store.Open(filepath.Join(stateDir(t), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = state.Close() })
	c.opts.Store = state
	local := httpboot.Answer{Kind: httpboot.LocalBoot, Node: "a/node-3", Script: "#!ipxe\nexit\n"}
	other := local
	other.Script += "# another\n"
	begin := time.Unix(1_700_000_000, 0).UTC()
	for _, boot := range []struct {
		after  time.Duration
		answer httpboot.Answer
		noted  time.Duration
	}{
		{0, local, 0},
		{bootInterval - time.Second, local, 0},
		{bootInterval, local, bootInterval},
		{bootInterval + time.Second, local, bootInterval},
		{bootInterval + 2*time.Second, other, bootInterval + 2*time.Second}, // another script is always news
	} {
		c.noteBoot(ask(board3), boot.answer, begin.Add(boot.after))
		got, _, err := state.Boot("a", "node-3")
		if err != nil || !got.Time.Equal(begin.Add(boot.noted)) {
			t.Errorf("after %s: noted at %s, error %v; want %s", boot.after, got.Time.Sub(begin), err, boot.noted)
		}
		if got.Script != boot.answer.Script && strings.Contains(got.Script, "another") {
			t.Errorf("after %s: the script is %q", boot.after, got.Script)
		}
	}
}
