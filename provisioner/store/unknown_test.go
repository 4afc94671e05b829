package store_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/store"
)

func TestAnUnknownMachineIsKeptOnceWithHowOftenItAsked(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "state.db"))
	defer func() { _ = s.Close() }()
	first := store.Unknown{Seen: time.Unix(1700000000, 0).UTC(), Source: "10.0.0.9", Facts: identity.Facts{Serial: "S1"}, Reason: "nobody"}
	again := first
	again.Seen = first.Seen.Add(time.Minute)
	for _, m := range []store.Unknown{first, again} {
		if err := s.RecordUnknown(m); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.UnknownMachines()
	if err != nil {
		t.Fatal(err)
	}
	again.Times = 2
	if diff := cmp.Diff([]store.Unknown{again}, got); diff != "" {
		t.Error(diff)
	}
}

// Anybody in the boot network can make up serials: what is kept of them is bounded.
func TestMadeUpMachinesDoNotFillTheState(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "state.db"))
	defer func() { _ = s.Close() }()
	const sent, most = 1100, 1000
	done := make(chan error, sent)
	for i := range sent {
		go func() { done <- s.RecordUnknown(store.Unknown{Facts: identity.Facts{Serial: fmt.Sprint("S", i)}}) }()
	}
	for range sent {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.UnknownMachines(); err != nil || len(got) != most {
		t.Errorf("%d machines are kept (%v), want %d", len(got), err, most)
	}
}
