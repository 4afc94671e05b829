package redfishtest_test

import (
	"net/http"
	"testing"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

const (
	full    = `{"Boot":{"BootSourceOverrideTarget":"Pxe","BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"UEFI"}}`
	noMode  = `{"Boot":{"BootSourceOverrideTarget":"Pxe","BootSourceOverrideEnabled":"Once"}}`
	noOnce  = `{"Boot":{"BootSourceOverrideTarget":"Pxe","BootSourceOverrideMode":"UEFI"}}`
	modal   = `{"Boot":{"BootSourceOverrideMode":"Legacy"}}`
	disable = `{"Boot":{"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideTarget":"None"}}`
	keepPxe = `{"Boot":{"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideTarget":"Pxe"}}`
)

var (
	armed      = redfishtest.Override{Target: "Pxe", Enabled: "Once", Mode: "UEFI"}
	atRest     = redfishtest.Override{Target: "None", Enabled: "Disabled", Mode: "UEFI"}
	restingPxe = redfishtest.Override{Target: "Pxe", Enabled: "Disabled", Mode: "UEFI"}
)

// with: "" no If-Match, "fresh" the current tag, anything else as it is.
func TestBootOverrideWrites(t *testing.T) {
	t.Parallel()
	bare, never, readBack := redfishtest.Generic(), redfishtest.Generic(), redfishtest.Supermicro()
	bare.ETag.Accept, never.ETag.Accept = redfishtest.IfMatchBare, redfishtest.IfMatchNever
	readBack.Boot.PxeReadBack = "UefiBootNext"
	tests := []struct {
		name    string
		profile redfishtest.Profile
		under   string // settings resource, "" for the System
		ifMatch string
		body    string
		status  int
		message string
		want    redfishtest.Override
	}{
		{"generic", redfishtest.Generic(), "", "fresh", full, 204, "", armed},
		{"generic without If-Match", redfishtest.Generic(), "", "", full, 204, "", armed},
		{"generic any", redfishtest.Generic(), "", "*", full, 204, "", armed},
		{"generic stale", redfishtest.Generic(), "", `"old"`, full, 412, "Base.1.13.PreconditionFailed", atRest},
		{"generic keeps the mode", redfishtest.Generic(), "", "", noMode, 204, "", armed},
		{"generic disable", redfishtest.Generic(), "", "", disable, 204, "", atRest},
		{"generic wrong value", redfishtest.Generic(), "", "", `{"Boot":{"BootSourceOverrideTarget":"Floppy"}}`, 400, "Base.1.13.PropertyValueNotInList", atRest},
		{"generic wrong type", redfishtest.Generic(), "", "", `{"Boot":{"BootSourceOverrideTarget":1}}`, 400, "Base.1.13.PropertyValueTypeError", atRest},
		{"generic unknown property", redfishtest.Generic(), "", "", `{"Boot":{"BootOrder":[]}}`, 400, "Base.1.13.PropertyUnknown", atRest},
		{"generic not JSON", redfishtest.Generic(), "", "", `{`, 400, "Base.1.13.MalformedJSON", atRest},
		{"generic no settings", redfishtest.Generic(), "SD", "", full, 404, "Base.1.13.ResourceMissingAtURI", atRest},
		{"supermicro", redfishtest.Supermicro(), "", "fresh", full, 200, "", armed},
		{"supermicro omitted mode is Legacy", redfishtest.Supermicro(), "", "", noMode, 200, "", redfishtest.Override{Target: "Pxe", Enabled: "Once", Mode: "Legacy"}},
		{"supermicro omitted enabled is Once", redfishtest.Supermicro(), "", "", noOnce, 200, "", armed},
		{"supermicro rests on Pxe", redfishtest.Supermicro(), "", "", `{"Boot":{"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideMode":"UEFI"}}`, 200, "", restingPxe},
		{"supermicro X10", redfishtest.SupermicroX10(), "", "", noMode, 200, "", armed},
		{"supermicro X10 refuses a mode", redfishtest.SupermicroX10(), "", "", full, 400, "Base.v1_4_0.PropertyUnknown", atRest},
		{"dell", redfishtest.Dell(), "", "fresh", noMode, 200, "", armed},
		{"dell target is not in settings", redfishtest.Dell(), "Settings", "", noMode, 400, "Base.1.12.PropertyUnknown", atRest},
		{"dell mode is in settings", redfishtest.Dell(), "Settings", "", modal, 200, "", redfishtest.Override{Target: "None", Enabled: "Disabled", Mode: "Legacy"}},
		{"hpe", redfishtest.HPE(), "", "", noMode, 200, "Base.1.4.Success", armed},
		{"hpe refuses a mode", redfishtest.HPE(), "", "", full, 400, "iLO.2.30.UnsupportedOperation", atRest},
		{"hpe refuses to clear the target", redfishtest.HPE(), "", "", disable, 400, "iLO.2.30.UnsupportedOperation", atRest},
		{"hpe clears with the target kept", redfishtest.HPE(), "", "", keepPxe, 200, "Base.1.4.Success", atRest},
		{"lenovo", redfishtest.Lenovo(), "", "fresh", full, 204, "", armed},
		{"lenovo wants If-Match", redfishtest.Lenovo(), "", "", full, 428, "Base.1.12.PreconditionRequired", atRest},
		{"lenovo pending has no Boot", redfishtest.Lenovo(), "Pending", "*", full, 400, "Base.1.12.PropertyUnknown", atRest},
		{"lenovo knows no Continuous", redfishtest.Lenovo(), "", "fresh", `{"Boot":{"BootSourceOverrideEnabled":"Continuous"}}`, 400, "Base.1.12.PropertyValueNotInList", atRest},
		{"ami on the System", redfishtest.AMI(), "", "fresh", full, 400, "Ami.1.0.OperationSupportedInFutureStateURI", atRest},
		{"ami", redfishtest.AMI(), "SD", "fresh", full, 204, "", armed},
		{"ami wants If-Match", redfishtest.AMI(), "SD", "", full, 428, "Ami.1.0.PreconditionHeaderMissing", atRest},
		{"ami wants all three", redfishtest.AMI(), "SD", "fresh", noMode, 400, "Base.1.11.PropertyMissing", atRest},
		{"sushy-tools is always Continuous", redfishtest.SushyTools(), "", "", full, 204, "", redfishtest.Override{Target: "Pxe", Enabled: "Continuous", Mode: "UEFI"}},
		{"tag without quotes", bare, "", "a1", full, 204, "", armed},
		{"tag with quotes refused", bare, "", `"a1"`, full, 412, "Base.1.13.PreconditionFailed", atRest},
		{"no tag is ever right", never, "", "*", full, 412, "Base.1.13.PreconditionFailed", atRest},
		{"shown under another name", readBack, "", "", full, 200, "", armed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, redfishtest.Config{Profile: tt.profile})
			if tt.profile.Boot.RestTarget == "Pxe" && tt.want == atRest {
				tt.want = restingPxe
			}
			c := newClient(t, s)
			path := "/redfish/v1/Systems/" + tt.profile.SystemID
			if tt.under != "" {
				path += "/" + tt.under
			}
			if tt.ifMatch == "fresh" {
				tt.ifMatch = c.do("GET", path, "").header.Get("ETag")
			}
			got := c.with("If-Match", tt.ifMatch).do("PATCH", path, tt.body)
			wantEqual(t, "status", got.status, tt.status)
			wantEqual(t, "message", messageID(got), tt.message)
			wantEqual(t, "override", s.Override(), tt.want)
		})
	}
}

func TestShownOverride(t *testing.T) {
	t.Parallel()
	renamed, deferred := redfishtest.Supermicro(), redfishtest.AMI()
	renamed.Boot.PxeReadBack = "UefiBootNext"
	deferred.Boot.Settings.Deferred = true
	tests := []struct {
		name    string
		profile redfishtest.Profile
		path    string
		target  any
		enabled any
	}{
		{"as set", redfishtest.Generic(), "", "Pxe", "Once"},
		{"renamed", renamed, "", "UefiBootNext", "Once"},
		{"deferred on the System", deferred, "", "None", "Disabled"},
		{"deferred on the settings", deferred, "/SD", "Pxe", "Once"},
		{"settings with the mode only", redfishtest.Dell(), "/Settings", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, redfishtest.Config{Profile: tt.profile})
			s.SetOverride(armed)
			doc := newClient(t, s).get("/redfish/v1/Systems/" + tt.profile.SystemID + tt.path)
			wantEqual(t, "target", at(doc, "Boot", "BootSourceOverrideTarget"), tt.target)
			wantEqual(t, "enabled", at(doc, "Boot", "BootSourceOverrideEnabled"), tt.enabled)
		})
	}
}

func TestETagChangesWithEachWrite(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{})
	c := newClient(t, s)
	tag := func() string {
		r := c.do("GET", "/redfish/v1/Systems/1", "")
		wantEqual(t, "ETag in the document", r.doc["@odata.etag"], any(r.header.Get("ETag")))
		return r.header.Get("ETag")
	}
	first := tag()
	wantEqual(t, "after a GET", tag(), first)
	seen := map[string]bool{first: true}
	step := func(what, method, path, body string) {
		c.do(method, path, body)
		if now := tag(); seen[now] {
			t.Errorf("the tag %s is not new after %s", now, what)
		} else {
			seen[now] = true
		}
	}
	step("a write", "PATCH", "/redfish/v1/Systems/1", full)
	step("the same write again", "PATCH", "/redfish/v1/Systems/1", full)
	step("the boot that clears Once", "POST", resetPath("1"), `{"ResetType":"On"}`)
	got := c.with("If-Match", first).do("PATCH", "/redfish/v1/Systems/1", full)
	wantEqual(t, "stale tag", got.status, http.StatusPreconditionFailed)
}

// gofish#511: with gzip offered, the tag is one that the BMC itself refuses.
func TestGzipETag(t *testing.T) {
	t.Parallel()
	p := redfishtest.Generic()
	p.ETag.GzipSuffix = true
	c := newClient(t, start(t, redfishtest.Config{Profile: p}))
	plain := c.do("GET", "/redfish/v1/Systems/1", "").header.Get("ETag")
	zipped := c.with("Accept-Encoding", "gzip").do("GET", "/redfish/v1/Systems/1", "").header.Get("ETag")
	wantEqual(t, "plain", plain, `"a1"`)
	wantEqual(t, "zipped", zipped, `"a1-gzip"`)
	wantEqual(t, "PATCH with the zipped one", c.with("If-Match", zipped).do("PATCH", "/redfish/v1/Systems/1", full).status, 412)
	wantEqual(t, "PATCH with the plain one", c.with("If-Match", plain).do("PATCH", "/redfish/v1/Systems/1", full).status, 204)
}

// metal-operator#80: iDRAC starts a job for a mode, needed or not.
func TestDellCountsModeWrites(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{Profile: redfishtest.Dell()})
	c := newClient(t, s)
	path := "/redfish/v1/Systems/System.Embedded.1"
	wantEqual(t, "without a mode", c.do("PATCH", path, noMode).status, 200)
	wantEqual(t, "jobs", s.ConfigJobs(), 0)
	wantEqual(t, "with a mode", c.do("PATCH", path, full).status, 200)
	wantEqual(t, "jobs", s.ConfigJobs(), 1)
}
