package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/fleet"
)

// One wrong password is one attempt, also where the BMC would fall back to Basic:
// a BMC that locks after two is still open.
func TestBMCWrongPasswordLocksNoAccount(t *testing.T) {
	t.Parallel()
	s := redfishtest.New(redfishtest.Config{Profile: redfishtest.Dell(), Lockout: 2})
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "password")
	writeFile(t, file, "wrong")
	args := []string{"bmc", "info", "--address", s.URL(), "--username", redfishtest.DefaultUsername, "--password-file", file, "--insecure"}
	if r := provision(t, args...); r.status != exitFailed || !strings.Contains(r.err, "check --username") {
		t.Errorf("status %d: %s", r.status, r.err)
	}
	if s.Locked() || s.RefusedLogins() != 1 {
		t.Errorf("locked %t after %d attempts", s.Locked(), s.RefusedLogins())
	}
	writeFile(t, file, redfishtest.DefaultPassword)
	if r := provision(t, args...); r.status != exitDone {
		t.Errorf("status %d: %s", r.status, r.err)
	}
}

// Trust is set for each BMC at --address; errors name the flags, not the inventory's fields.
func TestBMCTrust(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1})
	m := f.Machines()[0]
	block, _ := pem.Decode(m.BMC().CertificatePEM())
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	right, wrong := base64.StdEncoding.EncodeToString(sum[:]), base64.StdEncoding.EncodeToString(make([]byte, 32))
	base := []string{
		"bmc", "power", "status", "--address", m.BMC().URL(), "--username", "provisioner",
		"--password-command", "cat " + filepath.Join(filepath.Dir(f.ConfigFile()), "bmc-password"),
	}
	for _, tt := range []struct {
		flags  []string
		status int
		says   string
	}{
		{nil, exitFailed, "set --ca-file to the authority"},
		{[]string{"--insecure"}, exitDone, ""},
		{[]string{"--insecure", "--legacy-tls"}, exitDone, ""},
		{[]string{"--fingerprint", right}, exitDone, ""},
		{[]string{"--fingerprint", wrong}, exitFailed, "correct --fingerprint"},
		{[]string{"--insecure", "--system", "7"}, exitFailed, "--system"},
	} {
		r := provision(t, slices.Concat(base, tt.flags)...)
		if r.status != tt.status || !strings.Contains(r.err, tt.says) || strings.Contains(r.err, "bmc.") {
			t.Errorf("%v: status %d, says %s", tt.flags, r.status, r.err)
		}
	}
	noSessions(t, f)
}

// I9: nothing that a command writes at its most talkative holds a secret, and
// the trace is for its owner only.
func TestBMCSecretsAreNeverShown(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2})
	m := f.Machines()[0]
	trace := filepath.Join(t.TempDir(), "trace.json")
	if err := os.WriteFile(trace, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	m.BMC().Inject(redfishtest.Fault{Method: "PATCH", Times: 1, Action: redfishtest.Respond(http.StatusServiceUnavailable, "")})
	m.BMC().Inject(redfishtest.Fault{Method: "GET", Path: "/redfish/v1/Systems/1", Skip: 1, Times: 1, Action: redfishtest.DropToken()})
	var shown []byte
	read := func() {
		content, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		shown = append(shown, content...)
	}
	talk := []string{"--log-level", "debug", "--trace", trace}
	for _, args := range [][]string{
		{"info"}, {"boot", "pxe"}, {"power", "cycle", "--yes"}, {"media", "insert", "http://192.0.2.1/a.iso"}, {"media", "eject"}, {"power", "status", "-o", "json"},
	} {
		r := provision(t, append(onFleet(f, "", args...), talk...)...)
		shown = append(shown, r.out+r.err...)
		read()
	}
	if !bytes.Contains(shown, []byte("BootSourceOverrideTarget")) || !bytes.Contains(shown, []byte("level=DEBUG")) {
		t.Errorf("neither trace nor log: %.500s", shown)
	}
	tokens := m.BMC().Tokens()
	if len(tokens) < 4 {
		t.Errorf("%d tokens were handed out", len(tokens))
	}
	// A wrong password is a secret as well: it may be the right one of another machine.
	put(t, f, "bmc-password", "hunter2-is-wrong\n")
	r := provision(t, append(onFleet(f, "", "info"), talk...)...)
	shown = append(shown, r.out+r.err...)
	read()
	for _, secret := range append(tokens, "fleet-bmc-password", "hunter2-is-wrong",
		base64.StdEncoding.EncodeToString([]byte("provisioner:fleet-bmc-password")), base64.StdEncoding.EncodeToString([]byte("provisioner:hunter2-is-wrong"))) {
		if bytes.Contains(shown, []byte(secret)) {
			t.Errorf("%s is shown", secret)
		}
	}
	info, err := os.Stat(trace)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the trace is %v, %v", info.Mode(), err)
	}
}

// A trace is one JSON document a line, so that jq reads it.
func TestBMCTraceIsJSONLines(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 5})
	trace := filepath.Join(t.TempDir(), "trace.json")
	if r := provision(t, onFleet(f, "", "info", "--trace", trace)...); r.status != exitDone {
		t.Fatalf("status %d: %s", r.status, r.err)
	}
	content, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	hosts := map[string]bool{}
	for line := range strings.Lines(string(content)) {
		var exchange struct{ Method, URL string }
		if err := json.Unmarshal([]byte(line), &exchange); err != nil || exchange.Method == "" {
			t.Fatalf("line %q: %v", line, err)
		}
		for _, m := range f.Machines() {
			if strings.HasPrefix(exchange.URL, m.BMC().URL()) {
				hosts[m.Name] = true
			}
		}
	}
	if len(hosts) != 5 {
		t.Errorf("the trace is of %v", hosts)
	}
}
