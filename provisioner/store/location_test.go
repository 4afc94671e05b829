package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
)

func TestLocationsOfEtcdAreTakenOrRefusedWithAWayOut(t *testing.T) {
	t.Parallel()
	for location, want := range map[string]string{
		"etcd://":                        "give etcd://host:port",
		"etcd://host":                    "give etcd://host:port",
		"etcd://host:2379,":              "give etcd://host:port",
		"etcd://host:0/x":                "is no host:port",
		"etcd://:2379":                   "is no host:port",
		"etcd://host:99999":              "is no host:port",
		"etcd://user:canary@host:2379":   "PROVISION_ETCD_PASSWORD",
		"etcd://host:2379/x?pass=canary": "PROVISION_ETCD_PASSWORD",
		"etcd://host:2379/a\x00b":        "control character",
	} {
		_, err := store.Connect(t.Context(), location, store.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", location, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the error tells the password (I9): %v", location, err)
		}
	}
	for location, want := range map[string]bool{"etcd://h:1": true, "etcd+tls://h:1": true, "state.db": false, "/etcd": false, "./etcd:": false} {
		if store.IsEtcd(location) != want {
			t.Errorf("IsEtcd(%q) is %v", location, !want)
		}
	}
}

func TestAnEtcdThatDoesNotAnswerIsToldInTime(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	_, err := store.Connect(t.Context(), "etcd://127.0.0.1:1", store.Options{Timeout: 500 * time.Millisecond, Username: "root", Password: "canary"})
	if !errors.Is(err, store.ErrOutOfReach) || strings.Contains(err.Error(), "canary") {
		t.Errorf("error %v, want ErrOutOfReach without the password (I9)", err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Connect(ctx, "etcd://127.0.0.1:1", store.Options{}); err == nil {
		t.Error("connected although the caller gave up")
	}
}

// Without a prefix the state is under provision/, and other prefixes are other states.
func TestPrefixesKeepStatesApart(t *testing.T) {
	t.Parallel()
	location := etcdLocation(t)
	one := connect(t, location, store.Options{})
	two := connect(t, etcdLocation(t), store.Options{})
	if err := one.SetHold(store.Hold{Cluster: "a", Node: "n1"}); err != nil {
		t.Fatal(err)
	}
	if holds, err := two.Holds(); err != nil || len(holds) > 0 {
		t.Errorf("holds %v, error %v", holds, err)
	}
	base := location[:strings.LastIndex(location, "/")]
	if byDefault := connect(t, base, store.Options{}); byDefault.Location() != base+"/provision" {
		t.Errorf("the default location is %s", byDefault.Location())
	}
}

func TestAStateThatWasOpenedToBeReadIsNotWritten(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		if _, err := store.Connect(t.Context(), location, store.Options{ReadOnly: true}); !errors.Is(err, store.ErrNoState) {
			t.Errorf("error %v, want ErrNoState", err)
		}
		s := connect(t, location, store.Options{})
		s = reopen(t, s, location)
		if err := s.SetHold(store.Hold{Cluster: "a", Node: "n1"}); err == nil {
			t.Error("a hold was set")
		}
		if err := s.Alive(); err != nil {
			t.Error(err)
		}
	})
}
