package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// ErrTaken is returned by Restore when there is something at the target already.
var ErrTaken = errors.New("there is a state already")

// Restore writes a backup to a location where no state is: a new bbolt file, or a
// prefix of etcd without a key. The backup is checked first, and nothing is there
// when that fails. A backup of an older schema is migrated.
func Restore(ctx context.Context, backup io.Reader, location string, o Options) error {
	restore := restoreFile
	if IsEtcd(location) {
		restore = restoreEtcd
	}
	if err := restore(ctx, backup, location, o.withDefaults()); err != nil {
		return fmt.Errorf("restore into the state %s: %w", location, err)
	}
	return nil
}

func restoreFile(_ context.Context, backup io.Reader, location string, o Options) error {
	taken := fmt.Errorf("%w: move it aside first: mv %s %s.aside", ErrTaken, location, location)
	if _, err := os.Lstat(location); !errors.Is(err, os.ErrNotExist) {
		return errors.Join(err, taken)
	}
	folder := filepath.Dir(location)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("create its folder: %w; give another place with --state", err)
	}
	fresh, err := unpack(backup, folder)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(fresh) }()
	db, err := sound(fresh, o)
	if err != nil {
		return err
	}
	if err := errors.Join(db.Close(), syncFile(fresh)); err != nil {
		return err
	}
	if err := publish(fresh, location); !errors.Is(err, os.ErrExist) {
		return err
	}
	return taken
}

// unpack puts a backup into a file that can be worked on.
func unpack(backup io.Reader, folder string) (path string, err error) {
	if path, err = emptyFile(folder); err != nil {
		return "", fmt.Errorf("make a file for the backup: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0o600)
	if err == nil {
		_, err = io.Copy(f, backup)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("read the backup: %w", err), os.Remove(path))
	}
	return path, nil
}

// sound opens an unpacked backup, brings it to the present schema, and makes sure
// that all of it can be read.
func sound(path string, o Options) (*boltDB, error) {
	file, err := openFile(path, false)
	if err != nil {
		return nil, fmt.Errorf("the backup is not sound: %w", err)
	}
	db := &boltDB{localRights: newLocalRights(o.Controller), db: file, path: "of the backup"}
	version, err := db.schema()
	if err == nil {
		err = guard(func() error {
			return db.db.Update(func(tx *bbolt.Tx) error {
				if tx.Bucket([]byte(bucketFiles)) != nil {
					if err := tx.DeleteBucket([]byte(bucketFiles)); err != nil {
						return err
					}
				}
				return migrateFrom(version)(tx)
			})
		})
	}
	if err == nil {
		var report Report
		if report, err = (&Store{db: db, path: db.path}).Check(); err == nil && len(report.Problems) > 0 {
			err = fmt.Errorf("%w: %s; %d problems in all", ErrDamaged, report.Problems[0], len(report.Problems))
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the backup is not sound: %w; take another one", err), db.Close())
	}
	return db, nil
}

func restoreEtcd(ctx context.Context, backup io.Reader, location string, o Options) (err error) {
	at, err := parseLocation(location)
	if err != nil {
		return err
	}
	fresh, err := unpack(backup, "")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(fresh) }()
	from, err := sound(fresh, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	o.ReadOnly = true // it needs no session
	d, err := dialEtcd(at, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	defer context.AfterFunc(ctx, d.stop)()
	return d.restore(from)
}

// restore fills an empty prefix. Until the last transaction it is marked as half
// restored, which no program takes for a state (I6).
func (d *etcdDB) restore(from *boltDB) error {
	mark := d.key(bucketMeta, []byte(keyRestoring))
	begun, err := d.transact([]clientv3.Cmp{d.empty()}, clientv3.OpPut(mark, d.o.Controller))
	if err != nil {
		return err
	}
	if !begun {
		return fmt.Errorf("%w, or something else under %s/: give a prefix that is empty, or empty this one with `etcdctl del --prefix %s/`", ErrTaken, d.at.prefix, d.at.prefix)
	}
	still := clientv3.Compare(clientv3.Value(mark), "=", d.o.Controller)
	var last sequence
	err = from.view(func(tx reader) (err error) {
		if last.last, err = tx.last(); err != nil {
			return err
		}
		return d.fill(tx, still)
	})
	if err != nil {
		return fmt.Errorf("%w; it is half restored: empty it with `etcdctl del --prefix %s/`", err, d.at.prefix)
	}
	done, err := d.transact([]clientv3.Cmp{still},
		clientv3.OpPut(d.key(bucketMeta, []byte(keySchema)), SchemaVersion),
		clientv3.OpPut(d.key(bucketMeta, []byte(keySequence)), last.String()),
		clientv3.OpDelete(mark))
	if err == nil && !done { // the answer to a first attempt may have been lost
		done, err = d.schemaState()
	}
	if err == nil && !done {
		err = fmt.Errorf("somebody emptied %s/ meanwhile: restore again", d.at.prefix)
	}
	return err
}

// fill writes every bucket but what the last transaction writes.
func (d *etcdDB) fill(from reader, still clientv3.Cmp) error {
	var ops []clientv3.Op
	size := 0
	flush := func() error {
		if len(ops) == 0 {
			return nil
		}
		done, err := d.transact([]clientv3.Cmp{still}, ops...)
		if err == nil && !done {
			err = errors.New("somebody else works on it too")
		}
		ops, size = nil, 0
		return err
	}
	for _, bucket := range keptBuckets() {
		err := from.walk(bucket.name, nil, nil, func(key, value []byte) error {
			if bucket.name == bucketMeta && string(key) == keySchema {
				return nil
			}
			if len(ops) == etcdCapacity || size+len(value) > transactionBytes {
				if err := flush(); err != nil {
					return err
				}
			}
			ops = append(ops, clientv3.OpPut(d.key(bucket.name, key), string(value)))
			size += len(key) + len(value)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return flush()
}

// transact writes something once its conditions hold; false says that they do not.
func (d *etcdDB) transact(conditions []clientv3.Cmp, ops ...clientv3.Op) (done bool, err error) {
	err = d.request(func(ctx context.Context) error {
		response, err := d.client.Txn(ctx).If(conditions...).Then(ops...).Commit()
		done = err == nil && response.Succeeded
		return err
	})
	return done, err
}
