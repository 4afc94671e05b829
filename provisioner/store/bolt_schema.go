package store

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"go.etcd.io/bbolt"
)

// migration takes a state file from one schema to the next, within one transaction.
type migration struct {
	from, to string
	apply    func(*bbolt.Tx) error
}

func migrations() []migration {
	return []migration{
		{"1", "2", migrate1},
		{"2", "3", migrate2},
	}
}

// schemaOneBuckets are those that a state of schema 1 has always had; the others
// were made when they were first needed.
func schemaOneBuckets() []string {
	return []string{bucketMeta, bucketNodes, bucketEvents, bucketRuns}
}

// migrate2 adds the nodes' boots.
func migrate2(tx *bbolt.Tx) error {
	_, err := tx.CreateBucketIfNotExists([]byte(bucketBoots))
	return err
}

// migrate1 makes every bucket, and counts the unknown machines by a key.
func migrate1(tx *bbolt.Tx) error {
	for _, b := range keptBuckets() {
		if _, err := tx.CreateBucketIfNotExists([]byte(b.name)); err != nil {
			return err
		}
	}
	count := tx.Bucket([]byte(bucketUnknown)).Stats().KeyN
	return tx.Bucket([]byte(bucketMeta)).Put([]byte(keyUnknown), []byte(strconv.Itoa(count)))
}

func createBuckets(tx *bbolt.Tx) error {
	if err := migrate1(tx); err != nil {
		return err
	}
	return tx.Bucket([]byte(bucketMeta)).Put([]byte(keySchema), []byte(SchemaVersion))
}

// prepare makes an opened state one of the present schema.
func (b *boltDB) prepare() error {
	version, err := b.schema()
	if err != nil || version == SchemaVersion {
		return err
	}
	if err := b.copyAside(version); err != nil {
		return fmt.Errorf("copy the state %s aside before its migration from schema %s: %w; make room in its folder: nothing was changed", b.path, version, err)
	}
	if err := guard(func() error { return b.db.Update(migrateFrom(version)) }); err != nil {
		return fmt.Errorf("migrate the state %s from schema %s to %s: %w; it is as it was: use the program that wrote it, or report this", b.path, version, SchemaVersion, err)
	}
	return nil
}

func migrateFrom(version string) func(*bbolt.Tx) error {
	return func(tx *bbolt.Tx) error {
		for _, m := range migrations() {
			if m.from != version {
				continue
			}
			if err := m.apply(tx); err != nil {
				return err
			}
			version = m.to
		}
		return tx.Bucket([]byte(bucketMeta)).Put([]byte(keySchema), []byte(version))
	}
}

// schema returns the version of a state that this program can read, and refuses
// everything else.
func (b *boltDB) schema() (version string, err error) {
	err = guard(func() error {
		return b.db.View(func(tx *bbolt.Tx) error {
			version, err = schemaOf(tx, b.path)
			return err
		})
	})
	return version, err
}

func schemaOf(tx *bbolt.Tx, path string) (string, error) {
	meta := tx.Bucket([]byte(bucketMeta))
	if meta == nil {
		return "", fmt.Errorf("%s is a database, but not a state of this program: give another place with --state", path)
	}
	version := string(meta.Get([]byte(keySchema)))
	older := slices.ContainsFunc(migrations(), func(m migration) bool { return m.from == version })
	if version != SchemaVersion && !older {
		return "", fmt.Errorf("state %s has schema %q and this program writes %q: use the program that wrote it, or move the file aside", path, version, SchemaVersion)
	}
	needed := schemaOneBuckets()
	if !older {
		needed = needed[:0]
		for _, b := range keptBuckets() {
			needed = append(needed, b.name)
		}
	}
	for _, name := range needed {
		if tx.Bucket([]byte(name)) == nil {
			return "", fmt.Errorf("state %s has no bucket %q: %w, or not a state of this program; restore a copy, or give another place with --state", path, name, ErrDamaged)
		}
	}
	return version, nil
}

// copyAside keeps the state as the older program knew it. A copy that is there
// already is left alone: it may be of another time.
func (b *boltDB) copyAside(version string) error {
	const most = 100
	fresh := b.path + ".copying"
	defer func() { _ = os.Remove(fresh) }()
	err := guard(func() error {
		return b.db.View(func(tx *bbolt.Tx) error { return tx.CopyFile(fresh, 0o600) })
	})
	if err != nil {
		return err
	}
	if err := syncFile(fresh); err != nil {
		return err
	}
	aside := b.path + ".schema-" + version
	for i := 2; i < most; i++ {
		if err = publish(fresh, aside); !errors.Is(err, os.ErrExist) {
			return err
		}
		aside = fmt.Sprintf("%s.schema-%s.%d", b.path, version, i)
	}
	return err
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
