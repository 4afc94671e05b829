package redfishtest_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

// Not parallel: it counts goroutines before the parallel tests go on.
func TestCloseLeavesNothingRunning(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 10 {
		machine := new(redfishtest.NullMachine)
		s := redfishtest.New(redfishtest.Config{Machine: machine, PowerLag: time.Hour})
		if err := s.Start("127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		c := newClient(t, s)
		c.do("POST", resetPath("1"), resetBody("On")) // lags for an hour
		s.Inject(redfishtest.Fault{Path: systemPath, Action: redfishtest.Delay(time.Hour)})
		answered := make(chan reply)
		go func() { answered <- c.do("GET", systemPath, "") }()
		eventually(t, "the request is in", func() bool { return len(s.Requests()) == 2 })
		s.Close()
		s.Close()
		if got := <-answered; got.err == nil {
			t.Errorf("a delayed request was answered %d at Close", got.status)
		}
		wantEqual(t, "powered", machine.Powered(), false)
		c.http.CloseIdleConnections()
	}
	eventually(t, "as many goroutines as before", func() bool { return runtime.NumGoroutine() <= before })
}

func TestCloseEndsAResetThatIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := redfishtest.New(redfishtest.Config{Machine: stuck{}})
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.do("POST", resetPath("1"), resetBody("On"))
	}()
	eventually(t, "PoweringOn", func() bool { return s.PowerState() == "PoweringOn" })
	s.Close()
	<-done
}

// stuck starts until its context ends.
type stuck struct{}

func (stuck) PowerOn(ctx context.Context, _ redfishtest.Boot) error { <-ctx.Done(); return ctx.Err() }
func (stuck) PowerOff(context.Context) error                        { return nil }
func (stuck) Powered() bool                                         { return false }

func TestStartTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	first := start(t, redfishtest.Config{})
	taken := strings.TrimPrefix(first.URL(), "https://")
	closed := redfishtest.New(redfishtest.Config{})
	closed.Close()
	tests := []struct {
		name    string
		service *redfishtest.Service
		addr    string
		want    string
	}{
		{"port in use", redfishtest.New(redfishtest.Config{}), taken, "is the port free"},
		{"no port", redfishtest.New(redfishtest.Config{}), "127.0.0.1", "127.0.0.1:0"},
		{"started before", first, "127.0.0.1:0", "make a new one"},
		{"closed before", closed, "127.0.0.1:0", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.service.Start(tt.addr)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Start(%q) = %v; want an error with %q", tt.addr, err, tt.want)
			}
		})
	}
}

func TestBeforeStartThereIsNoURL(t *testing.T) {
	t.Parallel()
	s := redfishtest.New(redfishtest.Config{})
	defer s.Close()
	wantEqual(t, "URL", s.URL(), "")
	wantEqual(t, "certificate", s.CertificatePEM(), []byte(nil))
}

func TestOneAuthorityForManyServices(t *testing.T) {
	t.Parallel()
	authority, err := redfishtest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority.PEM()) {
		t.Fatal("the authority has no certificate")
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer tr.CloseIdleConnections()
	for _, host := range []string{"127.0.0.1", "127.9.0.2"} {
		cert, err := authority.Certificate(host)
		if err != nil {
			t.Fatal(err)
		}
		s := redfishtest.New(redfishtest.Config{Certificate: cert})
		if err := s.Start(host + ":0"); err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		c := &client{t: t, s: s, http: &http.Client{Transport: tr}}
		wantEqual(t, "root of "+host, c.do("GET", "/redfish/v1/", "").status, 200)
	}
	stranger := start(t, redfishtest.Config{})
	c := &client{t: t, s: stranger, http: &http.Client{Transport: tr}}
	if got := c.do("GET", "/redfish/v1/", ""); got.err == nil {
		t.Error("a self-signed service is trusted through the authority")
	}
}

// The service works behind any server, here one without TLS of its own.
func TestServiceIsAHandler(t *testing.T) {
	t.Parallel()
	s := redfishtest.New(redfishtest.Config{})
	defer s.Close()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/redfish/v1/", nil))
	wantEqual(t, "status", w.Code, 200)
	s.Inject(redfishtest.Fault{Action: redfishtest.CloseConnection()})
	w = httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/redfish/v1/", nil))
	wantEqual(t, "nothing to close", w.Code, http.StatusBadGateway)
}

func TestALargeBodyIsRefused(t *testing.T) {
	t.Parallel()
	s := redfishtest.New(redfishtest.Config{})
	defer s.Close()
	w := httptest.NewRecorder()
	body := strings.NewReader(strings.Repeat(" ", 2<<20))
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", sessions, body))
	wantEqual(t, "status", w.Code, http.StatusRequestEntityTooLarge)
}

// BenchmarkStart starts services as a large emulated fleet does, and reports
// what an idle one costs.
func BenchmarkStart(b *testing.B) {
	authority, err := redfishtest.NewAuthority()
	if err != nil {
		b.Fatal(err)
	}
	cert, err := authority.Certificate("127.0.0.1")
	if err != nil {
		b.Fatal(err)
	}
	profile := redfishtest.Supermicro()
	services := make([]*redfishtest.Service, 0, b.N)
	before := memory()
	b.ResetTimer()
	for range b.N {
		s := redfishtest.New(redfishtest.Config{Profile: profile, Certificate: cert, Serial: "S", MACs: []string{"52:54:00:00:00:01"}})
		if err := s.Start("127.0.0.1:0"); err != nil {
			b.Fatal(err)
		}
		services = append(services, s)
	}
	b.StopTimer()
	b.ReportMetric(float64(memory()-before)/float64(b.N), "B/idle")
	for _, s := range services {
		s.Close()
	}
}

// memory is what the process holds in heap and stacks.
func memory() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
