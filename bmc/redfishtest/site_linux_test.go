package redfishtest_test

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

// loopback listens at every address of the loopback interface, and at no other.
func loopback(t *testing.T) net.Listener {
	t.Helper()
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var bound error
		err := raw.Control(func(fd uintptr) {
			bound = syscall.SetsockoptString(int(fd), syscall.SOL_SOCKET, syscall.SO_BINDTODEVICE, "lo")
		})
		if err != nil {
			return err
		}
		return bound
	}}
	listener, err := config.Listen(t.Context(), "tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

func TestASiteAnswersForTheServiceAtEachAddress(t *testing.T) {
	t.Parallel()
	site := redfishtest.NewSite(loopback(t), nil)
	t.Cleanup(site.Close)
	services := map[string]*redfishtest.Service{}
	for _, at := range []string{"127.0.0.1", "127.0.0.2"} {
		s := redfishtest.New(redfishtest.Config{Serial: "OF-" + at})
		t.Cleanup(s.Close)
		if err := site.Attach(netip.MustParseAddr(at), s); err != nil {
			t.Fatal(err)
		}
		services[at] = s
	}
	for at, s := range services {
		c := newClient(t, s) // trusts this service's certificate alone
		if r := c.do("GET", systemPath, ""); r.status != http.StatusOK || r.doc["SerialNumber"] != "OF-"+at {
			t.Errorf("%s answers %d, serial %v, error %v", at, r.status, r.doc["SerialNumber"], r.err)
		}
		if !strings.HasPrefix(s.URL(), "https://"+at+":") {
			t.Errorf("URL of %s = %s", at, s.URL())
		}
	}
	first, second := services["127.0.0.1"], services["127.0.0.2"]
	if err := site.Attach(netip.MustParseAddr("127.0.0.1"), redfishtest.New(redfishtest.Config{})); err == nil {
		t.Error("two services are at one address")
	}
	if err := site.Attach(netip.MustParseAddr("127.0.0.3"), first); err == nil {
		t.Error("one service is at two addresses")
	}
	first.Close()
	if r := newClient(t, first).do("GET", systemPath, ""); r.err == nil {
		t.Errorf("a closed service answers %d", r.status)
	}
	if r := newClient(t, second).do("GET", systemPath, ""); r.status != http.StatusOK {
		t.Errorf("the other one answers %d, error %v", r.status, r.err)
	}
}
