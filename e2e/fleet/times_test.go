package fleet

import (
	"net/netip"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/firmware"
)

func TestAMachineNotesWhenItCameHowFarInItsLatestBoot(t *testing.T) {
	t.Parallel()
	var l ledger
	reached := func() Times {
		var truth Truth
		l.put(&truth)
		return truth.Reached
	}
	l.switched(true)
	for _, s := range []firmware.Served{{Lease: netip.MustParseAddr("127.0.0.9")}, {Lease: netip.MustParseAddr("127.0.0.9")}, {InstallScript: true}, {Kernel: true}} {
		l.served(s)
	}
	got := reached()
	order := []time.Time{got.PoweredOn, got.Lease, got.LastLease, got.Script, got.Kernel}
	for i, at := range order[1:] {
		if before := order[i]; before.IsZero() || at.Before(before) {
			t.Errorf("moment %d is %s, and the one before it %s", i+1, at, before)
		}
	}
	l.switched(false)
	l.switched(true)
	if again := reached(); again.PoweredOn.Before(got.Kernel) || again != (Times{PoweredOn: again.PoweredOn}) {
		t.Errorf("after it was switched on again: %+v", again)
	}
}
