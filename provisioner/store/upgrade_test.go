package store_test

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/talos-provision/provision/provisioner/store"
)

// upgradeRecord has the fields of a record that the store itself reads.
type upgradeRecord struct {
	Cluster string    `json:"cluster"`
	Node    string    `json:"node"`
	Run     string    `json:"run"`
	Host    string    `json:"host"`
	State   string    `json:"state"`
	Since   time.Time `json:"since"`
	Message string    `json:"message"`
}

func TestUpgradesAreKeptAlsoInAStateOfAnOlderProgram(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	s := open(t, path) // makes the buckets that older programs knew
	var run struct{ ID string }
	if found, err := s.UpgradeRun("a", &run); found || err != nil {
		t.Errorf("in a new state: found %v, error %v", found, err)
	}
	if err := s.UpgradeRecords("", func([]byte) error { t.Error("a record in a new state"); return nil }); err != nil {
		t.Error(err)
	}
	if err := s.SaveUpgradeRun("a", struct{ ID string }{"r1"}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []upgradeRecord{{Cluster: "a", Node: "n1", State: "Gated"}, {Cluster: "ab", Node: "n1"}, {Cluster: "a", Node: "n1", State: "Upgraded"}, {Cluster: "a", Node: "n2"}} {
		if err := s.RecordUpgrade(r.Cluster, r.Node, r, store.Event{Cluster: r.Cluster, Node: r.Node, State: r.State}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s, err := store.OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if found, err := s.UpgradeRun("a", &run); !found || err != nil || run.ID != "r1" {
		t.Errorf("run %+v, found %v, error %v", run, found, err)
	}
	var got []string
	err = s.UpgradeRecords("a", func(raw []byte) error {
		var r upgradeRecord
		err := json.Unmarshal(raw, &r)
		got = append(got, r.Cluster+"/"+r.Node+" "+r.State)
		return err
	})
	if diff := cmp.Diff([]string{"a/n1 Upgraded", "a/n2 "}, got); diff != "" || err != nil {
		t.Errorf("records (-want +got):\n%s%v", diff, err)
	}
	events := 0
	if err := s.Events(func(store.Event) bool { events++; return true }); err != nil || events != 4 {
		t.Errorf("%d events, error %v; want one for each record", events, err)
	}
}

// The status of a node is that of the run that changed it last, of whichever kind.
func TestStatusShowsWhatHappenedLast(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "state.db"))
	defer func() { _ = s.Close() }()
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	for _, n := range []store.Node{
		{Cluster: "a", Name: "n2", State: "Ready", Since: at(1), Attempts: 1},
		{Cluster: "a", Name: "n3", State: "Ready", Since: at(9)},
		{Cluster: "b", Name: "n1", State: "Ready", Since: at(1)},
	} {
		if err := s.Record(n, store.Event{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range []string{"n1", "n2", "n3"} {
		r := upgradeRecord{Cluster: "a", Node: node, Run: "u1", Host: "10.0.0.1", State: "Rebooting", Since: at(5), Message: "waits"}
		if err := s.RecordUpgrade("a", node, r, store.Event{}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Status("a")
	if err != nil {
		t.Fatal(err)
	}
	want := []store.Node{
		{Cluster: "a", Name: "n1", Run: "u1", State: "Rebooting", Since: at(5), Message: "waits", Address: "10.0.0.1"},
		{Cluster: "a", Name: "n2", Run: "u1", State: "Rebooting", Since: at(5), Message: "waits", Address: "10.0.0.1", Attempts: 1},
		{Cluster: "a", Name: "n3", State: "Ready", Since: at(9)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if all, err := s.Status(""); err != nil || len(all) != 4 {
		t.Errorf("%d nodes of all clusters, error %v; want 4", len(all), err)
	}
}

// A power cycle for another reason than an installation counts too (I7).
func TestPoweredOnIsKeptForNodesThatAreKnown(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "state.db"))
	defer func() { _ = s.Close() }()
	if err := s.Record(store.Node{Cluster: "a", Name: "n1", State: "Ready"}, store.Event{}); err != nil {
		t.Fatal(err)
	}
	when := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range []string{"n1", "n2"} {
		if err := s.PoweredOn("a", name, when); err != nil {
			t.Fatal(err)
		}
	}
	if n, _, err := s.Node("a", "n1"); err != nil || !n.LastPowerOn.Equal(when) || n.State != "Ready" {
		t.Errorf("n1: %+v, error %v", n, err)
	}
	if _, found, _ := s.Node("a", "n2"); found {
		t.Error("a record was made of a node that was never installed")
	}
}

// A record that is no JSON is told, and not skipped: it may be the one that matters.
func TestATornUpgradeRecordIsAnError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range []string{"upgrade-runs", "upgrade-nodes"} {
			bucket, err := tx.CreateBucket([]byte(name))
			if err == nil {
				err = bucket.Put([]byte("a"), []byte("{torn"))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	defer func() { _ = s.Close() }()
	if _, err := s.UpgradeRun("a", new(struct{})); err == nil {
		t.Error("a torn run was read")
	}
	if _, err := s.Status(""); err == nil {
		t.Error("a torn record was read")
	}
}
