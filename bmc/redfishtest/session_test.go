package redfishtest_test

import (
	"net/http"
	"testing"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

const (
	sessions   = "/redfish/v1/SessionService/Sessions"
	rightLogin = `{"UserName":"admin","Password":"password"}`
)

func TestLoginAndLogout(t *testing.T) {
	t.Parallel()
	for _, p := range redfishtest.Profiles() {
		if p.Session.None {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			s := start(t, redfishtest.Config{Profile: p})
			nobody := newClient(t, s).with("Authorization", "")

			got := nobody.do("POST", sessions, rightLogin)
			wantEqual(t, "login", got.status, http.StatusCreated)
			wantEqual(t, "open", s.OpenSessions(), 1)
			wantEqual(t, "tokens", s.Tokens(), []string{got.header.Get("X-Auth-Token")})
			token, location := got.header.Get("X-Auth-Token"), got.header.Get("Location")
			wantEqual(t, "location", location, sessions+"/1")

			user := nobody.with("X-Auth-Token", token)
			wantEqual(t, "with the token", user.do("GET", "/redfish/v1/Systems", "").status, 200)
			wantEqual(t, "listed", at(user.get(sessions), "Members@odata.count"), any(1.0))
			wantEqual(t, "shown", user.do("GET", location, "").status, 200)
			if status := user.do("DELETE", location, "").status; status != 200 && status != 204 {
				t.Errorf("logout: status %d", status)
			}
			wantEqual(t, "open after logout", s.OpenSessions(), 0)
			wantEqual(t, "with the old token", user.do("GET", "/redfish/v1/Systems", "").status, 401)
			wantEqual(t, "logins", s.Logins(), 1)
			wantEqual(t, "refused", s.RefusedLogins(), 0)
		})
	}
}

func TestAccessWithoutLogin(t *testing.T) {
	t.Parallel()
	protected := redfishtest.Generic()
	protected.Session.ProtectRoot = true
	tests := []struct {
		name          string
		profile       redfishtest.Profile
		authorization string
		token         string
		method, path  string
		status        int
	}{
		{"root", redfishtest.Generic(), "", "", "GET", "/redfish/v1/", 200},
		{"root without slash", redfishtest.Generic(), "", "", "GET", "/redfish/v1", 200},
		{"versions", redfishtest.Generic(), "", "", "GET", "/redfish", 200},
		{"protected root", protected, "", "", "GET", "/redfish/v1/", 401},
		{"protected root, login is open", protected, "", "", "POST", sessions, 201},
		{"system", redfishtest.Generic(), "", "", "GET", "/redfish/v1/Systems/1", 401},
		{"not there", redfishtest.Generic(), "", "", "GET", "/redfish/v1/Nothing", 401},
		{"HEAD", redfishtest.Generic(), "Basic YWRtaW46cGFzc3dvcmQ=", "", "HEAD", "/redfish/v1/Systems/1", 200},
		{"basic", redfishtest.Generic(), "Basic YWRtaW46cGFzc3dvcmQ=", "", "GET", "/redfish/v1/Systems/1", 200},
		{"slash at the end", redfishtest.Generic(), "Basic YWRtaW46cGFzc3dvcmQ=", "", "GET", "/redfish/v1/Systems/1/", 200},
		{"two slashes", redfishtest.Generic(), "Basic YWRtaW46cGFzc3dvcmQ=", "", "GET", "/redfish/v1/Systems/1//", 404},
		{"basic wrong", redfishtest.Generic(), "Basic YWRtaW46d3Jvbmc=", "", "GET", "/redfish/v1/Systems/1", 401},
		{"token wrong, basic right", redfishtest.Generic(), "Basic YWRtaW46cGFzc3dvcmQ=", "x", "GET", "/redfish/v1/Systems/1", 401},
		{"not found", redfishtest.Generic(), "Basic YWRtaW46cGFzc3dvcmQ=", "", "GET", "/redfish/v1/Nothing", 404},
		{"wrong method", redfishtest.Generic(), "Basic YWRtaW46cGFzc3dvcmQ=", "", "DELETE", "/redfish/v1/Systems/1", 405},
		{"no sessions", redfishtest.SushyTools(), "Basic YWRtaW46cGFzc3dvcmQ=", "", "GET", sessions, 404},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, start(t, redfishtest.Config{Profile: tt.profile}))
			body := ""
			if tt.method == "POST" {
				body = rightLogin
			}
			got := c.with("Authorization", tt.authorization, "X-Auth-Token", tt.token).do(tt.method, tt.path, body)
			wantEqual(t, "status", got.status, tt.status)
			if tt.status >= 400 && messageID(got) == "" {
				t.Errorf("no Redfish error in %q", got.body)
			}
		})
	}
}

func TestWrongPasswordIsCounted(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{Username: "root", Password: "calvin"})
	c := newClient(t, s)
	wantEqual(t, "login", c.do("POST", sessions, rightLogin).status, 401)
	wantEqual(t, "basic", c.do("GET", "/redfish/v1/Systems", "").status, 401)
	wantEqual(t, "no JSON", c.do("POST", sessions, "UserName=root").status, 400)
	wantEqual(t, "refused", s.RefusedLogins(), 2)
	wantEqual(t, "right", c.do("POST", sessions, `{"UserName":"root","Password":"calvin"}`).status, 201)
	wantEqual(t, "logins", s.Logins(), 1)
}

func TestSessionLimit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		profile redfishtest.Profile
		message string
	}{
		{redfishtest.Generic(), "Base.1.13.SessionLimitExceeded"},
		{redfishtest.Dell(), "IDRAC.2.8.RAC0218"},
	}
	for _, tt := range tests {
		t.Run(tt.profile.Name, func(t *testing.T) {
			t.Parallel()
			s := start(t, redfishtest.Config{Profile: tt.profile, SessionLimit: 2})
			c := newClient(t, s)
			c.do("POST", sessions, rightLogin)
			second := c.do("POST", sessions, rightLogin)
			third := c.do("POST", sessions, rightLogin)
			wantEqual(t, "third", third.status, http.StatusServiceUnavailable)
			wantEqual(t, "message", messageID(third), tt.message)
			wantEqual(t, "Basic goes on", c.do("GET", "/redfish/v1/Systems", "").status, 200)
			c.do("DELETE", second.header.Get("Location"), "")
			wantEqual(t, "after a logout", c.do("POST", sessions, rightLogin).status, http.StatusCreated)
		})
	}
}
