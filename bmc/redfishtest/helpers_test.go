package redfishtest_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

const testUUID = "4c4c4544-0042-4310-8031-b2c04f333334"

func start(t *testing.T, c redfishtest.Config) *redfishtest.Service {
	t.Helper()
	s := redfishtest.New(c)
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func transport(t *testing.T, s *redfishtest.Service) *http.Transport {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(s.CertificatePEM()) {
		t.Fatal("the service has no certificate")
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// client is plain net/http with Basic authentication.
type client struct {
	t      *testing.T
	s      *redfishtest.Service
	http   *http.Client
	header map[string]string
}

func newClient(t *testing.T, s *redfishtest.Service) *client {
	t.Helper()
	return &client{
		t: t, s: s,
		http: &http.Client{Transport: transport(t, s), Timeout: 20 * time.Second},
		header: map[string]string{
			"Authorization": "Basic YWRtaW46cGFzc3dvcmQ=", // admin:password
		},
	}
}

// with returns a client with other header fields; an empty value removes one.
func (c *client) with(pairs ...string) *client {
	d := *c
	d.header = map[string]string{}
	for k, v := range c.header {
		d.header[k] = v
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		d.header[pairs[i]] = pairs[i+1]
	}
	return &d
}

type reply struct {
	status int
	header http.Header
	body   string
	doc    map[string]any
	err    error
}

func (c *client) do(method, path, body string) reply {
	return c.doContext(context.Background(), method, path, body)
}

func (c *client) doContext(ctx context.Context, method, path, body string) reply {
	c.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, c.s.URL()+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for name, value := range c.header {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return reply{err: err}
	}
	defer func() { _ = answer.Body.Close() }()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		return reply{err: err}
	}
	out := reply{status: answer.StatusCode, header: answer.Header, body: string(b)}
	if len(b) > 0 {
		if err := json.Unmarshal(b, &out.doc); err != nil {
			c.t.Errorf("%s %s answers what is not JSON: %v: %q", method, path, err, b)
		}
	}
	return out
}

// get wants 200.
func (c *client) get(path string) map[string]any {
	c.t.Helper()
	got := c.do("GET", path, "")
	if got.err != nil || got.status != http.StatusOK {
		c.t.Fatalf("GET %s = %d %s, error %v", path, got.status, got.body, got.err)
	}
	return got.doc
}

// at walks down a document; a number in the path would be a list index.
func at(doc any, path ...string) any {
	for _, name := range path {
		m, ok := doc.(map[string]any)
		if !ok {
			return nil
		}
		doc = m[name]
	}
	return doc
}

func messageID(r reply) string {
	infos, _ := at(r.doc, "error", "@Message.ExtendedInfo").([]any)
	if len(infos) == 0 {
		return ""
	}
	for _, key := range []string{"MessageId", "MessageID"} {
		if id, ok := at(infos[0], key).(string); ok {
			return id
		}
	}
	return ""
}

func wantEqual(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
