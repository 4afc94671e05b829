package loopback_test

import (
	"net/netip"
	"testing"

	"github.com/talos-provision/provision/e2e/loopback"
)

func TestNoNetworkIsGivenTwiceAtATime(t *testing.T) {
	t.Parallel()
	const first, last = 250, 253
	seen := map[netip.Prefix]bool{}
	for range last - first + 1 {
		p := loopback.Reserve(t, first, last)
		if n := int(p.Addr().As4()[1]); seen[p] || n < first || n > last || p.Bits() != 16 {
			t.Errorf("%s is given; those before were %v", p, seen)
		}
		seen[p] = true
	}
}

func TestANetworkIsFreeWhenItsTestHasEnded(t *testing.T) {
	t.Parallel()
	for range 2 {
		t.Run("one", func(t *testing.T) { loopback.Reserve(t, 254, 254) })
	}
}
