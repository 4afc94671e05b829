package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

// lockTimeout is how long opening waits for another process to let go of the file.
const lockTimeout = 2 * time.Second

// boltCapacity is how many keys one transaction on a file changes: it is held in memory.
const boltCapacity = 10_000

// boltDB is a state in a file of this host.
type boltDB struct {
	*localRights
	db   *bbolt.DB
	path string
}

var _ database = (*boltDB)(nil)

// openBolt opens a state file to be written to, and makes it when there is none.
func openBolt(path, controller string) (*boltDB, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of the state %s: %w; give another place with --state", path, err)
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if err := createBolt(path); err != nil {
			return nil, fmt.Errorf("create the state %s: %w; give another place with --state", path, err)
		}
	}
	db, err := openFile(path, false)
	if err != nil {
		return nil, err
	}
	b := &boltDB{localRights: newLocalRights(controller), db: db, path: path}
	if err := b.prepare(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// readBolt opens a state file to be read.
func readBolt(path, controller string) (*boltDB, error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open the state %s: %w; a run creates it, or give its place with --state", path, ErrNoState)
	}
	db, err := openFile(path, true)
	if err != nil {
		return nil, err
	}
	b := &boltDB{localRights: newLocalRights(controller), db: db, path: path}
	if _, err := b.schema(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// createBolt makes a new state beside its place and then puts it there: a file
// at the place is whole from its first moment on, so that an empty one is known
// to be torn (I6).
func createBolt(path string) error {
	fresh, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(fresh.Name()) }()
	if err := fresh.Close(); err != nil {
		return err
	}
	db, err := bbolt.Open(fresh.Name(), 0o600, nil)
	if err != nil {
		return err
	}
	if err := errors.Join(db.Update(createBuckets), db.Close()); err != nil {
		return err
	}
	if err := publish(fresh.Name(), path); !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil // another process was quicker
}

// publish gives a finished file its name; os.ErrExist when the name is taken.
func publish(fresh, path string) error {
	if err := os.Link(fresh, path); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func openFile(path string, readOnly bool) (db *bbolt.DB, err error) {
	err = guard(func() (err error) {
		if err := whole(path); err != nil {
			return err
		}
		db, err = bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, ReadOnly: readOnly})
		return err
	})
	switch {
	case errors.Is(err, bbolterrors.ErrTimeout):
		return nil, fmt.Errorf("open the state %s: %w by another provision; wait for it to end, or give another state with --state", path, ErrInUse)
	case err != nil:
		return nil, fmt.Errorf("open the state %s: %w; if the file is damaged, move it aside (nodes are then identified and probed afresh) or restore a copy", path, err)
	}
	return db, nil
}

// guard turns what a damaged file does to its reader into an error: a page that
// makes no sense is a panic in bbolt, and one that is not there is a fault.
func guard(work func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v; move the file aside or restore a copy", ErrDamaged, p)
		}
	}()
	return work()
}

func (b *boltDB) view(work func(reader) error) error {
	return guard(func() error {
		return b.db.View(func(tx *bbolt.Tx) error { return work(boltTx{tx: tx}) })
	})
}

func (b *boltDB) update(work func(writer) error) error {
	return guard(func() error { return b.db.Update(b.with(work)) })
}

func (b *boltDB) batch(work func(writer) error) error {
	return guard(func() error { return b.db.Batch(b.with(work)) })
}

// with runs the work guarded, because Batch may do so in another's goroutine.
func (*boltDB) with(work func(writer) error) func(*bbolt.Tx) error {
	return func(tx *bbolt.Tx) error {
		return guard(func() error { return work(boltTx{tx: tx}) })
	}
}

func (*boltDB) capacity() int { return boltCapacity }

func (b *boltDB) backup(w io.Writer) error {
	return guard(func() error {
		return b.db.View(func(tx *bbolt.Tx) error {
			_, err := tx.WriteTo(w)
			return err
		})
	})
}

// Close lets go of the file.
func (b *boltDB) Close() error {
	b.end()
	return b.db.Close()
}

// boltTx is a transaction of a file.
type boltTx struct{ tx *bbolt.Tx }

func (t boltTx) get(bucket string, key []byte) ([]byte, error) {
	b := t.tx.Bucket([]byte(bucket))
	if b == nil { // an older schema, read only
		return nil, nil
	}
	return b.Get(key), nil
}

func (t boltTx) walk(bucket string, prefix, from []byte, visit func(key, value []byte) error) error {
	b := t.tx.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	if bytes.Compare(from, prefix) < 0 {
		from = prefix
	}
	cursor := b.Cursor()
	for key, value := cursor.Seek(from); key != nil && bytes.HasPrefix(key, prefix); key, value = cursor.Next() {
		if err := visit(key, value); err != nil {
			return err
		}
	}
	return nil
}

func (t boltTx) last() (uint64, error) { return t.tx.Bucket([]byte(bucketEvents)).Sequence(), nil }

func (t boltTx) put(bucket string, key, value []byte) error {
	return t.tx.Bucket([]byte(bucket)).Put(key, value)
}

func (t boltTx) del(bucket string, key []byte) error {
	return t.tx.Bucket([]byte(bucket)).Delete(key)
}

func (t boltTx) append(event []byte) error {
	events := t.tx.Bucket([]byte(bucketEvents))
	seq, err := events.NextSequence()
	if err != nil {
		return err
	}
	return events.Put(eventKey(seq), event)
}

// fence has nothing to do: whoever has the file open has it alone.
func (boltTx) fence(string) {}
