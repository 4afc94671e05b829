package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/store/storetest"
)

// fill writes something of every kind.
func fill(t *testing.T, s *store.Store) {
	t.Helper()
	for i := range 210 { // more than etcd takes at once
		n := store.Node{Cluster: "a", Name: fmt.Sprint("n", i), State: "Ready"}
		if i == 0 {
			n.Message = "the first"
		}
		if err := s.Record(n, store.Event{Cluster: "a", Node: n.Name}); err != nil {
			t.Fatal(err)
		}
	}
	_, errPrune := s.PruneEvents(10)
	_, _, errRun := s.BeginRun(store.Run{ID: "r1", Cluster: "a", Site: "east"})
	err := errors.Join(errPrune, errRun,
		s.SetHold(store.Hold{Cluster: "a", Node: "n1", Reason: "fan"}),
		s.SetMarks(map[string]string{"a/n1": "m1"}),
		s.SaveLeases([]store.Lease{{Site: "east", IP: netip.MustParseAddr("10.0.0.1"), MAC: "02:00:00:00:00:01", Expires: at(5)}}),
		s.RecordBoot(store.Boot{Cluster: "a", Node: "n1", Kind: "install"}),
		s.RecordUnknown(store.Unknown{Facts: identity.Facts{Serial: "S1"}}),
		s.SaveUpgradeRun("a", map[string]string{"ID": "u1"}),
		s.RecordUpgrade("a", "n1", upgradeRecord{Cluster: "a", Node: "n1"}, store.Event{Node: "upgraded"}),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// everything is what a state holds, as its users see it.
func everything(t *testing.T, s *store.Store) map[string]any {
	t.Helper()
	var events []string
	var upgrade map[string]string
	var upgraded []string
	errEvents := s.EventsAfter(0, func(seq uint64, e store.Event) bool {
		events = append(events, fmt.Sprint(seq, " ", e.Node))
		return true
	})
	nodes, errNodes := s.Nodes("")
	runs, errRuns := s.Runs()
	holds, errHolds := s.Holds()
	marks, errMarks := s.Marks()
	leases, errLeases := s.Leases()
	unknown, errUnknown := s.UnknownMachines()
	_, errUpgrade := s.UpgradeRun("a", &upgrade)
	errRecords := s.UpgradeRecords("", func(raw []byte) error { upgraded = append(upgraded, string(raw)); return nil })
	if err := errors.Join(errEvents, errNodes, errRuns, errHolds, errMarks, errLeases, errUnknown, errUpgrade, errRecords); err != nil {
		t.Fatal(err)
	}
	return map[string]any{
		"events": events, "nodes": nodes, "runs": runs, "holds": holds, "marks": marks, "leases": fmt.Sprint(leases),
		"unknown": unknown, "upgrade": upgrade, "upgraded": upgraded,
	}
}

func TestABackupIsRestoredFromEitherIntoEither(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		s := connect(t, location, store.Options{})
		fill(t, s)
		if _, err := s.Claim(t.Context(), []string{"a/n1"}, "run"); err != nil {
			t.Fatal(err)
		}
		var backup bytes.Buffer
		if err := s.Backup(&backup); err != nil {
			t.Fatal(err)
		}
		want := everything(t, s)
		for _, target := range []string{filepath.Join(t.TempDir(), "new", "state.db"), etcdLocation(t)} {
			if err := store.Restore(t.Context(), bytes.NewReader(backup.Bytes()), target, store.Options{}); err != nil {
				t.Fatal(err)
			}
			restored := connect(t, target, store.Options{})
			if diff := cmp.Diff(want, everything(t, restored)); diff != "" {
				t.Errorf("restored into %s: %s", target, diff)
			}
			if holders, err := restored.Holders(); err != nil || len(holders) > 0 {
				t.Errorf("holders %v, error %v; a right is no part of a backup", holders, err)
			}
			report, err := restored.Check()
			if err != nil || len(report.Problems) > 0 || report.LastEvent != 211 || len(report.UnfinishedRuns) != 1 {
				t.Errorf("report %+v, error %v", report, err)
			}
			if err := restored.Record(store.Node{Cluster: "b", Name: "n"}, store.Event{Node: "next"}); err != nil {
				t.Fatal(err)
			}
			seen := false
			if err := restored.EventsAfter(211, func(seq uint64, e store.Event) bool { seen = seq == 212 && e.Node == "next"; return true }); err != nil || !seen {
				t.Errorf("the next event follows the last: %v, error %v", seen, err)
			}
			// There is a state now: another restore would forget what it knows (I6).
			err = store.Restore(t.Context(), bytes.NewReader(backup.Bytes()), target, store.Options{})
			if !errors.Is(err, store.ErrTaken) {
				t.Errorf("restored over a state: error %v, want ErrTaken", err)
			}
		}
	})
}

// A node's record and its newest event are written together: in a backup they are
// together too, whatever is written meanwhile.
func TestABackupOfAStateInUseIsOfOneMoment(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		s := connect(t, location, store.Options{})
		const workers = 4
		var writing atomic.Bool
		writing.Store(true)
		begun, wrote := make(chan struct{}, workers), make(chan error, workers)
		for worker := range workers {
			go func() {
				var err error
				for i := 0; writing.Load() && err == nil; i++ {
					n := store.Node{Cluster: "a", Name: fmt.Sprint(worker), Message: fmt.Sprint(i)}
					err = s.Record(n, store.Event{Node: n.Name, Message: n.Message})
					if i == 100 {
						begun <- struct{}{}
					}
				}
				wrote <- err
			}()
		}
		for range workers {
			<-begun
		}
		var backups [3]bytes.Buffer
		for i := range backups {
			if err := s.Backup(&backups[i]); err != nil {
				t.Error(err)
			}
		}
		writing.Store(false)
		for range workers {
			if err := <-wrote; err != nil {
				t.Error(err)
			}
		}
		for i := range backups {
			target := filepath.Join(t.TempDir(), "state.db")
			if err := store.Restore(t.Context(), &backups[i], target, store.Options{}); err != nil {
				t.Fatal(err)
			}
			restored := connect(t, target, store.Options{})
			if report, err := restored.Check(); err != nil || len(report.Problems) > 0 {
				t.Errorf("problems %v, error %v", report.Problems, err)
			}
			newest := map[string]string{}
			if err := restored.Events(func(e store.Event) bool { newest[e.Node] = e.Message; return true }); err != nil {
				t.Fatal(err)
			}
			nodes, err := restored.Nodes("")
			if err != nil || len(nodes) != workers {
				t.Fatalf("%d nodes, error %v", len(nodes), err)
			}
			for _, n := range nodes {
				if n.Message != newest[n.Name] {
					t.Errorf("backup %d: node %s is at %s, its newest event at %s", i, n.Name, n.Message, newest[n.Name])
				}
			}
		}
	})
}

func TestAnUnsoundBackupLeavesNothingBehind(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		path, content := filled(t)
		schema := func(value string) string {
			copied := filepath.Join(t.TempDir(), "state.db")
			write(t, copied, string(content))
			foreign(t, copied, "meta", "schema", value)
			return copied
		}
		undecodable := filepath.Join(t.TempDir(), "state.db")
		write(t, undecodable, string(content))
		foreign(t, undecodable, "nodes", "a\x00n1", "{torn")
		torn := filepath.Join(t.TempDir(), "state.db")
		write(t, torn, string(content[:len(content)/3]))
		text := filepath.Join(t.TempDir(), "state.db")
		write(t, text, "not a backup")
		for name, backup := range map[string]string{"torn": torn, "text": text, "of a later program": schema("99"), "undecodable": undecodable} {
			f, err := os.Open(backup)
			if err != nil {
				t.Fatal(err)
			}
			err = store.Restore(t.Context(), f, location, store.Options{})
			if err == nil || !strings.Contains(err.Error(), "the backup is not sound") {
				t.Errorf("%s: error %v", name, err)
			}
			_ = f.Close()
			if _, err := store.Connect(context.Background(), location, store.Options{ReadOnly: true}); !errors.Is(err, store.ErrNoState) {
				t.Errorf("%s: afterwards error %v, want ErrNoState", name, err)
			}
		}
		_ = path
	})
}

func TestI6AHalfRestoredPrefixIsNoState(t *testing.T) {
	t.Parallel()
	location := etcdLocation(t)
	endpoint, prefix := etcdParts(location)
	client := storetest.Client(t, endpoint)
	for key, want := range map[string]string{"meta/restoring": "is half restored", "other": "no state of this program"} {
		if _, err := client.Put(t.Context(), prefix+"/"+key, "host/1"); err != nil {
			t.Fatal(err)
		}
		for _, o := range []store.Options{{}, {ReadOnly: true}} {
			if _, err := store.Connect(t.Context(), location, o); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want %q", key, err, want)
			}
		}
		if err := store.Restore(t.Context(), bytes.NewReader(soundBackup(t)), location, store.Options{}); !errors.Is(err, store.ErrTaken) || !strings.Contains(err.Error(), "etcdctl del --prefix") {
			t.Errorf("%s: error %v, want ErrTaken", key, err)
		}
		if _, err := client.Delete(t.Context(), prefix+"/"+key); err != nil {
			t.Fatal(err)
		}
	}
	s := connect(t, location, store.Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(t.Context(), prefix+"/meta/schema", "99"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Connect(t.Context(), location, store.Options{}); err == nil || !strings.Contains(err.Error(), `has schema "99"`) {
		t.Errorf("a newer schema: error %v", err)
	}
}

func soundBackup(t *testing.T) []byte {
	t.Helper()
	_, content := filled(t)
	return content
}

func TestAFileThatLiesBesideAStateTravelsInItsBackup(t *testing.T) {
	t.Parallel()
	path, content := filled(t)
	if _, found, err := store.Attached(path, "leases"); found || err != nil {
		t.Errorf("before: found %v, error %v", found, err)
	}
	for _, text := range []string{"old", "lease\n"} {
		if err := store.Attach(path, "leases", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if got, found, err := store.Attached(path, "leases"); !found || err != nil || string(got) != "lease\n" {
		t.Errorf("%q, found %v, error %v", got, found, err)
	}
	backup, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "state.db")
	if err := store.Restore(t.Context(), bytes.NewReader(backup), target, store.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, found, err := store.Attached(target, "leases"); found || err != nil {
		t.Errorf("in the restored state: found %v, error %v; it belongs beside it", found, err)
	}
	_ = content
}

func TestCheckFindsWhatDoesNotDecode(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		s := connect(t, location, store.Options{})
		if err := s.Record(store.Node{Cluster: "a", Name: "n1"}, store.Event{Time: at(3), Node: "n1"}); err != nil {
			t.Fatal(err)
		}
		report, err := s.Check()
		if err != nil || len(report.Problems) > 0 || report.Schema != store.SchemaVersion || report.Bytes == 0 || report.NewestEvent == nil || !report.NewestEvent.Time.Equal(at(3)) {
			t.Errorf("report %+v, error %v", report, err)
		}
		counts := map[string]int{}
		for _, b := range report.Buckets {
			counts[b.Name] = b.Keys
		}
		if counts["nodes"] != 1 || counts["events"] != 1 || counts["holds"] != 0 {
			t.Errorf("counts %v", counts)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		spoil(t, location, map[string]string{
			"nodes/a\x00n2": "{torn", "nodes/a\x00n3": `{"cluster":"a","node":"n4"}`, "events/key": "{}", "holds/a\x00n1": `[]`, "marks/x": "1",
		})
		report, err = connect(t, location, store.Options{ReadOnly: true}).Check()
		if err != nil || len(report.Problems) != 5 {
			t.Errorf("%d problems, error %v; want 5: %q", len(report.Problems), err, report.Problems)
		}
	})
}

// spoil writes past the store, by bucket/key.
func spoil(t *testing.T, location string, values map[string]string) {
	t.Helper()
	for at, value := range values {
		bucket, key, _ := strings.Cut(at, "/")
		if !store.IsEtcd(location) {
			foreign(t, location, bucket, key, value)
			continue
		}
		_, rest, _ := strings.Cut(location, "://")
		endpoint, prefix, _ := strings.Cut(rest, "/")
		if _, err := storetest.Client(t, endpoint).Put(t.Context(), prefix+"/"+at, value); err != nil {
			t.Fatal(err)
		}
	}
}

// A record that does not decode is told, and not skipped: it may be the one that matters.
func TestI6WhatDoesNotDecodeIsAnErrorWhereItIsRead(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		s := connect(t, location, store.Options{})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		spoil(t, location, map[string]string{
			"nodes/a\x00n1": "{", "runs/a": "{", "events/\x00\x00\x00\x00\x00\x00\x00\x01": "{", "unknown/{}": "{", "upgrade-runs/a": "{",
			"upgrade-nodes/a\x00n1": "{", "holds/a\x00n1": "{", "generations/a\x00n1": "{", "leases/\x0010.0.0.1": "{", "marks/a/n1": "{",
		})
		s = connect(t, location, store.Options{})
		for what, read := range map[string]func() error{
			"node":    func() error { _, _, err := s.Node("a", "n1"); return err },
			"nodes":   func() error { _, err := s.Nodes("a"); return err },
			"status":  func() error { _, err := s.Status(""); return err },
			"events":  func() error { return s.Events(func(store.Event) bool { return true }) },
			"run":     func() error { _, _, err := s.UnfinishedRun("a", ""); return err },
			"begin":   func() error { _, _, err := s.BeginRun(store.Run{ID: "r", Cluster: "a"}); return err },
			"unknown": func() error { _, err := s.UnknownMachines(); return err },
			"asks":    func() error { return s.RecordUnknown(store.Unknown{}) },
			"upgrade": func() error { _, err := s.UpgradeRun("a", new(struct{})); return err },
			"hold":    func() error { _, _, err := s.Held("a", "n1"); return err },
			"leases":  func() error { _, err := s.Leases(); return err },
			"marks":   func() error { _, err := s.Marks(); return err },
			"power":   func() error { return s.PoweredOn("a", "n1", at(1)) },
		} {
			if err := read(); err == nil {
				t.Errorf("%s: what does not decode was read", what)
			} else if !strings.Contains(err.Error(), s.Location()) {
				t.Errorf("%s: the error %q does not say where", what, err)
			}
		}
	})
}
