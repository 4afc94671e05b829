package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/talos-provision/provision/provisioner/store"
)

// filled is a state file with many records.
func filled(t *testing.T) (path string, content []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "state.db")
	s := open(t, path)
	together(t, 500, 100, func(i int) error {
		return s.Record(store.Node{Cluster: "a", Name: fmt.Sprintf("n%03d", i), State: "Ready", Message: strings.Repeat("long ", 40)}, store.Event{})
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, content
}

// I6: however much of a file is missing, it is refused with a way out, and never
// ends the process or looks like a smaller fleet.
func TestI6ATornFileIsRefused(t *testing.T) {
	t.Parallel()
	path, content := filled(t)
	page := os.Getpagesize()
	var pages int
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *bbolt.Tx) error { pages = int(tx.Size()) / page; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 1, 100, page - 1, page, page + 50, 2 * page, 3*page + 7, 4 * page, pages / 2 * page, (pages - 1) * page, pages*page - 1} {
		for name, open := range map[string]func(string) (*store.Store, error){"to write": store.Open, "to read": store.OpenReadOnly} {
			torn := filepath.Join(t.TempDir(), "state.db")
			write(t, torn, string(content[:size]))
			s, err := open(torn)
			if err == nil {
				t.Errorf("%d bytes of %d are opened %s", size, len(content), name)
				_ = s.Close()
				continue
			}
			if !strings.Contains(err.Error(), "move it aside") {
				t.Errorf("%d bytes, %s: the error %q does not say what to do", size, name, err)
			}
			if after, err := os.ReadFile(torn); err != nil || len(after) != size {
				t.Errorf("%d bytes, %s: the file has %d bytes afterwards, error %v", size, name, len(after), err)
			}
		}
	}
}

// The file begins with two descriptions of itself. One that is spoilt is made up for
// by the other, which may be one commit older: bbolt's own way to survive a crash in
// the middle of a commit. With both spoilt the file is refused.
func TestI6SpoiltDescriptionsOfTheFile(t *testing.T) {
	t.Parallel()
	_, content := filled(t)
	page := os.Getpagesize()
	for _, offset := range []int{16, 24, 40, 56, 64, 70, 79} { // magic to checksum
		for name, at := range map[string][]int{"the first": {offset}, "the second": {page + offset}, "both": {offset, page + offset}} {
			spoilt := filepath.Join(t.TempDir(), "state.db")
			flipped := append([]byte{}, content...)
			for _, i := range at {
				flipped[i] ^= 0x5a
			}
			write(t, spoilt, string(flipped))
			s, err := store.OpenReadOnly(spoilt)
			if err != nil {
				if len(at) == 1 {
					t.Errorf("%s spoilt at %d: %v", name, offset, err)
				}
				continue
			}
			nodes, err := s.Nodes("")
			switch {
			case len(at) == 2:
				t.Errorf("%s spoilt at %d: opened", name, offset)
			case err != nil || len(nodes) < 400: // a hundred share a commit
				t.Errorf("%s spoilt at %d: %d nodes, error %v", name, offset, len(nodes), err)
			}
			_ = s.Close()
		}
	}
}

// A page in the middle that is overwritten is an error where it is read, not the
// end of the process, and Check finds it.
func TestI6ASpoiltPageIsFoundAndToldNotFatal(t *testing.T) {
	t.Parallel()
	_, content := filled(t)
	page := os.Getpagesize()
	found, step := 0, max(1, len(content)/page/40)
	for p := 2; p*page+page <= len(content); p += step {
		spoilt := filepath.Join(t.TempDir(), "state.db")
		flipped := append([]byte{}, content...)
		for i := range page {
			flipped[p*page+i] = 0xa5
		}
		write(t, spoilt, string(flipped))
		s, err := store.OpenReadOnly(spoilt)
		if err != nil {
			found++
			continue
		}
		report, err := s.Check()
		if err != nil || len(report.Problems) > 0 {
			found++
		} else if nodes, err := s.Nodes(""); err != nil || len(nodes) != 500 {
			t.Errorf("page %d is spoilt, Check finds nothing, and there are %d nodes, error %v", p, len(nodes), err)
		}
		_ = s.Close()
	}
	if found < 5 {
		t.Errorf("%d spoilt pages were found: the file is no good for this test", found)
	}
}

// schemaOne makes a state file as the first programs wrote it.
func schemaOne(t *testing.T, path string) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	put := func(b *bbolt.Bucket, key string, value any) error {
		raw, err := json.Marshal(value)
		return errors.Join(err, b.Put([]byte(key), raw))
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		buckets := map[string]*bbolt.Bucket{}
		for _, name := range []string{"meta", "nodes", "events", "runs", "unknown"} {
			if buckets[name], err = tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		seq, err := buckets["events"].NextSequence()
		return errors.Join(err,
			buckets["meta"].Put([]byte("schema"), []byte("1")),
			put(buckets["nodes"], "a\x00n1", store.Node{Cluster: "a", Name: "n1", State: "Ready"}),
			put(buckets["events"], string([]byte{0, 0, 0, 0, 0, 0, 0, byte(seq)}), store.Event{Cluster: "a", Node: "n1"}),
			put(buckets["runs"], "a", store.Run{ID: "r1", Cluster: "a"}),
			put(buckets["unknown"], "{}", store.Unknown{Times: 7}),
		)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestAStateOfSchemaOneIsCopiedAsideAndMigrated(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	schemaOne(t, path)
	looks := func(s *store.Store, schema string) {
		t.Helper()
		if n, found, err := s.Node("a", "n1"); !found || err != nil || n.State != "Ready" {
			t.Errorf("node %+v, found %v, error %v", n, found, err)
		}
		if r, found, err := s.UnfinishedRun("a", ""); !found || err != nil || r.ID != "r1" {
			t.Errorf("run %+v, found %v, error %v", r, found, err)
		}
		if u, err := s.UnknownMachines(); err != nil || len(u) != 1 || u[0].Times != 7 {
			t.Errorf("unknown machines %+v, error %v", u, err)
		}
		if h, err := s.Holds(); err != nil || len(h) != 0 {
			t.Errorf("holds %v, error %v", h, err)
		}
		report, err := s.Check()
		if err != nil || report.Schema != schema || report.LastEvent != 1 || report.NewestEvent == nil || len(report.Problems) > 0 {
			t.Errorf("report %+v, error %v; want schema %s", report, err, schema)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string) *store.Store {
		t.Helper()
		s, err := store.OpenReadOnly(path)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	looks(read(path), "1") // as it is
	for range 2 {          // the second time there is nothing to migrate
		s := open(t, path)
		if err := s.SetHold(store.Hold{Cluster: "a", Node: "n1"}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.RemoveHold("a", "n1"); err != nil {
			t.Fatal(err)
		}
		looks(s, store.SchemaVersion)
	}
	looks(read(path+".schema-1"), "1")

	// A copy that is there already is not overwritten.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	schemaOne(t, path)
	before, err := os.ReadFile(path + ".schema-1")
	if err != nil {
		t.Fatal(err)
	}
	looks(open(t, path), store.SchemaVersion)
	after, err := os.ReadFile(path + ".schema-1")
	if err != nil || !cmp.Equal(before, after) {
		t.Errorf("the first copy was changed, error %v", err)
	}
	looks(read(path+".schema-1.2"), "1")
}
