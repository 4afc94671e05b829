package bmc

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestUnreachableBMCIsTypedAndQuick(t *testing.T) {
	t.Parallel()
	l := listen(t)
	address := l.Addr().String()
	_ = l.Close()
	_, err := Dial(t.Context(), Config{Address: address, Username: testUser, Password: testPassword, Timeouts: quick()})
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "log in at BMC https://"+address) || !strings.Contains(err.Error(), "check bmc.address") {
		t.Errorf("error is %v", err)
	}
}

// A BMC that takes the connection and says nothing.
func TestSilentBMCIsBounded(t *testing.T) {
	t.Parallel()
	l := listen(t)
	timeouts := quick()
	timeouts.Request, timeouts.Operation = 50*time.Millisecond, 200*time.Millisecond
	_, err := Dial(t.Context(), Config{Address: l.Addr().String(), Username: testUser, Password: testPassword, Insecure: true, Timeouts: timeouts})
	if !errors.Is(err, ErrUnreachable) {
		t.Errorf("error is %v", err)
	}
}

func TestUntrustedCertificateIsRefusedUnlessSaidOtherwise(t *testing.T) {
	t.Parallel()
	s := service(t, hardware(redfishtest.Generic()))
	cfg := configFor(t, s)
	trusted := cfg.CAFile
	cfg.CAFile = ""
	_, err := Dial(t.Context(), cfg)
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "set bmc.caFile") {
		t.Errorf("error is %v", err)
	}
	if n := s.Logins() + s.RefusedLogins(); n != 0 {
		t.Errorf("%d log-ins over an untrusted connection", n)
	}
	cfg.Insecure = true
	dial(t, cfg)
	if http.DefaultTransport.(*http.Transport).TLSClientConfig != nil && http.DefaultTransport.(*http.Transport).TLSClientConfig.InsecureSkipVerify {
		t.Error("insecure leaked into the process's default transport")
	}
	cfg.Insecure, cfg.CAFile = false, trusted
	dial(t, cfg)
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var leaked []string
	other := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		leaked = append(leaked, r.Method+" "+r.Header.Get("X-Auth-Token"))
	}))
	defer other.Close()

	t.Run("a read on the same host is followed", func(t *testing.T) {
		s := newScript(t, one("", map[string]string{"/redfish/v1/Systems/real": supermicro1}))
		s.on["GET /redfish/v1/Systems/1"] = func(string, http.Header) *reply {
			return &reply{status: 301, header: map[string]string{"Location": "/redfish/v1/Systems/real"}}
		}
		if state, err := dial(t, s.config(t)).PowerState(t.Context()); err != nil || state != On {
			t.Errorf("%v, %v", state, err)
		}
	})
	t.Run("a read to another host is not", func(t *testing.T) {
		s := newScript(t, one(supermicro1, nil))
		s.on["GET /redfish/v1/Systems/1"] = func(string, http.Header) *reply {
			return &reply{status: 302, header: map[string]string{"Location": other.URL + "/redfish/v1/Systems/1"}}
		}
		if _, err := dial(t, s.config(t)).PowerState(t.Context()); err == nil || !strings.Contains(err.Error(), "302") {
			t.Errorf("error is %v", err)
		}
	})
	for _, status := range []int{301, 302, 307, 308} {
		s := newScript(t, one(supermicro1, nil))
		s.on[patchOne] = func(string, http.Header) *reply {
			return &reply{status: status, header: map[string]string{"Location": "/redfish/v1/Systems/1/"}}
		}
		if _, err := dial(t, s.config(t)).ArmNetworkBoot(t.Context()); err == nil {
			t.Errorf("a redirected write (%d) passed for success", status)
		}
	}
	t.Run("a log-in is not", func(t *testing.T) {
		s := newScript(t, one(supermicro1, nil))
		s.on["POST "+sessionsPath] = func(string, http.Header) *reply {
			return &reply{status: 307, header: map[string]string{"Location": other.URL + sessionsPath}}
		}
		if _, err := Dial(t.Context(), s.config(t)); err == nil {
			t.Error("a redirected log-in passed for success")
		}
	})
	mu.Lock()
	defer mu.Unlock()
	if len(leaked) != 0 {
		t.Errorf("requests went to another host: %v", leaked)
	}
}

func TestAbsoluteReferencesStayOnTheBMC(t *testing.T) {
	t.Parallel()
	s := newScript(t, map[string]string{
		"/redfish/v1/Systems":   `{"Members":[{"@odata.id":"https://bmc.example.invalid/redfish/v1/Systems/1/"}]}`,
		"/redfish/v1/Systems/1": supermicro1,
	})
	if _, err := dial(t, s.config(t)).PowerState(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestEndlessBodyIsCutOff(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		block := []byte(strings.Repeat(" ", 1<<16))
		for r.Context().Err() == nil {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	_, err := Dial(t.Context(), Config{Address: server.URL, Username: testUser, Password: testPassword, Insecure: true, Timeouts: quick()})
	if !errors.Is(err, errBodyTooLarge) {
		t.Errorf("error is %v", err)
	}
}

func TestWebServerThatIsNoRedfishService(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"no service root":   http.NotFound,
		"a page for people": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>Log in</html>") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewTLSServer(h)
			defer server.Close()
			_, err := Dial(t.Context(), Config{Address: server.URL, Username: testUser, Password: testPassword, Insecure: true, Timeouts: quick()})
			if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "Redfish service") {
				t.Errorf("error is %v", err)
			}
		})
	}
}

// I10: callers at once, requests one after the other; service checks the latter.
func TestConcurrentCallersAreServedOneAtATime(t *testing.T) {
	t.Parallel()
	s := service(t, hardware(redfishtest.Supermicro()))
	c := dial(t, configFor(t, s))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := c.Identify(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestWaitingCallerCanBeCancelled(t *testing.T) {
	t.Parallel()
	s := service(t, hardware(redfishtest.Generic()))
	c := dial(t, configFor(t, s))
	c.gate <- struct{}{} // as a request in flight does
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.PowerState(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
	<-c.gate
}

// I9: neither a log at debug level nor an error holds the password or a token.
func TestSecretsStayOutOfLogsAndErrors(t *testing.T) {
	t.Parallel()
	var log logBuffer
	var texts []string
	s := newScript(t, one(supermicro1, nil))
	basic := "Basic cHJvdmlzaW9uZXI6czNjcmV0LVBhJCR3MHJk"
	echo := func(body string, h http.Header) *reply {
		return &reply{status: 400, body: `{"error":{"message":"` + testPassword + ` ` + h.Get("X-Auth-Token") + ` ` + basic + `","@Message.ExtendedInfo":[{"MessageId":"Base.1.0.PropertyValueError","Message":"got ` + testPassword + `, ` + h.Get("X-Auth-Token") + `","MessageArgs":["` + testPassword + `","` + h.Get("X-Auth-Token") + `"]}]}}`}
	}
	s.on[patchOne], s.on[resetOne] = echo, echo
	cfg := s.config(t)
	cfg.Log = log.logger()
	c := dial(t, cfg)
	for _, call := range []func() error{
		func() error { _, err := c.Identify(t.Context()); return err },
		func() error { _, err := c.ArmNetworkBoot(t.Context()); return err },
		func() error { return c.PowerCycle(t.Context()) },
		func() error { return c.Close(t.Context()) },
	} {
		if err := call(); err != nil {
			texts = append(texts, err.Error())
		}
	}
	s.mu.Lock()
	s.on["POST "+sessionsPath] = echo
	s.mu.Unlock()
	if _, err := Dial(t.Context(), cfg); err != nil {
		texts = append(texts, err.Error())
	}
	cfg.Address = "https://" + testUser + ":" + testPassword + "@127.0.0.1"
	if _, err := Dial(t.Context(), cfg); err != nil {
		texts = append(texts, err.Error())
	}
	if len(texts) < 4 {
		t.Fatalf("only %d errors: %q", len(texts), texts)
	}
	all := log.String() + strings.Join(texts, "\n")
	for _, secret := range []string{testPassword, "Pa$$w0rd", "token-1-secret", basic, strings.TrimPrefix(basic, "Basic ")} {
		if i := strings.Index(all, secret); i >= 0 {
			t.Errorf("%q is in the log or an error: …%s…", secret, all[max(0, i-100):min(len(all), i+100)])
		}
	}
	if !strings.Contains(log.String(), "/redfish/v1/Systems/1") {
		t.Error("the log holds no requests: the test proves nothing")
	}
}
