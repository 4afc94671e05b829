package bmc

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

const sessionsPath = "/redfish/v1/SessionService/Sessions"

func TestWrongPasswordIsTriedOnce(t *testing.T) {
	t.Parallel()
	for _, p := range redfishtest.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			s := service(t, hardware(p))
			cfg := configFor(t, s)
			cfg.Password = "wr0ng-Passw0rd"
			_, err := Dial(t.Context(), cfg)
			if !errors.Is(err, ErrUnauthorized) {
				t.Fatalf("error is %v", err)
			}
			for _, want := range []string{s.URL(), `"` + testUser + `"`, "check bmc.username", "one attempt"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error does not say %q: %v", want, err)
				}
			}
			if strings.Contains(err.Error(), cfg.Password) {
				t.Errorf("error gives the password away: %v", err)
			}
			if n := s.RefusedLogins(); n != 1 {
				t.Errorf("%d failed log-ins, want 1", n)
			}
		})
	}
}

// iLO 4 refuses a log-in with 400.
func TestLoginRefusedWith400IsTriedOnce(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(supermicro1, nil))
	s.on["POST "+sessionsPath] = func(string, http.Header) *reply {
		return &reply{status: 400, body: `{"error":{"code":"iLO.0.10.ExtendedInfo","@Message.ExtendedInfo":[{"MessageID":"Base.0.10.UnauthorizedLoginAttempt"}]}}`}
	}
	if _, err := Dial(t.Context(), s.config(t)); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("error is %v", err)
	}
	if n := s.count("POST " + sessionsPath); n != 1 {
		t.Errorf("%d log-ins, want 1", n)
	}
}

const rac0218 = `{"error":{"code":"Base.1.5.GeneralError","message":"x","@Message.ExtendedInfo":[{"MessageId":"IDRAC.2.1.RAC0218","Message":"The maximum number of user sessions is reached."}]}}`

// T24: all sessions taken.
func TestFullSessionTableFallsBackToBasic(t *testing.T) {
	t.Parallel()
	h := hardware(redfishtest.Dell())
	h.SessionLimit = 1
	s := service(t, h)
	holder := dial(t, configFor(t, s))
	c := dial(t, configFor(t, s))
	if _, err := c.Identify(t.Context()); err != nil {
		t.Error(err)
	}
	if s.Logins() != 1 || s.OpenSessions() != 1 || s.RefusedLogins() != 0 {
		t.Errorf("%d log-ins, %d open, %d refused", s.Logins(), s.OpenSessions(), s.RefusedLogins())
	}
	_ = holder
}

// T24, when the BMC takes no Basic authentication.
func TestFullSessionTableWithoutBasicIsTyped(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(supermicro1, nil))
	s.on["POST "+sessionsPath] = func(string, http.Header) *reply { return &reply{status: 503, body: rac0218} }
	s.on["GET /redfish/v1/Systems"] = func(string, http.Header) *reply { return &reply{status: 401} }
	_, err := Dial(t.Context(), s.config(t))
	if !errors.Is(err, ErrSessionLimit) || !strings.Contains(err.Error(), "close sessions on the BMC") {
		t.Errorf("error is %v", err)
	}
	if n := s.count("POST " + sessionsPath); n != 1 {
		t.Errorf("%d log-ins, want 1", n)
	}
	if n := s.count("GET /redfish/v1/Systems"); n != 1 {
		t.Errorf("%d requests with Basic, want 1", n)
	}
}

// T25: the BMC was restarted and forgot the session.
func TestDroppedSessionIsRenewedOnce(t *testing.T) {
	t.Parallel()
	s := service(t, hardware(redfishtest.Generic()))
	c := dial(t, configFor(t, s))
	if _, err := c.PowerState(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Inject(redfishtest.Fault{Path: "/redfish/v1/Systems/**", Times: 1, Action: redfishtest.DropToken()})
	if _, err := c.PowerState(t.Context()); err != nil {
		t.Error(err)
	}
	if s.Logins() != 2 {
		t.Errorf("%d log-ins, want 2", s.Logins())
	}
}

// T25: 401 whatever one does ends after one more log-in, for good.
func TestEndless401IsNotALoop(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(supermicro1, nil))
	c := dial(t, s.config(t))
	if _, err := c.PowerState(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.on["GET /redfish/v1/Systems/1"] = func(string, http.Header) *reply { return &reply{status: 401} }
	s.mu.Unlock()
	for range 5 {
		if _, err := c.PowerState(t.Context()); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("error is %v", err)
		}
	}
	if n := s.count("POST " + sessionsPath); n != 2 {
		t.Errorf("%d log-ins, want 2", n)
	}
}

// Basic authentication sends the password with every request: each one after a
// 401 would count towards the lock.
func TestBasicAuthenticationStopsAtThe401(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(supermicro1, nil))
	s.docs["/redfish/v1"] = `{"Systems":{"@odata.id":"/redfish/v1/Systems"}}`
	c := dial(t, s.config(t))
	s.mu.Lock()
	s.on["GET /redfish/v1/Systems/1"] = func(string, http.Header) *reply { return &reply{status: 401} }
	s.mu.Unlock()
	for range 5 {
		if _, err := c.PowerState(t.Context()); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("error is %v", err)
		}
	}
	if n := s.count("GET /redfish/v1/Systems/1"); n != 1 {
		t.Errorf("%d requests with a refused password, want 1", n)
	}
}

func TestDroppedSessionAndChangedPasswordIsTriedOnce(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(supermicro1, nil))
	c := dial(t, s.config(t))
	if _, err := c.PowerState(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.on["GET /redfish/v1/Systems/1"] = func(string, http.Header) *reply { return &reply{status: 401} }
	s.on["POST "+sessionsPath] = func(string, http.Header) *reply { return &reply{status: 401} }
	s.mu.Unlock()
	for range 5 {
		if _, err := c.PowerState(t.Context()); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("error is %v", err)
		}
	}
	if n := s.count("POST " + sessionsPath); n != 2 {
		t.Errorf("%d log-ins, want the first and one more", n)
	}
}

// T26: a licence is not a matter of the password.
func TestLicenceRefusalIsTypedAndDoesNotLogInAgain(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(supermicro1, nil))
	s.on["GET /redfish/v1/Systems/1"] = func(string, http.Header) *reply {
		return &reply{status: 403, body: `{"error":{"code":"Base.v1_10_3.GeneralError","message":"Not licensed to perform this request. The following licenses DCMS were needed","@Message.ExtendedInfo":[{"MessageId":"SMC.1.0.OemLicenseNotPassed","MessageArgs":["DCMS "]}]}}`}
	}
	_, err := dial(t, s.config(t)).PowerState(t.Context())
	if !errors.Is(err, ErrLicence) || errors.Is(err, ErrUnauthorized) || !strings.Contains(err.Error(), "DCMS") {
		t.Errorf("error is %v", err)
	}
	if n := s.count("POST " + sessionsPath); n != 1 {
		t.Errorf("%d log-ins, want 1", n)
	}
	if n := s.count("GET /redfish/v1/Systems/1"); n != 1 {
		t.Errorf("%d reads, want 1", n)
	}
}

// Session services with something missing.
func TestOddSessionServices(t *testing.T) {
	t.Parallel()
	basicOnly := func(s *script) {
		s.on["GET /redfish/v1/Systems/1"] = func(_ string, h http.Header) *reply {
			if !strings.HasPrefix(h.Get("Authorization"), "Basic ") {
				return &reply{status: 401}
			}
			return nil
		}
	}
	for _, tt := range []struct {
		name  string
		root  string
		setup func(*script)
		posts int
	}{
		{"no session service at all", `{"Systems":{"@odata.id":"/redfish/v1/Systems"}}`, basicOnly, 0},
		{"no Links.Sessions", `{"Systems":"/redfish/v1/Systems","SessionService":{"@odata.id":"/redfish/v1/SessionService/"}}`, nil, 1},
		{"404 for the log-in", "", func(s *script) {
			basicOnly(s)
			s.on["POST "+sessionsPath] = func(string, http.Header) *reply { return &reply{status: 404} }
		}, 1},
		{"201 without a token", "", func(s *script) {
			basicOnly(s)
			s.on["POST "+sessionsPath] = func(string, http.Header) *reply {
				s.sessions[sessionsPath+"/9"] = true
				return &reply{status: 201, header: map[string]string{"Location": sessionsPath + "/9"}}
			}
		}, 1},
		{"a token without Location", "", func(s *script) {
			s.on["POST "+sessionsPath] = func(string, http.Header) *reply {
				s.sessions[sessionsPath+"/9"] = true
				return &reply{status: 201, body: `{"@odata.id":"` + sessionsPath + `/9"}`, header: map[string]string{"X-Auth-Token": "t"}}
			}
		}, 1},
		{"a root behind a password", "", func(s *script) {
			s.on["GET /redfish/v1"] = func(_ string, h http.Header) *reply {
				if h.Get("Authorization") == "" {
					return &reply{status: 401}
				}
				return nil
			}
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, one(supermicro1, nil))
			if tt.root != "" {
				s.docs["/redfish/v1"] = tt.root
			}
			if tt.setup != nil {
				tt.setup(s)
			}
			if _, err := dial(t, s.config(t)).PowerState(t.Context()); err != nil {
				t.Error(err)
			}
			if n := s.count("POST " + sessionsPath); n != tt.posts {
				t.Errorf("%d log-ins, want %d", n, tt.posts)
			}
		})
	}
}

func TestClosedClientRefuses(t *testing.T) {
	t.Parallel()
	s := service(t, hardware(redfishtest.Generic()))
	c := dial(t, configFor(t, s))
	for range 2 {
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.PowerState(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("error is %v", err)
	}
}
