package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner/store"
)

const (
	adminToken   = "canary-admin-token-0123456789"
	readingToken = "canary-reading-token-0123456789"
)

// remoteSite is a daemon that is reached over TCP by token and TLS, and clients that
// have nothing of its site.
type remoteSite struct {
	fleet                *fleet.Fleet
	daemon               *daemonProcess
	address              string
	admin, reader, wrong string // the configuration files of clients
}

// newRemoteSite starts a daemon that listens at the fleet's controller address.
func newRemoteSite(t *testing.T, f *fleet.Fleet) remoteSite {
	t.Helper()
	host, _, err := net.SplitHostPort(f.Controller())
	if err != nil {
		t.Fatal(err)
	}
	s := remoteSite{fleet: f, address: net.JoinHostPort(host, "9090")}
	dir := t.TempDir()
	cert, key := selfSigned(t, dir, host)
	tokens := map[string]string{"admin": adminToken, "reader": readingToken, "wrong": "nobodys-token-0123456789"}
	configs := map[string]*string{"admin": &s.admin, "reader": &s.reader, "wrong": &s.wrong}
	for name, token := range tokens {
		file := filepath.Join(dir, name+".token")
		writeFile(t, file, token+"\n")
		*configs[name] = filepath.Join(dir, name+".yaml")
		writeFile(t, *configs[name], fmt.Sprintf("state: %s/none\ninventory: %[1]s/none\nclient: {server: 'https://%[2]s', tokenFile: %[3]s, caFile: %[4]s}\n", dir, s.address, file, cert))
	}
	edit(t, f, "provision.yaml", "talos:\n", fmt.Sprintf("admin: {listen: '%s', certFile: %s, keyFile: %s, tokenFile: %s, readTokenFile: %s}\ntalos:\n",
		s.address, cert, key, filepath.Join(dir, "admin.token"), filepath.Join(dir, "reader.token")))
	s.daemon = startDaemon(t, f)
	return s
}

// selfSigned writes a certificate for an address, and its key.
func selfSigned(t *testing.T, dir, host string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "provision"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(host)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeFile(t, certFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	writeFile(t, keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})))
	return certFile, keyFile
}

// Everything that goes through the socket goes from another host too, with a token.
func TestTheDaemonIsUsedFromAnotherHost(t *testing.T) {
	t.Parallel()
	s := newRemoteSite(t, startFleet(t, fleet.Config{Nodes: 2}))
	as := func(config string, args ...string) result { return provision(t, append(args, "--config", config)...) }

	as(s.admin, "plan", "--cluster", "demo").says(t, exitDone, "2 to install")
	as(s.admin, "plan", "--cluster", "nobody").says(t, exitUsage, "nobody")
	as(s.admin, "hold", "node-[02]", "--cluster", "demo", "--reason", "a disk is changed").says(t, exitDone, "node-02 is held")
	as(s.admin, "hold", "node-09", "--cluster", "demo", "--reason", "none").says(t, exitUsage, "no node node-09 in cluster demo")
	as(s.reader, "hold").says(t, exitDone, "a disk is changed", "token")
	as(s.admin, "stop", "--cluster", "demo").says(t, exitUsage, "no run of demo")

	r := as(s.admin, "--cluster", "demo", "--yes", "-o", "json")
	want := map[string]string{"node-01": "Maintenance", "node-02": "Held"}
	if diff := cmp.Diff(want, states(lastEvents(t, r.out))); diff != "" || r.status != exitRefused {
		t.Errorf("status %d, states (-want +got):\n%s%s", r.status, diff, r.err)
	}
	as(s.admin, "release", "node-02", "--cluster", "demo").says(t, exitDone, "node-02 is released")

	r = as(s.reader, "status", "--cluster", "demo", "-o", "json")
	var nodes []store.Node
	if err := json.Unmarshal([]byte(r.out), &nodes); err != nil || len(nodes) != 2 || nodes[0].State != "Maintenance" {
		t.Errorf("status: %v\n%s%s", err, r.out, r.err)
	}
	as(s.reader, "status", "--unknown").says(t, exitDone, "no unknown machine")
	if diff := cmp.Diff(want, states(lastEvents(t, as(s.reader, "events", "--cluster", "demo", "-o", "json").out))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}

	// Who may only look may not act, and who is nobody sees nothing.
	for _, args := range [][]string{
		{"--cluster", "demo", "--yes"}, {"hold", "node-01", "--cluster", "demo", "--reason", "none"},
		{"release", "node-01", "--cluster", "demo"}, {"stop", "--cluster", "demo"},
	} {
		if r := as(s.reader, args...); r.status != exitFailed || !strings.Contains(r.err, "may") {
			t.Errorf("%v with the reading token: status %d, %s", args, r.status, r.err)
		}
	}
	for _, args := range [][]string{{"status"}, {"events"}, {"plan", "--cluster", "demo"}} {
		if r := as(s.wrong, args...); r.status != exitFailed || !strings.Contains(r.err, "token") || r.out != "" {
			t.Errorf("%v with a wrong token: status %d, %s", args, r.status, r.err)
		}
	}
	untouched(t, s.fleet.Machines()[1])

	// A token that is taken away counts no more after a reload.
	writeFile(t, filepath.Join(filepath.Dir(s.reader), "reader.token"), "another-reading-token-0123456789\n")
	s.daemon.reload()
	as(s.reader, "status").says(t, exitDone, "node-01") // its client reads the new one
	writeFile(t, filepath.Join(filepath.Dir(s.reader), "reader.token"), readingToken+"\n")
	as(s.reader, "status").says(t, exitFailed, "token")
}
