package bmc

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

const bootURI = "http://10.0.0.1:8080/boot.efi?a=1&b=2"

func TestBootKindsOfAnInventory(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]BootKind{"": BootPXE, "pxe": BootPXE, "UEFI-HTTP": BootHTTP, "virtual-media": BootMedia} {
		if got, err := ParseBootKind(in); err != nil || got != want {
			t.Errorf("%q is %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"cd", "disk", "http"} {
		if _, err := ParseBootKind(in); err == nil || !strings.Contains(err.Error(), "write bmc.boot as pxe, uefi-http or virtual-media") {
			t.Errorf("%q: error is %v", in, err)
		}
	}
	if _, err := Dial(t.Context(), Config{Address: "127.0.0.1", Username: testUser, Password: testPassword, Boot: "cd"}); err == nil || !strings.Contains(err.Error(), "bmc.boot") {
		t.Errorf("error is %v", err)
	}
}

// What cannot work is said before anything is sent.
func TestBootRequestsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		request BootRequest
		mode    string
		says    string
	}{
		"a medium without URI":   {BootRequest{Kind: BootMedia}, "", "no URI"},
		"a medium that is local": {BootRequest{Kind: BootMedia, MediaURI: "/tmp/talos.iso"}, "", "at an address that the BMC can reach"},
		"a medium with password": {BootRequest{Kind: BootMedia, MediaURI: "http://u:p@h/x.iso"}, "", "no URI"},
		"a strange boot URI":     {BootRequest{Kind: BootHTTP, HTTPBootURI: "tftp://h/x"}, "", "http://host/path"},
		"HTTP boot in a BIOS":    {BootRequest{Kind: BootHTTP}, "legacy", "set bmc.bootMode to uefi"},
		"an unknown kind":        {BootRequest{Kind: "floppy"}, "", "use pxe, uefi-http"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, one(supermicro1, nil))
			cfg := s.config(t)
			cfg.BootMode = tt.mode
			err := s.run(t, cfg, func(ctx context.Context, c *Client) error {
				_, err := c.Arm(ctx, tt.request)
				return err
			})
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error is %v", err)
			}
			wantTraffic(t, s, around()...)
		})
	}
}

// Every vendor profile is armed in every way that it has, and cleared.
func TestEveryVendorIsArmedInEveryWayItHas(t *testing.T) {
	t.Parallel()
	for _, p := range redfishtest.Profiles() {
		for _, r := range []BootRequest{
			{Kind: BootPXE}, {Kind: BootHTTP, HTTPBootURI: bootURI}, {Kind: BootHTTP}, {Kind: BootMedia, MediaURI: isoURI}, {Kind: BootDisk},
		} {
			t.Run(p.Name+" "+string(r.Kind)+" "+r.HTTPBootURI, func(t *testing.T) {
				t.Parallel()
				s := service(t, hardware(p))
				c := dial(t, configFor(t, s))
				now, err := c.Arm(t.Context(), r)
				switch {
				case r.Kind == BootMedia && errors.Is(err, ErrNoMedia) && p.Media.None,
					r.Kind == BootHTTP && errors.Is(err, ErrOverrideRefused) && !hasTarget(p, "UefiHttp"):
					return // and nothing is left: below only for those that took it
				case err != nil:
					t.Fatal(err)
				}
				if !now.InForce() || r.HTTPBootURI != "" && now.HTTPBootURI != "" && now.HTTPBootURI != bootURI {
					t.Errorf("override is %+v", now)
				}
				if r.Kind == BootMedia && s.Media() != isoURI {
					t.Errorf("medium is %q", s.Media())
				}
				if got := s.Override().Target; !strings.EqualFold(got, now.Target) && now.Target != "UefiBootNext" {
					t.Errorf("the service has %q, the client says %q", got, now.Target)
				}
				if err := c.Disarm(t.Context()); err != nil {
					t.Fatal(err)
				}
				if now, err := c.BootOverride(t.Context()); err != nil || !now.cleared() && now.Target != "Hdd" {
					t.Errorf("after Disarm: %v, %v", now, err)
				}
				if s.Media() != "" || len(s.Resets()) != 0 {
					t.Errorf("after Disarm the medium is %q, resets are %v", s.Media(), s.Resets())
				}
			})
		}
	}
}

func hasTarget(p redfishtest.Profile, target string) bool {
	for _, list := range [][]string{p.Boot.Targets, p.Boot.Unlisted} {
		for _, t := range list {
			if strings.EqualFold(t, target) {
				return true
			}
		}
	}
	return false
}

// HTTP boot as BMCs take it: with the URI or without, listed or not.
func TestHTTPBootInTheBMCsOwnWords(t *testing.T) {
	t.Parallel()
	const (
		full   = `{"Boot":{"BootSourceOverrideTarget":"UefiHttp","BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"UEFI","HttpBootUri":"` + bootURI + `"}}`
		noURI  = `{"Boot":{"BootSourceOverrideTarget":"UefiHttp","BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"UEFI"}}`
		listed = `"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget":"None","BootSourceOverrideTarget@Redfish.AllowableValues":`
	)
	for _, tt := range []struct {
		name, boot string
		refuses    func(body string) bool
		shown      string // instead of what is sent
		want       []string
		uri        string
		err        error
	}{
		{"with the URI", listed + `["None","Pxe","UefiHttp"]`, nil, "", []string{full}, bootURI, nil},
		{"taken though not listed", listed + `["None","Pxe"]`, nil, "", []string{full}, bootURI, nil},
		{"in the BMC's spelling", listed + `["None","Pxe","UefiHTTP"]`, nil, "", []string{strings.Replace(full, "UefiHttp", "UefiHTTP", 1)}, bootURI, nil},
		{"no property for the URI", listed + `["None","UefiHttp"]`, func(body string) bool { return strings.Contains(body, "HttpBootUri") }, "",
			[]string{full, strings.Replace(full, `"BootSourceOverrideMode":"UEFI",`, "", 1), noURI}, "", nil},
		{"another URI is kept", listed + `["None","UefiHttp"]`, nil,
			`"BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget":"UefiHttp","HttpBootUri":"http://old/x"`,
			[]string{full}, "http://old/x", ErrOverrideNotKept},
		{"PXE is kept instead", listed + `["None","UefiHttp"]`, nil,
			`"BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget":"Pxe"`, []string{full}, "", ErrOverrideNotKept},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, one(machineShowing("Acme", tt.boot, ""), nil))
			s.on[patchOne] = func(body string, h http.Header) *reply {
				switch {
				case tt.refuses != nil && tt.refuses(body):
					return refuses(400, "Base.1.4.PropertyUnknown", "HttpBootUri")
				case tt.shown != "":
					return s.keeps(machineShowing("Acme", tt.shown, ""))(body, h)
				}
				return s.showsWhatIsSent("/redfish/v1/Systems/1", "Acme", "")(body, h)
			}
			var now BootOverride
			err := s.run(t, s.config(t), func(ctx context.Context, c *Client) (err error) {
				now, err = c.Arm(ctx, BootRequest{Kind: BootHTTP, HTTPBootURI: bootURI})
				return err
			})
			if !errors.Is(err, tt.err) || now.HTTPBootURI != tt.uri {
				t.Errorf("override is %+v, error %v", now, err)
			}
			wantWrites(t, s, tt.want...)
		})
	}
}

// Arm without a kind does what the node's configuration says.
func TestArmFollowsTheConfiguration(t *testing.T) {
	t.Parallel()
	s := service(t, hardware(redfishtest.Generic()))
	cfg := configFor(t, s)
	cfg.Boot = BootMedia
	c := dial(t, cfg)
	if _, err := c.Arm(t.Context(), BootRequest{MediaURI: isoURI}); err != nil {
		t.Fatal(err)
	}
	if s.Media() != isoURI || s.Override().Target != "Cd" {
		t.Errorf("medium %q, override %v", s.Media(), s.Override())
	}
	// Another process cleans up after this one.
	if err := dial(t, cfg).Disarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.Media() != "" || s.Override().Enabled != "Disabled" {
		t.Errorf("after Disarm: medium %q, override %v", s.Media(), s.Override())
	}
}

func TestMarshalledIdentity(t *testing.T) {
	t.Parallel()
	id := identify(t, one(supermicro1, map[string]string{"/redfish/v1/Chassis/1": supermicroChassis1}))
	got, err := marshal(id)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"vendor":"Supermicro","model":"","system":"1","serial":"S100000X0000001","boardSerial":"ZM000S000001","chassisSerial":"C100000AA000001",` +
		`"uuid":"00000000-0000-0000-0000-0CC47A000001","macs":[],"powerState":"On","boot":{"target":"Pxe","enabled":"Disabled","mode":"UEFI"},` +
		`"sources":{"boardSerial":"/redfish/v1/Chassis/1#/Oem/Supermicro/BoardSerialNumber","boot":"/redfish/v1/Systems/1#/Boot","chassisSerial":"/redfish/v1/Chassis/1#/SerialNumber",` +
		`"powerState":"/redfish/v1/Systems/1#/PowerState","serial":"/redfish/v1/Systems/1#/SerialNumber","uuid":"/redfish/v1/Systems/1#/UUID","vendor":"/redfish/v1/Systems/1#/Manufacturer"}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
	var back Identity
	if err := back.UnmarshalJSON(got); err != nil {
		t.Fatal(err)
	}
	back.Facts.MACs = nil
	if diff := cmp.Diff(id, back); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}
