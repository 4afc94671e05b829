package store_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/store/storetest"
)

func TestTheLastBootOfANodeIsKept(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		s := connect(t, location, store.Options{})
		last := store.Boot{
			Cluster: "a", Node: "n1", Time: at(2), Source: "10.0.0.9", Facts: identity.Facts{Serial: "S1"}, Arch: "amd64", Platform: "efi",
			NICs: []string{"02:00:00:00:00:01"}, Kind: "install", Reason: "it is armed", Script: "#!ipxe\nboot\n",
		}
		for _, b := range []store.Boot{{Cluster: "a", Node: "n1", Kind: "local boot"}, last, {Cluster: "ab", Node: "n1", Kind: "local boot"}} {
			if err := s.RecordBoot(b); err != nil {
				t.Fatal(err)
			}
		}
		s = reopen(t, s, location)
		got, found, err := s.Boot("a", "n1")
		if diff := cmp.Diff(last, got); diff != "" || !found || err != nil {
			t.Errorf("found %v, error %v, %s", found, err, diff)
		}
		if _, found, err := s.Boot("a", "n2"); found || err != nil {
			t.Errorf("a node that never booted: found %v, error %v", found, err)
		}
	})
}

func TestATimelineHasTheNewestEventsOfOneNode(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		s := connect(t, location, store.Options{})
		// Names that begin or end alike, and a message that looks like a node's field.
		for i, n := range []struct{ cluster, name, message string }{
			{"a", "n1", ""}, {"a", "n11", ""}, {"ab", "n1", ""}, {"a", "n2", `"node":"n1"`}, {"a", "n1", ""}, {"a", "n1", ""}, {"a", "an1", ""},
		} {
			event := store.Event{Cluster: n.cluster, Node: n.name, Message: fmt.Sprint(i, n.message)}
			if err := s.Record(store.Node{Cluster: n.cluster, Name: n.name}, event); err != nil {
				t.Fatal(err)
			}
		}
		for most, want := range map[int][]string{0: nil, 1: {"6 5"}, 2: {"5 4", "6 5"}, 100: {"1 0", "5 4", "6 5"}} {
			var got []string
			err := s.Timeline("a", "n1", most, func(seq uint64, e store.Event) { got = append(got, fmt.Sprint(seq, " ", e.Message)) })
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("the newest %d: error %v, %s", most, err, diff)
			}
		}
	})
}

func TestAStateOfSchemaTwoTakesBoots(t *testing.T) {
	t.Parallel()
	boots := func(t *testing.T, location string) {
		t.Helper()
		s := connect(t, location, store.Options{})
		if err := s.RecordBoot(store.Boot{Cluster: "a", Node: "n1", Kind: "install"}); err != nil {
			t.Fatal(err)
		}
		if n, found, err := s.Node("a", "n1"); !found || err != nil || n.State != "Ready" {
			t.Errorf("node %+v, found %v, error %v", n, found, err)
		}
		if report, err := s.Check(); err != nil || report.Schema != store.SchemaVersion || len(report.Problems) > 0 {
			t.Errorf("report %+v, error %v", report, err)
		}
	}
	ready := func(t *testing.T, location string) {
		t.Helper()
		s := connect(t, location, store.Options{})
		if err := s.Record(store.Node{Cluster: "a", Name: "n1", State: "Ready"}, store.Event{Cluster: "a", Node: "n1"}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("bbolt", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "state.db")
		ready(t, path)
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(tx *bbolt.Tx) error {
			if err := tx.DeleteBucket([]byte("boots")); err != nil {
				return err
			}
			return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte("2"))
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		old := connect(t, path, store.Options{ReadOnly: true})
		if _, found, err := old.Boot("a", "n1"); found || err != nil {
			t.Errorf("before the migration: found %v, error %v", found, err)
		}
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
		boots(t, path)
	})
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		location := etcdLocation(t)
		ready(t, location)
		endpoint, prefix := etcdParts(location)
		if _, err := storetest.Client(t, endpoint).Put(t.Context(), prefix+"/meta/schema", "2"); err != nil {
			t.Fatal(err)
		}
		boots(t, location)
	})
}
