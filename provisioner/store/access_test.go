package store_test

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/store/storetest"
)

// works does something of every kind that needs etcd's leave.
func works(t *testing.T, s *store.Store) {
	t.Helper()
	claim, err := s.Claim(t.Context(), []string{"a/n1"}, "run")
	if err != nil {
		t.Fatal(err)
	}
	leads, err := s.Lead(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		s.Record(store.Node{Cluster: "a", Name: "n1"}, store.Event{}),
		s.Events(func(store.Event) bool { return true }),
		claim.Release(t.Context()), leads.Resign(t.Context()), s.Alive(),
	)
	if err != nil {
		t.Error(err)
	}
}

func TestEtcdWithClientCertificates(t *testing.T) {
	t.Parallel()
	endpoint, etcd := storetest.StartEtcd(t, storetest.TLS())
	_, other := storetest.StartEtcd(t, storetest.TLS())
	c := etcd.Certificates
	good := store.Options{CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile, Timeout: 10 * time.Second}
	works(t, connect(t, "etcd+tls://"+endpoint, good))
	works(t, connect(t, "etcd://"+endpoint+"/second", good)) // the files ask for TLS as well
	quick := time.Second
	for name, o := range map[string]store.Options{
		"no client certificate":   {CAFile: c.CAFile, Timeout: quick},
		"an unknown authority":    {CertFile: c.CertFile, KeyFile: c.KeyFile, Timeout: quick},
		"another's certificate":   {CAFile: c.CAFile, CertFile: other.Certificates.CertFile, KeyFile: other.Certificates.KeyFile, Timeout: quick},
		"a certificate alone":     {CAFile: c.CAFile, CertFile: c.CertFile, Timeout: quick},
		"a file that is missing":  {CAFile: filepath.Join(t.TempDir(), "ca.pem"), Timeout: quick},
		"a key as the authority":  {CAFile: c.KeyFile, Timeout: quick},
		"a key that does not fit": {CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: other.Certificates.KeyFile, Timeout: quick},
	} {
		if s, err := store.Connect(t.Context(), "etcd+tls://"+endpoint, o); err == nil {
			t.Errorf("%s: connected", name)
			_ = s.Close()
		}
	}
	if _, err := store.Connect(t.Context(), "etcd://"+endpoint, store.Options{Timeout: quick}); err == nil {
		t.Error("in the clear: connected")
	}
}

// I9: the password opens etcd and is nowhere else: not in an error, not in the log,
// not in the state.
func TestI9EtcdWithUserAndPassword(t *testing.T) {
	t.Parallel()
	const password = "canary-password"
	endpoint, _ := storetest.StartEtcd(t)
	admin := storetest.Client(t, endpoint)
	end := clientv3.GetPrefixRangeEnd("fleet/")
	_, err1 := admin.RoleAdd(t.Context(), "fleet")
	_, err2 := admin.RoleGrantPermission(t.Context(), "fleet", "fleet/", end, clientv3.PermissionType(clientv3.PermReadWrite))
	_, err3 := admin.UserAdd(t.Context(), "provision", password)
	_, err4 := admin.UserGrantRole(t.Context(), "provision", "fleet")
	_, err5 := admin.UserAdd(t.Context(), "root", "root-"+password)
	_, err6 := admin.UserGrantRole(t.Context(), "root", "root")
	_, err7 := admin.AuthEnable(t.Context())
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	o := store.Options{Username: "provision", Password: password, TTL: 2 * time.Second, Timeout: 10 * time.Second, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	s, err := store.Connect(t.Context(), "etcd://"+endpoint+"/fleet", o)
	if err != nil {
		t.Fatal(err)
	}
	works(t, s)
	var refused strings.Builder
	for name, tc := range map[string]struct {
		prefix string
		change func(*store.Options)
		want   string
	}{
		"a wrong password": {"fleet", func(o *store.Options) { o.Password += "!" }, "check the user"},
		"no user":          {"fleet", func(o *store.Options) { o.Username, o.Password = "", "" }, "check the user"},
		"another prefix":   {"other", func(*store.Options) {}, "check the user"},
	} {
		o := o
		tc.change(&o)
		_, err := store.Connect(t.Context(), "etcd://"+endpoint+"/"+tc.prefix, o)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
		if err != nil {
			refused.WriteString(err.Error())
		}
	}
	if err := s.Close(); err != nil { // the log is written no more
		t.Fatal(err)
	}
	if told := refused.String() + log.String(); strings.Contains(told, password) {
		t.Errorf("the password is told: %s", told)
	}
	var state bytes.Buffer
	again, err := store.Connect(t.Context(), "etcd://"+endpoint+"/fleet", o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if err := again.Backup(&state); err != nil || bytes.Contains(state.Bytes(), []byte(password)) {
		t.Errorf("error %v, or the password is in the state", err)
	}
}

// What a test finds in a dump is what is there: with it tests look for secrets.
func TestADumpHoldsWhatIsInTheState(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		s := connect(t, location, store.Options{})
		if err := s.SetHold(store.Hold{Cluster: "a", Node: "n1", Reason: "canary-reason"}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		dump := storetest.Dump(t, location)
		if !bytes.Contains(dump, []byte("canary-reason")) || bytes.Contains(dump, []byte("another-canary")) {
			t.Errorf("a dump of %d bytes does not hold what was written", len(dump))
		}
	})
}
