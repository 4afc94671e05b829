package redfishtest_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

// No request makes the service panic, answer something that is not JSON, keep a
// password, or show an override that it would not take.
func FuzzRequest(f *testing.F) {
	for _, body := range []string{
		full, noMode, modal, disable, rightLogin, resetBody("On"), resetBody("PushPowerButton"),
		"", "null", "{}", "[]", `{"Boot":null}`, `{"Boot":[]}`, `{"Boot":{"BootSourceOverrideTarget":null}}`,
		`{"ResetType":1}`, `{"Boot":{"BootSourceOverrideEnabled":"once"}}`, "\xef\xbb\xbf{}", `{"a":` + strings.Repeat("[", 100),
	} {
		f.Add(0, "PATCH", "/redfish/v1/Systems/1", `"a1"`, body)
		f.Add(2, "POST", "/redfish/v1/SessionService/Sessions", "", body)
		f.Add(3, "POST", "/redfish/v1/Systems/System.Embedded.1/Actions/ComputerSystem.Reset", "*", body)
		f.Add(6, "PATCH", "/redfish/v1/Systems/Self/SD", `W/"sda1"`, body)
	}
	f.Add(1, "GET", "/redfish/v1/Systems/1/EthernetInterfaces/-1", "", "")
	f.Add(1, "GET", "//", "", "")
	f.Add(1, "DELETE", "/redfish/v1/SessionService/Sessions/", "", "")
	profiles := redfishtest.Profiles()
	f.Fuzz(func(t *testing.T, profile int, method, path, ifMatch, body string) {
		const password = "fuzzers-never-guess-this"
		p := profiles[uint(profile)%uint(len(profiles))]
		s := redfishtest.New(redfishtest.Config{Profile: p, Username: "u", Password: password, MACs: []string{"a", "b"}})
		defer s.Close()
		r := &http.Request{Method: method, URL: &url.URL{Path: path}, Header: http.Header{"If-Match": {ifMatch}}, Body: http.NoBody}
		if body != "" {
			r.Body = httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(body)).Body
		}
		r.SetBasicAuth("u", password)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r.WithContext(t.Context()))
		if w.Body.Len() > 0 && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %q answers %q", method, path, w.Body)
		}
		if w.Code < 200 || w.Code > 599 {
			t.Errorf("status %d", w.Code)
		}
		for _, request := range s.Requests() {
			if strings.Contains(request.Header.Get("Authorization"), password) {
				t.Error("the password is kept")
			}
		}
		known := map[string]bool{"Disabled": true, "Once": true, "Continuous": true, "UEFI": true, "Legacy": true}
		if o := s.Override(); !known[o.Enabled] || !known[o.Mode] {
			t.Errorf("override %+v", o)
		}
	})
}

// A pattern that means nothing matches nothing, and "/**" matches only below.
func FuzzFaultPath(f *testing.F) {
	for _, pattern := range []string{"", "/**", "[", "/redfish/v1/Systems/*", "/redfish/v1/**", "*", "/redfish/v1/Systems/[", `\`} {
		f.Add(pattern)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		s := redfishtest.New(redfishtest.Config{})
		defer s.Close()
		s.Inject(redfishtest.Fault{Path: pattern, Action: redfishtest.Respond(599, "")})
		for _, path := range []string{"/redfish/v1/", "/", ""} {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}, Body: http.NoBody}).WithContext(t.Context()))
			if pattern == "" && w.Code != 599 {
				t.Errorf("the empty pattern does not match %q", path)
			}
		}
	})
}

// No dump makes FromDump panic, and a profile that it makes can be served.
func FuzzDump(f *testing.F) {
	f.Add(`{"Members":[{"@odata.id":"/redfish/v1/Systems/A"}]}`, `{"Boot":{},"Actions":{"#ComputerSystem.Reset":{}}}`)
	f.Add(`{"Members":[{"@odata.id":"/redfish/v1/Systems/A/"}]}`, `{"Boot":{"BootSourceOverrideTarget":1},"Links":{"Chassis":[[]],"ManagedBy":{}},
		"@Redfish.Settings":{"SettingsObject":{"@odata.id":"/redfish/v1/Systems/A"}},"Actions":{"#ComputerSystem.Reset":{"@Redfish.ActionInfo":5}}}`)
	f.Add(`{"Members":{"@odata.id":"x"}}`, `[]`)
	f.Add(`{"Members":[{"@odata.id":"/redfish/v1/Systems/A"}]}`, `{"Boot":[],"Actions":{"#ComputerSystem.Reset":{"ResetType@Redfish.AllowableValues":"On"}}}`)
	f.Fuzz(func(t *testing.T, collection, system string) {
		profile, err := redfishtest.FromDump("fuzz", fstest.MapFS{
			"redfish/v1/Systems/index.json":   {Data: []byte(collection)},
			"redfish/v1/Systems/A/index.json": {Data: []byte(system)},
		})
		if err != nil {
			return
		}
		s := redfishtest.New(redfishtest.Config{Profile: profile})
		defer s.Close()
		r := (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: s.SystemPath()}, Header: http.Header{}, Body: http.NoBody}).WithContext(t.Context())
		r.SetBasicAuth(redfishtest.DefaultUsername, redfishtest.DefaultPassword)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != http.StatusOK || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s is %d %q", s.SystemPath(), w.Code, w.Body)
		}
	})
}
