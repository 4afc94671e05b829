package talos_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/siderolabs/crypto/x509"

	"github.com/talos-provision/provision/e2e/talosnode"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/talos"
)

const (
	uuid    = "11223344-5566-7788-99aa-bbccddeeff00"
	cmdline = "ip=10.0.0.7::10.0.0.1:255.255.255.0:node-01:eth0.4000::1.1.1.1::: talos.platform=metal"
)

func config(version string) talosnode.Config {
	return talosnode.Config{
		Address: "127.0.0.1:0", Version: version,
		UUID: uuid, Serial: "S-1", Manufacturer: "Acme", Product: "R1", Cmdline: cmdline,
		Links: []talosnode.Link{
			{Name: "eth1", MAC: "52:54:00:00:00:02"},
			{Name: "eth0", MAC: "52-54-00-00-00-01"},
			{Name: "eth0.4000", MAC: "52:54:00:00:00:01", Kind: "vlan"},
			{Name: "bond0", MAC: "52:54:00:00:00:09", Kind: "bond"},
		},
	}
}

func portOf(addr net.Addr) int { return addr.(*net.TCPAddr).Port }

type starter func(context.Context, talosnode.Config) (*talosnode.Node, error)

func startNode(t *testing.T, start starter, cfg talosnode.Config) *talosnode.Node {
	t.Helper()
	node, err := start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.Stop)
	return node
}

func TestProbeReadsANodeInMaintenanceOfEachVersion(t *testing.T) {
	t.Parallel()
	tests := []struct {
		version, wantVersion, wantCmdline string
	}{
		{"v1.9.5", "", ""}, // 1.9 tells its version to nobody
		{"v1.10.9", "v1.10.9", ""},
		{"v1.12.11", "v1.12.11", cmdline},
		{"v1.13.9", "v1.13.9", cmdline},
	}
	for _, tt := range tests {
		t.Run(tt.version, func(t *testing.T) {
			t.Parallel()
			node := startNode(t, talosnode.Start, config(tt.version))
			got := talos.Prober{Port: portOf(node.Addr())}.Probe(t.Context(), "127.0.0.1")
			want := talos.Observation{
				Host: "127.0.0.1", State: talos.Maintenance, Version: tt.wantVersion, Stage: "maintenance", Ready: true,
				Facts: identity.Facts{Serial: "S-1", UUID: uuid, MACs: []string{
					"52:54:00:00:00:01", "52:54:00:00:00:02", // I5: of physical links only
				}},
				CertCN: "maintenance-service.talos.dev", Cmdline: tt.wantCmdline,
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(talos.Observation{}, "Fingerprint"), cmpopts.EquateErrors()); diff != "" {
				t.Errorf("observation (-want +got):\n%s", diff)
			}
			if len(got.Fingerprint) != 44 { // base64 of 32 bytes
				t.Errorf("fingerprint = %q, want a base64 SHA-256", got.Fingerprint)
			}
			if !got.Up() {
				t.Error("Up() = false, want true")
			}
		})
	}
}

func TestProbeUsesPort50000ByDefault(t *testing.T) {
	t.Parallel()
	cfg := config("v1.13.9")
	cfg.Address = "127.77.0.1"
	startNode(t, talosnode.Start, cfg)
	if got := (talos.Prober{}).Probe(t.Context(), "127.77.0.1"); !got.Up() {
		t.Errorf("observation = %+v, want a node in maintenance", got)
	}
}

// I5: the machine behind an address is told by its facts, not by its address.
func TestProbeShowsTheFactsOfTheWrongMachine(t *testing.T) {
	t.Parallel()
	cfg := config("v1.13.9")
	cfg.UUID, cfg.Serial = "99999999-0000-0000-0000-000000000001", "S-2"
	cfg.Links = []talosnode.Link{{Name: "eth0", MAC: "52:54:00:00:00:77"}}
	node := startNode(t, talosnode.Start, cfg)
	got := talos.Prober{Port: portOf(node.Addr())}.Probe(t.Context(), "127.0.0.1")
	want := identity.Facts{Serial: "S-2", UUID: cfg.UUID, MACs: []string{"52:54:00:00:00:77"}}
	if diff := cmp.Diff(want, got.Facts); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
}

// I2: a configured node is seen as one, whatever its version.
func TestProbeTellsAConfiguredNode(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1.9.5", "v1.12.11", "v1.13.9"} {
		node := startNode(t, talosnode.StartConfigured, config(version))
		got := talos.Prober{Port: portOf(node.Addr())}.Probe(t.Context(), "127.0.0.1")
		if got.State != talos.Configured || got.Err != nil || got.Up() {
			t.Errorf("%s: observation = %+v, want configured without an error", version, got)
		}
	}
}

func TestProbeSaysWhatItSawInsteadOfANode(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		start func(*testing.T) int // the port
		want  string
	}{
		{"closed port", closedPort, "refused: the node is still booting or installing"},
		{"listener that never answers", silentListener, "accepts connections but says nothing"},
		{"listener that hangs up", hangUp, "hung up during the TLS handshake"},
		{"server without TLS", plainHTTP, "speaks no TLS: this is not Talos"},
		{"TLS server that is something else", otherTLS(tls.VersionTLS13), "asks for no client certificate: this is not Talos"},
		{"TLS server too old for Talos", otherTLS(tls.VersionTLS12), "this is not Talos"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			const timeout = 700 * time.Millisecond
			began := time.Now()
			got := talos.Prober{Port: tt.start(t), Timeout: timeout}.Probe(t.Context(), "127.0.0.1")
			if took := time.Since(began); took > timeout+2*time.Second {
				t.Errorf("the probe took %v, want at most its timeout", took)
			}
			if got.State != talos.Unreachable || got.Err == nil {
				t.Fatalf("observation = %+v, want unreachable with an error", got)
			}
			if !strings.Contains(got.Err.Error(), tt.want) {
				t.Errorf("error = %q, want it to contain %q", got.Err, tt.want)
			}
		})
	}
}

func TestProbeOfAClosedPortKeepsTheCause(t *testing.T) {
	t.Parallel()
	got := talos.Prober{Port: closedPort(t)}.Probe(t.Context(), "127.0.0.1")
	if !errors.Is(got.Err, syscall.ECONNREFUSED) {
		t.Errorf("error = %v, want it to wrap ECONNREFUSED", got.Err)
	}
}

func TestProbeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	port := silentListener(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan talos.Observation, 1)
	go func() { done <- talos.Prober{Port: port, Timeout: time.Hour}.Probe(ctx, "127.0.0.1") }()
	cancel()
	select {
	case got := <-done:
		if !errors.Is(got.Err, context.Canceled) {
			t.Errorf("error = %v, want context.Canceled", got.Err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the probe outlived its context")
	}
}

func TestProbeOfAStoppedNodeIsRefused(t *testing.T) {
	t.Parallel()
	node := startNode(t, talosnode.Start, config("v1.13.9"))
	prober := talos.Prober{Port: portOf(node.Addr())}
	if got := prober.Probe(t.Context(), "127.0.0.1"); !got.Up() {
		t.Fatalf("observation = %+v, want up", got)
	}
	node.Stop()
	if got := prober.Probe(t.Context(), "127.0.0.1"); got.State != talos.Unreachable {
		t.Errorf("observation = %+v, want unreachable", got)
	}
}

// A node that hangs after the handshake is still told from a configured one,
// but it is not up (I5), and the probe ends in time.
func TestProbeOfAMaintenanceServiceThatHangs(t *testing.T) {
	t.Parallel()
	ca, err := x509.NewSelfSignedCertificateAuthority()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := x509.NewKeyPair(ca, x509.CommonName("maintenance-service.talos.dev"))
	if err != nil {
		t.Fatal(err)
	}
	l := tls.NewListener(listen(t), &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{*pair.Certificate}})
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
	}()
	began := time.Now()
	got := talos.Prober{Port: portOf(l.Addr()), Timeout: time.Second}.Probe(t.Context(), "127.0.0.1")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the probe took %v, want about its timeout of 1 s", took)
	}
	if got.State != talos.Maintenance || got.Up() || got.Err == nil || !strings.Contains(got.Err.Error(), "does not tell its status") {
		t.Errorf("observation = %+v, want maintenance with an error", got)
	}
}

func closedPort(t *testing.T) int {
	t.Helper()
	l := listen(t)
	port := portOf(l.Addr())
	_ = l.Close()
	return port
}

func silentListener(t *testing.T) int { return portOf(listen(t).Addr()) } // the kernel accepts

func hangUp(t *testing.T) int {
	l := listen(t)
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			_ = conn.Close()
		}
	}()
	return portOf(l.Addr())
}

func plainHTTP(t *testing.T) int {
	s := httptest.NewServer(nil)
	t.Cleanup(s.Close)
	return portOf(s.Listener.Addr())
}

func otherTLS(version uint16) func(*testing.T) int {
	return func(t *testing.T) int {
		s := httptest.NewUnstartedServer(nil)
		s.Config.ErrorLog = nil
		s.EnableHTTP2 = true
		s.TLS = &tls.Config{MinVersion: version, MaxVersion: version}
		s.StartTLS()
		t.Cleanup(s.Close)
		return portOf(s.Listener.Addr())
	}
}

func listen(t *testing.T) net.Listener { return listenAt(t, "127.0.0.1:0") }

func listenAt(t *testing.T, address string) net.Listener {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}
