// Package loopback gives each test networks of its own on this host: emulated fleets
// serve on the same ports, and tests of several packages run at the same time.
package loopback

import (
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"testing"
)

// Reserve gives a test a /16 of loopback that no other fleet has, in this process or
// another, with a second octet from first to last: whoever listens on its last address
// has it, and lets go of it with the test. Tests begin to look at different places,
// so that one does not get what another has just left.
func Reserve(t testing.TB, first, last int) netip.Prefix {
	t.Helper()
	count := last - first + 1
	name := fnv.New32a()
	_, _ = name.Write([]byte(t.Name())) // a hash takes everything
	begin := int(name.Sum32() % uint32(count))
	for i := range count {
		n := first + (begin+i)%count
		var lc net.ListenConfig
		owner, err := lc.Listen(t.Context(), "tcp", fmt.Sprintf("127.%d.255.254:6700", n))
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = owner.Close() })
		return netip.MustParsePrefix(fmt.Sprintf("127.%d.0.0/16", n))
	}
	t.Fatalf("%d fleets are running on this host", count)
	return netip.Prefix{}
}
