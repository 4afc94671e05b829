package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/store/storetest"
)

// A new session has not the rights of the one before, however soon it begins: what
// still runs on those may do nothing.
func TestANewSessionHasNotTheRightsOfTheOneBefore(t *testing.T) {
	t.Parallel()
	endpoint, _ := storetest.StartEtcd(t)
	location := "etcd://" + endpoint + "/rights"
	s := connect(t, location, store.Options{TTL: 2 * time.Second})
	claim, err := s.Claim(t.Context(), []string{"a/n1"}, "run r1")
	if err != nil {
		t.Fatal(err)
	}
	leadership, err := s.Lead(t.Context(), "north")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.MayWork("a/n1"), s.MayWork("a/n2"), s.MayServe("north")); err != nil {
		t.Fatal(err)
	}
	if err := s.MayServe("south"); !errors.Is(err, store.ErrFenced) {
		t.Errorf("a site that is not led: %v, want ErrFenced", err)
	}

	revoke(t, location, "leaders")
	<-claim.Lost()
	<-leadership.Lost()
	for deadline := time.Now().Add(30 * time.Second); s.Alive() != nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no new session")
		}
		if err := s.MayWork("a/n1"); err == nil {
			t.Fatal("without a session the node may be worked on")
		}
	}
	if err := s.MayWork("a/n1"); !errors.Is(err, store.ErrFenced) {
		t.Errorf("the node whose claim was lost: %v, want ErrFenced", err)
	}
	if err := s.MayServe("north"); !errors.Is(err, store.ErrFenced) {
		t.Errorf("the site whose leadership was lost: %v, want ErrFenced", err)
	}
	if err := s.MayWork("a/n2"); err != nil {
		t.Errorf("a node that nobody claimed: %v", err)
	}
	if err := claim.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), []string{"a/n1"}, "run r1"); err != nil {
		t.Fatal(err)
	}
	if err := s.MayWork("a/n1"); err != nil {
		t.Errorf("the node that was claimed anew: %v", err)
	}
}

// In a file nobody else has a right.
func TestInAFileNoRightIsLost(t *testing.T) {
	t.Parallel()
	s := connect(t, t.TempDir()+"/state.db", store.Options{})
	if err := errors.Join(s.MayWork("a/n1"), s.MayServe("north")); err != nil {
		t.Error(err)
	}
}
