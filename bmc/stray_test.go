package bmc

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// A system's document that leads to another system of the same BMC is broken:
// nothing that it leads to is written, or another machine would be armed, given
// a medium or reset (I1).
func TestLinksToAnotherSystemAreNotFollowed(t *testing.T) {
	t.Parallel()
	const stray = `{"Id":"1","PowerState":"On","Boot":{"BootSourceOverrideTarget":"None","BootSourceOverrideEnabled":"Disabled","BootSourceOverrideMode":"UEFI"},
		"Actions":{"#ComputerSystem.Reset":{"target":"/redfish/v1/Systems/2/Actions/ComputerSystem.Reset"}},
		"VirtualMedia":{"@odata.id":"/redfish/v1/Systems/2/VirtualMedia"},
		"@Redfish.Settings":{"SettingsObject":{"@odata.id":"/redfish/v1/Systems/2"}}}`
	s := newScript(t, one(stray, map[string]string{
		"/redfish/v1/Systems/2":              machineShowing("Acme", restingUEFI, ""),
		"/redfish/v1/Systems/2/VirtualMedia": `{"Members":[{"@odata.id":"/redfish/v1/Systems/2/VirtualMedia/CD"}]}`,
		"/redfish/v1/Systems/2/VirtualMedia/CD": strings.ReplaceAll(
			drive("", false, true, ""), cdPath, "/redfish/v1/Systems/2/VirtualMedia/CD"),
	}))
	s.on[patchOne] = func(string, http.Header) *reply { return refuses(400, "Base.1.4.PropertyNotWritable", "Boot") }
	s.on[resetOne] = s.becomes("Off")
	err := s.run(t, s.config(t), func(ctx context.Context, c *Client) error {
		if _, err := c.ArmNetworkBoot(ctx); !errors.Is(err, ErrOverrideRefused) {
			t.Errorf("arm: %v", err)
		}
		if err := c.InsertMedia(ctx, isoURI); !errors.Is(err, ErrNoMedia) {
			t.Errorf("insert: %v", err)
		}
		return c.PowerOff(ctx)
	})
	if err != nil {
		t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.seen {
		if strings.Contains(r, "/Systems/2") {
			t.Errorf("request to the other system: %s", r)
		}
	}
}

// Of several managers that nothing links to the system, none is its own.
func TestMediaOfAnotherManagerAreLeftAlone(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		managers, links string
		kind            error
	}{
		"the only one, which says nothing": {`{"@odata.id":"/redfish/v1/Managers/1"}`, "", nil},
		"the only one, of another system":  {`{"@odata.id":"/redfish/v1/Managers/1"}`, `,"Links":{"ManagerForServers":["/redfish/v1/Systems/2"]}`, ErrNoMedia},
		"one of two, which say nothing":    {`{"@odata.id":"/redfish/v1/Managers/1"},{"@odata.id":"/redfish/v1/Managers/2"}`, "", ErrNoMedia},
		"one of two, of this system":       {`{"@odata.id":"/redfish/v1/Managers/1"},{"@odata.id":"/redfish/v1/Managers/2"}`, `,"Links":{"ManagerForServers":["/redfish/v1/Systems/1"]}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mediaScript(t, "Acme", drive("", false, true, ""))
			s.docs["/redfish/v1"] = strings.Replace(plainRoot, `"SessionService"`, `"Managers":{"@odata.id":"/redfish/v1/Managers"},"SessionService"`, 1)
			s.docs["/redfish/v1/Systems/1"] = machineShowing("Acme", restingUEFI, "")
			s.docs["/redfish/v1/Managers"] = `{"Members":[` + tt.managers + `]}`
			s.docs["/redfish/v1/Managers/1"] = `{"VirtualMedia":{"@odata.id":"/redfish/v1/Managers/1/VirtualMedia"}` + tt.links + `}`
			s.on[insertCD] = s.puts(drive(isoURI, true, true, ""))
			if err := s.run(t, s.config(t), insertISO); !errors.Is(err, tt.kind) {
				t.Errorf("error is %v", err)
			}
		})
	}
}
