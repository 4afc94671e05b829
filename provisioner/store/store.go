// Package store keeps what must survive the death of the controller: the state
// of every node, the events that led there, and the runs (I7, I8). It is a
// bbolt file: a transaction is on the disk when it returns.
package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

// SchemaVersion is written into every state file; a file of another version is refused.
const SchemaVersion = "1"

// lockTimeout is how long Open waits for another process to let go of the file.
const lockTimeout = 2 * time.Second

const (
	bucketMeta   = "meta"
	bucketNodes  = "nodes"
	bucketEvents = "events"
	bucketRuns   = "runs"
	keySchema    = "schema"
)

// ErrInUse is returned by Open when another process has the state open.
var ErrInUse = errors.New("state is in use")

// ErrNoState is returned by OpenReadOnly when there is no state file yet.
var ErrNoState = errors.New("no state yet")

// Store is an open state file. It is safe for concurrent use.
type Store struct {
	db   *bbolt.DB
	path string
}

// Open opens the state file at path and creates it, and its folder, when there
// is none. A file that is not a state of this program, or is torn, is an error:
// missing or strange state is never taken for an empty fleet (I6).
func Open(path string) (*Store, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of the state %s: %w; give another place with --state", path, err)
	}
	db, err := openBolt(path, false)
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, path: path}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// OpenReadOnly opens the state file to look at it. ErrNoState says that no run
// has written one yet.
func OpenReadOnly(path string) (*Store, error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open the state %s: %w; a run creates it, or give its place with --state", path, ErrNoState)
	}
	db, err := openBolt(path, true)
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, path: path}
	if err := s.checkSchema(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

func openBolt(path string, readOnly bool) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, ReadOnly: readOnly})
	switch {
	case errors.Is(err, bbolterrors.ErrTimeout):
		return nil, fmt.Errorf("open the state %s: %w by another provision; wait for it to end, or give another state with --state", path, ErrInUse)
	case err != nil:
		return nil, fmt.Errorf("open the state %s: %w; if the file is damaged, move it aside (nodes are then identified and probed afresh) or restore a copy", path, err)
	}
	return db, nil
}

// prepare creates the buckets of a new file and checks the schema of an old one.
func (s *Store) prepare() error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		if tx.Bucket([]byte(bucketMeta)) != nil {
			return s.checkSchemaTx(tx)
		}
		if name, _ := tx.Cursor().First(); name != nil {
			return s.foreign()
		}
		for _, name := range []string{bucketMeta, bucketNodes, bucketEvents, bucketRuns} {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return fmt.Errorf("prepare the state %s: %w", s.path, err)
			}
		}
		return tx.Bucket([]byte(bucketMeta)).Put([]byte(keySchema), []byte(SchemaVersion))
	})
}

func (s *Store) checkSchema() error {
	return s.db.View(s.checkSchemaTx)
}

func (s *Store) checkSchemaTx(tx *bbolt.Tx) error {
	for _, name := range []string{bucketMeta, bucketNodes, bucketEvents, bucketRuns} {
		if tx.Bucket([]byte(name)) == nil {
			return s.foreign()
		}
	}
	if got := string(tx.Bucket([]byte(bucketMeta)).Get([]byte(keySchema))); got != SchemaVersion {
		return fmt.Errorf("state %s has schema %q and this program writes %q: use the program that wrote it, or move the file aside", s.path, got, SchemaVersion)
	}
	return nil
}

func (s *Store) foreign() error {
	return fmt.Errorf("%s is a database, but not a state of this program: give another place with --state", s.path)
}

// Close lets go of the file.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close the state %s: %w", s.path, err)
	}
	return nil
}

// Record writes a node's new state together with the event that tells of it:
// both are on the disk, or neither.
func (s *Store) Record(n Node, e Event) error {
	err := s.db.Batch(func(tx *bbolt.Tx) error {
		if err := putJSON(tx.Bucket([]byte(bucketNodes)), nodeKey(n.Cluster, n.Name), n); err != nil {
			return err
		}
		events := tx.Bucket([]byte(bucketEvents))
		seq, err := events.NextSequence()
		if err != nil {
			return err
		}
		return putJSON(events, binary.BigEndian.AppendUint64(nil, seq), e)
	})
	if err != nil {
		return fmt.Errorf("write %s/%s to the state %s: %w", n.Cluster, n.Name, s.path, err)
	}
	return nil
}

// Node returns the record of one node; false when there is none.
func (s *Store) Node(cluster, name string) (Node, bool, error) {
	var (
		n     Node
		found bool
	)
	err := s.db.View(func(tx *bbolt.Tx) error {
		raw := tx.Bucket([]byte(bucketNodes)).Get(nodeKey(cluster, name))
		if raw == nil {
			return nil
		}
		found = true
		return json.Unmarshal(raw, &n)
	})
	if err != nil {
		return Node{}, false, fmt.Errorf("read %s/%s from the state %s: %w", cluster, name, s.path, err)
	}
	return n, found, nil
}

// Nodes returns the records of a cluster, or of all with an empty name, by
// cluster and node name.
func (s *Store) Nodes(cluster string) ([]Node, error) {
	var nodes []Node
	err := s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketNodes)).ForEach(func(_, raw []byte) error {
			var n Node
			if err := json.Unmarshal(raw, &n); err != nil {
				return err
			}
			if cluster == "" || n.Cluster == cluster {
				nodes = append(nodes, n)
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the nodes of the state %s: %w", s.path, err)
	}
	return nodes, nil
}

// Events calls visit with every event in the order written, until it returns false.
func (s *Store) Events(visit func(Event) bool) error {
	errStop := errors.New("stop")
	err := s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketEvents)).ForEach(func(_, raw []byte) error {
			var e Event
			if err := json.Unmarshal(raw, &e); err != nil {
				return err
			}
			if !visit(e) {
				return errStop
			}
			return nil
		})
	})
	if err != nil && !errors.Is(err, errStop) {
		return fmt.Errorf("read the events of the state %s: %w", s.path, err)
	}
	return nil
}

// BeginRun returns the cluster's unfinished run, which is then carried on
// (I8), or writes a new one with the given id.
func (s *Store) BeginRun(cluster, newID string, now time.Time) (run Run, resumed bool, err error) {
	err = s.db.Update(func(tx *bbolt.Tx) error {
		runs := tx.Bucket([]byte(bucketRuns))
		if raw := runs.Get([]byte(cluster)); raw != nil {
			if err := json.Unmarshal(raw, &run); err != nil {
				return err
			}
			if run.Finished.IsZero() {
				resumed = true
				return nil
			}
		}
		run = Run{ID: newID, Cluster: cluster, Started: now}
		return putJSON(runs, []byte(cluster), run)
	})
	if err != nil {
		return Run{}, false, fmt.Errorf("begin a run of %s in the state %s: %w", cluster, s.path, err)
	}
	return run, resumed, nil
}

// UnfinishedRun returns the cluster's run that was begun and not finished; false when there is none.
func (s *Store) UnfinishedRun(cluster string) (Run, bool, error) {
	var run Run
	err := s.db.View(func(tx *bbolt.Tx) error {
		raw := tx.Bucket([]byte(bucketRuns)).Get([]byte(cluster))
		if raw == nil {
			return nil
		}
		return json.Unmarshal(raw, &run)
	})
	if err != nil {
		return Run{}, false, fmt.Errorf("read the run of %s from the state %s: %w", cluster, s.path, err)
	}
	return run, run.ID != "" && run.Finished.IsZero(), nil
}

// FinishRun marks the run as complete: the next one begins afresh.
func (s *Store) FinishRun(run Run, now time.Time) error {
	run.Finished = now
	err := s.db.Update(func(tx *bbolt.Tx) error {
		return putJSON(tx.Bucket([]byte(bucketRuns)), []byte(run.Cluster), run)
	})
	if err != nil {
		return fmt.Errorf("finish run %s in the state %s: %w", run.ID, s.path, err)
	}
	return nil
}

func putJSON(b *bbolt.Bucket, key []byte, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return b.Put(key, raw)
}

// nodeKey uses NUL, which no cluster or node name can hold, so that keys sort by cluster first.
func nodeKey(cluster, name string) []byte {
	return []byte(cluster + "\x00" + name)
}
