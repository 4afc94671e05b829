package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/fleet"
)

func TestBMCBoot(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1})
	b := f.Machines()[0].BMC()
	for _, tt := range []struct {
		args []string
		want redfishtest.Override
		disk string
	}{
		{[]string{"pxe"}, redfishtest.Override{Target: "Pxe", Enabled: "Once", Mode: "UEFI"}, ""},
		{[]string{"http", "http://192.0.2.1/ipxe.efi"}, redfishtest.Override{Target: "UefiHttp", Enabled: "Once", Mode: "UEFI", HTTPBootURI: "http://192.0.2.1/ipxe.efi"}, ""},
		{[]string{"disk"}, redfishtest.Override{Target: "Hdd", Enabled: "Once", Mode: "UEFI"}, ""},
		{[]string{"clear"}, redfishtest.Override{Target: "Pxe", Enabled: "Disabled", Mode: "UEFI"}, ""},
	} {
		r := provision(t, onFleet(f, "node-01", append([]string{"boot"}, tt.args...)...)...)
		if r.status != exitDone || !strings.Contains(r.out, "done") {
			t.Errorf("%v: status %d: %s%s", tt.args, r.status, r.out, r.err)
		}
		got := b.Override()
		if tt.args[0] == "disk" {
			got.HTTPBootURI = "" // of no meaning for this target
		}
		if got != tt.want {
			t.Errorf("%v: override %+v, want %+v", tt.args, got, tt.want)
		}
	}
	const iso = "http://192.0.2.1/metal-amd64.iso"
	r := provision(t, onFleet(f, "node-01", "boot", "media", iso, "-o", "json")...)
	var one bmcResult
	if err := json.Unmarshal([]byte(r.out), &one); err != nil || one.Result != "done" || one.Boot == nil || one.Boot.Enabled != "Once" {
		t.Errorf("boot media: %v in %s", err, r.out)
	}
	if b.Media() != iso || !strings.Contains(b.Override().Target, "Cd") {
		t.Errorf("media %q, override %+v", b.Media(), b.Override())
	}
	untouched(t, f.Machines()...)
	noSessions(t, f)
}

func TestBMCMedia(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2})
	const iso = "http://192.0.2.1/metal-amd64.iso"
	for _, step := range []struct {
		args  []string
		media string
		shows string
	}{
		{[]string{"list"}, "", "empty"},
		{[]string{"insert", iso}, iso, iso},
		{[]string{"list"}, iso, iso},
		{[]string{"eject"}, "", "empty"},
	} {
		r := provision(t, onFleet(f, "", append([]string{"media"}, step.args...)...)...)
		if r.status != exitDone || strings.Count(r.out, step.shows) != 2 {
			t.Errorf("%v: status %d\n%s%s", step.args, r.status, r.out, r.err)
		}
		for _, m := range f.Machines() {
			if m.BMC().Media() != step.media {
				t.Errorf("%v: %s has %q", step.args, m.Name, m.BMC().Media())
			}
		}
	}
	untouched(t, f.Machines()...)
	noSessions(t, f)
}
