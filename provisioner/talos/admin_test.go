package talos_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/siderolabs/crypto/x509"
	machinetype "github.com/siderolabs/talos/pkg/machinery/config/machine"
	"github.com/siderolabs/talos/pkg/machinery/constants"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/talos"
)

func TestInspectReadsARunningNode(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	f := &fake{ca: ca, machine: &member{version: "v1.13.9", etcd: "Running"}, resources: clusterMachine(machinetype.TypeControlPlane)}
	got := adminOf(t, ca, f.start(t)).Inspect(t.Context(), "127.0.0.1")
	want := talos.Running{
		Host: "127.0.0.1", State: talos.Configured, Reached: true,
		Facts:   identity.Facts{Serial: "S-1", UUID: uuid, MACs: []string{"52:54:00:00:00:01"}},
		Version: "v1.13.9", Stage: "running", Unmet: []string{"nodeReady: node is not ready"},
		Hostname: "node-01", Schematic: "376567", SystemDisk: "/dev/sda", Role: "controlplane", BootID: "0b1c-boot", Cmdline: cmdline,
		Kubernetes: talos.Node{Name: "node-01", Registered: true, Ready: true},
		Etcd:       talos.Etcd{Service: talos.Service{ID: "etcd", State: "Running", Message: "Running pre state"}},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateErrors()); diff != "" {
		t.Errorf("running (-want +got):\n%s", diff)
	}
	if got := f.accepted.Load(); got != 1 {
		t.Errorf("%d connections were made, want one", got)
	}
}

// A version that lacks a resource or a call is no failure.
func TestInspectOfANodeThatKnowsLittle(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	f := &fake{ca: ca, resources: clusterMachine(machinetype.TypeWorker)[:1]}
	got := adminOf(t, ca, f.start(t)).Inspect(t.Context(), "127.0.0.1")
	if !got.Reached || got.Err != nil || got.Stage != "running" {
		t.Errorf("running = %+v, want reached without an error", got)
	}
}

// siderolabs/talos#9241, #8442 and cozystack/talm#38: "certificate signed by
// unknown authority" may be a node without a config, or one of another cluster.
// #10185: a configured node is not a node in maintenance.
func TestIssue9241WhatIsBehindACertificateErrorIsTold(t *testing.T) {
	t.Parallel()
	ours, theirs := newCA(t), newCA(t)
	access := func(data []byte) *talos.Access {
		a, err := talos.ParseAccess(data, "")
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	later := time.Now().Add(time.Hour)
	good := access(talosconfig(t, ours, ours, later))
	tests := map[string]struct {
		node      *fake
		access    *talos.Access
		wantState talos.State
		wrongPKI  bool
		want      error
		text      string
	}{
		"maintenance":       {&fake{}, good, talos.Maintenance, true, talos.ErrInMaintenance, "belongs to no cluster yet"},
		"another cluster":   {&fake{ca: theirs}, good, talos.Configured, true, talos.ErrWrongPKI, "not of the cluster"},
		"foreign client":    {&fake{ca: ours}, access(talosconfig(t, ours, theirs, later)), talos.Configured, true, talos.ErrWrongPKI, "does not take the client certificate"},
		"no talosconfig":    {&fake{ca: ours}, nil, talos.Unreachable, false, nil, "no talosconfig was loaded"},
		"node's clock":      {&fake{ca: ours, tls: dated(t, ours, 2001)}, good, talos.Configured, false, nil, "set the clocks right"},
		"other address":     {&fake{ca: ours, tls: named(t, ours, net.IPv4(10, 9, 8, 7))}, good, talos.Configured, false, nil, "names [10.9.8.7] instead"},
		"no longer allowed": {&fake{ca: ours, tls: refuseAll}, good, talos.Configured, true, talos.ErrWrongPKI, "does not take"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.node.resources = clusterMachine(machinetype.TypeWorker)
			got := talos.Admin{Access: tt.access, Port: tt.node.start(t)}.Inspect(t.Context(), "127.0.0.1")
			if got.State != tt.wantState || got.WrongPKI != tt.wrongPKI || got.Reached || got.Err == nil {
				t.Fatalf("running = %+v", got)
			}
			if tt.want != nil && !errors.Is(got.Err, tt.want) || !strings.Contains(got.Err.Error(), tt.text) {
				t.Errorf("error = %v, want %v with %q", got.Err, tt.want, tt.text)
			}
		})
	}
}

func dated(t *testing.T, ca *x509.CertificateAuthority, year int) func(*tls.Config) {
	return reissued(t, ca, net.IPv4(127, 0, 0, 1), x509.NotBefore(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)), x509.NotAfter(time.Date(year+1, 1, 1, 0, 0, 0, 0, time.UTC)))
}

func named(t *testing.T, ca *x509.CertificateAuthority, ip net.IP) func(*tls.Config) {
	return reissued(t, ca, ip)
}

func reissued(t *testing.T, ca *x509.CertificateAuthority, ip net.IP, options ...x509.Option) func(*tls.Config) {
	t.Helper()
	pair, err := x509.NewKeyPair(ca, append(options, x509.CommonName("node-01"), x509.IPAddresses([]net.IP{ip}))...)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *tls.Config) { c.Certificates = []tls.Certificate{*pair.Certificate} }
}

func refuseAll(c *tls.Config) {
	c.VerifyConnection = func(tls.ConnectionState) error { return errors.New("no") }
}

// siderolabs/talos#10185: without a certificate a configured node says so, and
// with one a node in maintenance; neither is a broken network.
func TestIssue10185AConfiguredNodeIsNoMaintenanceNode(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	port := (&fake{ca: ca}).start(t)
	if o := (talos.Prober{Port: port}).Probe(t.Context(), "127.0.0.1"); o.State != talos.Configured || o.CertCN == constants.MaintenanceServiceCommonName {
		t.Errorf("observation = %+v, want configured", o)
	}
	if _, err := (talos.Prober{Port: port}).Disks(t.Context(), "127.0.0.1"); !errors.Is(err, talos.ErrNotInMaintenance) {
		t.Errorf("disks: %v, want ErrNotInMaintenance", err)
	}
}

func TestAnExpiredAccessIsNamedBeforeANodeIsAsked(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	// Certificates have whole seconds: this one is valid now, and not for long.
	access, err := talos.ParseAccess(talosconfig(t, ca, ca, time.Now().Add(2*time.Second)), "")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{ca: ca}
	admin := talos.Admin{Access: access, Port: f.start(t)}
	access.NotAfter = time.Now() // as if time had passed
	got := admin.Inspect(t.Context(), "127.0.0.1")
	if !errors.Is(got.Err, talos.ErrAccessExpired) || f.accepted.Load() != 0 {
		t.Errorf("running = %+v after %d connections, want ErrAccessExpired and none", got, f.accepted.Load())
	}
}

func TestEtcdCallsReadWhatEtcdSays(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	admin := adminOf(t, ca, (&fake{ca: ca, machine: &member{}}).start(t))
	members, err := admin.EtcdMembers(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	wantMembers := []talos.Member{
		{ID: 7, Hostname: "node-01", PeerURLs: []string{"https://10.0.0.1:2380"}, ClientURLs: []string{"https://10.0.0.1:2379"}},
		{ID: 8, Hostname: "node-02", Learner: true},
	}
	if diff := cmp.Diff(wantMembers, members); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	status, err := admin.EtcdStatus(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	wantStatus := talos.MemberStatus{MemberID: 7, Leader: 8, DBSize: 2000, DBInUse: 1000, RaftIndex: 30, RaftTerm: 2, RaftAppliedIndex: 29, Errors: []string{"x"}}
	if diff := cmp.Diff(wantStatus, status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	alarms, err := admin.EtcdAlarms(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]talos.Alarm{{MemberID: 7, Type: "NOSPACE"}}, alarms); diff != "" {
		t.Errorf("alarms (-want +got):\n%s", diff)
	}
	leader, err := admin.ForfeitLeadership(t.Context(), "127.0.0.1")
	if err != nil || leader != "node-02" {
		t.Errorf("forfeit = %q, %v, want node-02", leader, err)
	}
}

func TestServicesAreListed(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	admin := adminOf(t, ca, (&fake{ca: ca, machine: &member{etcd: "Preparing"}}).start(t))
	got, err := admin.Services(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	want := []talos.Service{
		{ID: "kubelet", State: "Running", Healthy: true, HealthKnown: true, Message: "Health check successful"},
		{ID: "etcd", State: "Preparing", Message: "Running pre state"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
}

func TestRebootUsesTheModeAndConfirmsTheMachine(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	node := &member{}
	admin := adminOf(t, ca, (&fake{ca: ca, machine: node, resources: clusterMachine(machinetype.TypeWorker)}).start(t))
	if err := admin.Reboot(t.Context(), "127.0.0.1", talos.RebootPowercycle); err != nil {
		t.Fatal(err)
	}
	admin.Confirm = func(f identity.Facts) error {
		if f.Serial == "S-1" {
			return nil
		}
		return errors.New("another machine")
	}
	if err := admin.Reboot(t.Context(), "127.0.0.1", talos.RebootDefault); err != nil {
		t.Fatal(err)
	}
	admin.Confirm = func(identity.Facts) error { return errors.New("another machine") }
	if err := admin.Reboot(t.Context(), "127.0.0.1", talos.RebootForce); !errors.Is(err, talos.ErrNotConfirmed) {
		t.Errorf("error = %v, want ErrNotConfirmed", err)
	}
	if diff := cmp.Diff([]string{"reboot POWERCYCLE", "reboot DEFAULT"}, node.seen()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestKubeconfigIsUnpacked(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	node := &member{}
	admin := adminOf(t, ca, (&fake{ca: ca, machine: node}).start(t))
	got, err := admin.Kubeconfig(t.Context(), "127.0.0.1")
	if err != nil || string(got) != "apiVersion: v1\nkind: Config\n" {
		t.Errorf("kubeconfig = %q, %v", got, err)
	}
	node.err = status.Error(codes.Unimplemented, "kubeconfig is only available on control plane nodes")
	if _, err := admin.Kubeconfig(t.Context(), "127.0.0.1"); !errors.Is(err, talos.ErrNotSupported) {
		t.Errorf("on a worker: %v, want ErrNotSupported", err)
	}
}

func TestACallEndsWithItsTimeout(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	access, err := talos.ParseAccess(talosconfig(t, ca, ca, time.Now().Add(time.Hour)), "")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	got := talos.Admin{Access: access, Port: silentListener(t), Timeout: 300 * time.Millisecond}.Inspect(t.Context(), "127.0.0.1")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the call took %v, want about its timeout", took)
	}
	if got.State != talos.Unreachable || !errors.Is(got.Err, context.DeadlineExceeded) {
		t.Errorf("running = %+v, want unreachable at its deadline", got)
	}
}
