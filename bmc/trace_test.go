package bmc

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

// traced reads the lines of a trace.
func traced(t *testing.T, trace string) []traceLine {
	t.Helper()
	var out []traceLine
	for line := range strings.Lines(trace) {
		var l traceLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%q is no line of JSON: %v", line, err)
		}
		out = append(out, l)
	}
	return out
}

// A trace shows what went on: one line an exchange, log-in and log-out among
// them, with what a maintainer needs to see.
func TestTraceHoldsEveryExchange(t *testing.T) {
	t.Parallel()
	var trace logBuffer
	s := newScript(t, one(machineShowing("Acme", restingUEFI, ""), nil))
	s.etags["/redfish/v1/Systems/1"] = `W/"1"`
	s.on[patchOne] = s.showsWhatIsSent("/redfish/v1/Systems/1", "Acme", "")
	cfg := s.config(t)
	cfg.Trace = &trace
	err := s.run(t, cfg, func(ctx context.Context, c *Client) error {
		_, err := c.ArmNetworkBoot(ctx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	lines := traced(t, trace.String())
	seen := make([]string, 0, len(lines))
	for _, l := range lines {
		if !strings.HasPrefix(l.URL, s.URL) || l.Status == 0 || l.Took == "" || l.Time.IsZero() {
			t.Errorf("line is %+v", l)
		}
		seen = append(seen, l.Method+" "+strings.TrimRight(strings.TrimPrefix(l.URL, s.URL), "/"))
	}
	want := append([]string{}, s.seen...)
	want[len(want)-1] = "DELETE " + sessionsPath + "/" + redacted
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("lines (-requests +trace):\n%s", diff)
	}
	login, patch := lines[1], lines[4]
	if diff := cmp.Diff(map[string]any{"UserName": redacted, "Password": redacted}, login.Request.Body); diff != "" {
		t.Errorf("log-in (-want +got):\n%s", diff)
	}
	if login.Response.Headers["X-Auth-Token"] != redacted || patch.Request.Headers["X-Auth-Token"] != redacted {
		t.Errorf("tokens are %q and %q", login.Response.Headers["X-Auth-Token"], patch.Request.Headers["X-Auth-Token"])
	}
	if got := login.Response.Headers["Location"]; got != s.URL+sessionsPath+"/"+redacted {
		t.Errorf("Location is %q", got)
	}
	if patch.Method != http.MethodPatch || patch.Request.Headers["If-Match"] != `W/"1"` {
		t.Errorf("PATCH is %+v", patch)
	}
	boot := map[string]any{"Boot": map[string]any{"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once", "BootSourceOverrideMode": "UEFI"}}
	if diff := cmp.Diff(boot, patch.Request.Body); diff != "" {
		t.Errorf("body of the PATCH (-want +got):\n%s", diff)
	}
	if lines[3].Response.Headers["Etag"] != `W/"1"` {
		t.Errorf("the ETag of the read is %q", lines[3].Response.Headers["Etag"])
	}
}

// An exchange without an answer is a line with the reason.
func TestTraceHoldsFailures(t *testing.T) {
	t.Parallel()
	var trace logBuffer
	s := start(t, hardware(redfishtest.Generic()))
	cfg := configFor(t, s)
	cfg.Trace = &trace
	c := dial(t, cfg)
	s.Inject(redfishtest.Fault{Method: http.MethodGet, Times: 2, Action: redfishtest.CloseConnection()}) // net/http itself repeats the first
	if _, err := c.PowerState(t.Context()); err != nil {
		t.Fatal(err)
	}
	failed := slices.IndexFunc(traced(t, trace.String()), func(l traceLine) bool { return l.Error != "" && l.Status == 0 })
	if failed < 0 {
		t.Errorf("no line with an error: %s", trace.String())
	}
}

// Secrets in every place that they have been seen in, and in some that they have
// not (I9).
func TestTraceHidesSecretsWhereverTheyAre(t *testing.T) {
	t.Parallel()
	known := newSecrets(testUser, testPassword)
	known.learn("tok3n-of-mine")
	tr := &tracer{secrets: known}
	for name, tt := range map[string]struct {
		body    string
		session bool
		gone    []string
		kept    []string
	}{
		"passwords by name":      {`{"Password":"x1","NewPassword":"x2","Oem":{"AccountPwd":"x3","SnmpCommunity":"x4"},"Ids":[{"Token":"x5"}]}`, false, []string{"x1", "x2", "x3", "x4", "x5"}, nil},
		"policies stay":          {`{"PasswordChangeRequired":true,"PasswordExpiration":null,"Id":"1"}`, false, nil, []string{`"PasswordChangeRequired":true`, `"Id":"1"`}},
		"echoed":                 {`{"error":{"message":"bad ` + testPassword + ` tok3n-of-mine"}}`, false, []string{testPassword, "tok3n-of-mine"}, []string{"bad"}},
		"in a key":               {`{"` + testPassword + `":1}`, false, []string{testPassword}, nil},
		"in another escaping":    {`{"m":"s3cret\u002dPa$$w0rd"}`, false, []string{testPassword, "Pa$$w0rd"}, nil},
		"no JSON":                {`<html>` + testPassword + ` cHJvdmlzaW9uZXI6czNjcmV0LVBhJCR3MHJk</html>`, false, []string{testPassword, "cHJvdmlzaW9uZXI6"}, []string{"<html>"}},
		"a session's id":         {`{"@odata.id":"/redfish/v1/SessionService/Sessions/abc123","Id":"abc123","Name":"User abc123","UserName":"root"}`, true, []string{"abc123", "root"}, []string{"/redfish/v1/SessionService/Sessions/"}},
		"a session without JSON": {`UserName=root&x=hunter2`, true, []string{"hunter2"}, nil},
		"text around a session":  {`{"m":"Delete \"https://h/redfish/v1/SessionService/Sessions/abc/123\": refused"}`, false, []string{"abc", "123"}, []string{`": refused`}},
		"numbers as they are":    {`{"MemoryGiB":12345678901234567890,"x":1e400}`, false, nil, []string{"12345678901234567890", "1e400"}},
	} {
		b, err := marshal(tr.body([]byte(tt.body), tt.session))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, secret := range tt.gone {
			if strings.Contains(string(b), secret) {
				t.Errorf("%s: %q is in %s", name, secret, b)
			}
		}
		for _, kept := range tt.kept {
			if !strings.Contains(string(b), kept) {
				t.Errorf("%s: %q is not in %s", name, kept, b)
			}
		}
	}
}

// Everything that a client can do, with every vendor, at debug level and traced,
// also while the BMC echoes what it is sent: the password and the tokens are
// nowhere (I9).
func TestSecretsStayOutOfLogTraceAndErrors(t *testing.T) {
	t.Parallel()
	for _, p := range redfishtest.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			var out logBuffer
			s, cfg, _ := faulty(t, p,
				redfishtest.Fault{Method: http.MethodGet, Path: systems, Skip: 1, Times: 1, Action: redfishtest.Respond(503, "token "+testPassword)},
				redfishtest.Fault{Method: http.MethodPatch, Times: 1, Action: redfishtest.Respond(409, `{"error":{"message":"you sent `+testPassword+`"}}`)})
			cfg.Log, cfg.Trace, cfg.Boot = out.logger(), &out, BootMedia
			c, err := Dial(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			token := c.token
			note := func(err error) {
				if err != nil {
					_, _ = out.Write([]byte(err.Error() + "\n"))
				}
			}
			ctx := t.Context()
			_, err = c.Identify(ctx)
			note(err)
			for _, kind := range []BootKind{BootPXE, BootHTTP, BootMedia, BootDisk} {
				_, err := c.Arm(ctx, BootRequest{Kind: kind, HTTPBootURI: bootURI, MediaURI: isoURI})
				note(err)
			}
			note(c.PowerCycle(ctx))
			note(c.PowerOffGracefully(ctx, 50*time.Millisecond))
			note(c.PowerOn(ctx))
			note(c.Disarm(ctx))
			_, err = c.Media(ctx)
			note(err)
			s.DropSessions()
			_, err = c.PowerState(ctx)
			note(err)
			second := c.token
			note(c.Close(ctx))
			cfg.Password = "wr0ng-" + testPassword
			_, err = Dial(ctx, cfg)
			note(err)

			all := out.String()
			for _, secret := range []string{testPassword, "Pa$$w0rd", token, second, "cHJvdmlzaW9uZXI6"} {
				if i := strings.Index(all, secret); secret != "" && i >= 0 {
					t.Errorf("%q is in the log, the trace or an error: …%s…", secret, all[max(0, i-100):min(len(all), i+100)])
				}
			}
			if !strings.Contains(all, `"method":"PATCH"`) || !strings.Contains(all, "redfish") {
				t.Error("nothing was logged: the test proves nothing")
			}
			if !p.Session.None && (token == "" || second == token) {
				t.Errorf("tokens are %q and %q", token, second)
			}
		})
	}
}
