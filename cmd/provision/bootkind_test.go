package main

import (
	"testing"

	"github.com/talos-provision/provision/e2e/fleet"
)

// Where the BMC is told a URI, UEFI HTTP boot needs no boot file by DHCP.
func TestNodesThatBootByUEFIHTTPAreInstalled(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2, Adjust: func(m *fleet.Machine) { m.BootKind = "uefi-http" }})
	r, last := install(t, f)
	for _, m := range f.Machines() {
		boots := m.Boots()
		if e := last[m.Name]; r.status != exitDone || e.State != "Maintenance" || len(boots) != 1 || boots[0].Target != "UefiHttp" {
			t.Errorf("status %d, %s ended %s after %+v: %s %s\n%s", r.status, m.Name, e.State, boots, e.Message, e.Error, r.err)
		}
	}
}

// A medium is booted once and ejected, and nothing is served by DHCP.
func TestNodesThatBootFromVirtualMediaAreInstalledAndTheMediumIsEjected(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2, Adjust: func(m *fleet.Machine) { m.BootKind = "virtual-media" }})
	r, last := install(t, f)
	for _, m := range f.Machines() {
		boots := m.Boots()
		if e := last[m.Name]; r.status != exitDone || e.State != "Maintenance" || len(boots) != 1 || boots[0].Version != "v1.13.9" {
			t.Errorf("status %d, %s ended %s after %+v: %s %s\n%s", r.status, m.Name, e.State, boots, e.Message, e.Error, r.err)
		}
		if medium := m.BMC().Media(); medium != "" {
			t.Errorf("%s still has the medium %s", m.Name, medium)
		}
	}
	noSessions(t, f)
}
