package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/talos-provision/provision/provisioner/store"
)

func open(t *testing.T, path string) *store.Store {
	t.Helper()
	s, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// I6: what is not a sound state of ours is never taken for an empty fleet.
func TestI6StrangeStateIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		make func(t *testing.T, path string)
		want string
	}{
		"a text file": {
			make: func(t *testing.T, path string) { write(t, path, strings.Repeat("not a database\n", 1000)) },
			want: "if the file is damaged, move it aside",
		},
		"a torn file": {
			make: func(t *testing.T, path string) {
				s := open(t, path)
				_ = s.Close()
				if err := os.Truncate(path, 5000); err != nil {
					t.Fatal(err)
				}
			},
			want: "if the file is damaged, move it aside",
		},
		"a foreign database": {
			make: func(t *testing.T, path string) { foreign(t, path, "meta2", "", "") },
			want: "is a database, but not a state of this program",
		},
		"a later schema": {
			make: func(t *testing.T, path string) {
				s := open(t, path)
				_ = s.Close()
				foreign(t, path, "meta", "schema", "99")
			},
			want: `has schema "99"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "state.db")
			tc.make(t, path)
			s, err := store.Open(path)
			if err == nil {
				_ = s.Close()
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q does not contain %q", err, tc.want)
			}
		})
	}
}

func TestASecondProcessIsToldThatTheStateIsInUse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	s := open(t, path)
	defer func() { _ = s.Close() }()
	_, err := store.Open(path)
	if !errors.Is(err, store.ErrInUse) {
		t.Errorf("error %v, want ErrInUse", err)
	}
}

func TestReadingBeforeTheFirstRunSaysThatThereIsNoState(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	if _, err := store.OpenReadOnly(path); !errors.Is(err, store.ErrNoState) {
		t.Errorf("error %v, want ErrNoState", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("looking created the file: %v", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func foreign(t *testing.T, path, bucket, key, value string) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(bucket))
		if err != nil || key == "" {
			return err
		}
		return b.Put([]byte(key), []byte(value))
	})
	if err != nil {
		t.Fatal(err)
	}
}
