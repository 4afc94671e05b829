package store

import (
	"errors"
	"fmt"
	"io"
	"os"

	"go.etcd.io/bbolt"
)

// backupFrom writes what a database holds, at one moment, as a bbolt file.
func backupFrom(db database, w io.Writer) error {
	path, err := emptyFile("")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(path) }()
	file, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		return err
	}
	err = file.Update(createBuckets)
	if err == nil {
		err = db.view(func(tx reader) error { return copyInto(file, tx) })
	}
	if err == nil {
		err = file.View(func(tx *bbolt.Tx) error {
			_, err := tx.WriteTo(w)
			return err
		})
	}
	return errors.Join(err, file.Close())
}

// emptyFile makes a file that only its owner reads, in a folder or, with "", in
// that for temporary files.
func emptyFile(folder string) (string, error) {
	f, err := os.CreateTemp(folder, ".provision-state-*")
	if err != nil {
		return "", err
	}
	return f.Name(), f.Close()
}

// copyInto copies every bucket, with a transaction for each few thousand keys.
func copyInto(file *bbolt.DB, from reader) error {
	for _, bucket := range keptBuckets() {
		if err := copyBucket(file, from, bucket.name); err != nil {
			return err
		}
	}
	last, err := from.last()
	if err != nil {
		return err
	}
	return file.Update(func(tx *bbolt.Tx) error {
		// What etcd counts by this key a file counts in its bucket.
		if err := tx.Bucket([]byte(bucketMeta)).Delete([]byte(keySequence)); err != nil {
			return err
		}
		return tx.Bucket([]byte(bucketEvents)).SetSequence(last)
	})
}

func copyBucket(file *bbolt.DB, from reader, name string) (err error) {
	tx, err := file.Begin(true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rollback(tx)) }()
	copied := 0
	err = from.walk(name, nil, nil, func(key, value []byte) error {
		if copied++; copied%boltCapacity == 0 {
			if err := tx.Commit(); err != nil {
				return err
			}
			if tx, err = file.Begin(true); err != nil {
				return err
			}
		}
		return tx.Bucket([]byte(name)).Put(key, value)
	})
	if err != nil {
		return err
	}
	return tx.Commit()
}

// rollback ends a transaction that was not committed.
func rollback(tx *bbolt.Tx) error {
	if tx == nil || tx.DB() == nil {
		return nil
	}
	return tx.Rollback()
}

// Attach puts a file, such as the DHCP lease file, into a backup, in the place of
// one of that name.
func Attach(backup, name string, content []byte) error {
	err := withBackup(backup, false, func(tx *bbolt.Tx) error {
		files, err := tx.CreateBucketIfNotExists([]byte(bucketFiles))
		if err != nil {
			return err
		}
		return files.Put([]byte(name), content)
	})
	if err != nil {
		return fmt.Errorf("put the file %s into the backup %s: %w", name, backup, err)
	}
	return nil
}

// Attached reads a file out of a backup; false when it is not in it.
func Attached(backup, name string) (content []byte, found bool, err error) {
	err = withBackup(backup, true, func(tx *bbolt.Tx) error {
		if files := tx.Bucket([]byte(bucketFiles)); files != nil {
			raw := files.Get([]byte(name))
			found, content = raw != nil, append(content, raw...)
		}
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("read the file %s out of the backup %s: %w", name, backup, err)
	}
	return content, found, nil
}

func withBackup(path string, readOnly bool, work func(*bbolt.Tx) error) error {
	db, err := openFile(path, readOnly)
	if err != nil {
		return err
	}
	err = guard(func() error {
		if readOnly {
			return db.View(work)
		}
		return db.Update(work)
	})
	return errors.Join(err, db.Close())
}
