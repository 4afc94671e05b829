package dhcp

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestBadOptionsAreExplained(t *testing.T) {
	t.Parallel()
	ip := netip.MustParseAddr
	cases := map[string]struct {
		change func(*Options)
		want   string
	}{
		"no subnet":                {func(o *Options) { o.Subnets = nil }, "no DHCP subnet"},
		"IPv6 subnet":              {func(o *Options) { o.Subnets[0].CIDR = netip.MustParsePrefix("fd00::/64") }, "not an IPv4 network"},
		"overlap":                  {func(o *Options) { o.Subnets[1] = Subnet{CIDR: netip.MustParsePrefix("10.0.0.0/16")} }, "overlap"},
		"range outside":            {func(o *Options) { o.Subnets[0].Last = ip("10.0.1.5") }, "not inside"},
		"range backwards":          {func(o *Options) { o.Subnets[0].First = ip("10.0.0.200") }, "rising order"},
		"half a range":             {func(o *Options) { o.Subnets[0].Last = netip.Addr{} }, "one end only"},
		"gateway outside":          {func(o *Options) { o.Subnets[0].Gateway = ip("10.9.0.1") }, "gateway"},
		"IPv6 DNS":                 {func(o *Options) { o.Subnets[0].DNS = []netip.Addr{ip("::1")} }, "DNS"},
		"lease of a second":        {func(o *Options) { o.Subnets[0].Lease = time.Second }, "lease time"},
		"reservation outside":      {func(o *Options) { o.Reservations = map[string]netip.Addr{testMAC: ip("10.9.9.9")} }, "none of the subnets"},
		"reservation of us":        {func(o *Options) { o.Reservations = map[string]netip.Addr{testMAC: ip("10.0.0.1")} }, "this server's"},
		"reservation of broadcast": {func(o *Options) { o.Reservations = map[string]netip.Addr{testMAC: ip("10.0.0.255")} }, "broadcast"},
		"one address for two": {func(o *Options) {
			o.Reservations = map[string]netip.Addr{testMAC: ip("10.0.0.9"), "52:54:00:00:00:01": ip("10.0.0.9")}
		}, "both"},
		"two addresses for one": {func(o *Options) {
			o.Reservations = map[string]netip.Addr{testMAC: ip("10.0.0.9"), strings.ReplaceAll(testMAC, ":", "-"): ip("10.0.0.8")}
		}, "keep one"},
		"reservation of no MAC": {func(o *Options) { o.Reservations = map[string]netip.Addr{"node-1": ip("10.0.0.9")} }, "not a MAC"},
		"boot URL of no scheme": {func(o *Options) { o.BootURL = "10.0.0.1:8080" }, "http://"},
		"boot URL with a query": {func(o *Options) { o.BootURL = "http://10.0.0.1/?x=1" }, "http://"},
		"listen":                {func(o *Options) { o.Listen = "localhost" }, "ADDRESS:PORT"},
		"relay port":            {func(o *Options) { o.RelayPort = 70000 }, "relay port"},
		"IPv6 server":           {func(o *Options) { o.ServerAddress = ip("::1") }, "IPv4"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := testOptions()
			c.change(&o)
			_, err := New(o)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "set up DHCP: ") {
				t.Errorf("error %v, want one about %q", err, c.want)
			}
		})
	}
}
