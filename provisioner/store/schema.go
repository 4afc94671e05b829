package store

import (
	"encoding/json"
	"fmt"
)

// SchemaVersion is written into every state. A state of an older version is
// migrated when it is opened to be written to; a newer one is refused.
const SchemaVersion = "3"

const (
	bucketMeta         = "meta"
	bucketNodes        = "nodes"         // by cluster and node
	bucketEvents       = "events"        // by number, eight bytes, big end first
	bucketRuns         = "runs"          // by cluster, and site if there is one: its newest run
	bucketUnknown      = "unknown"       // by what the machine said of itself
	bucketUpgradeRuns  = "upgrade-runs"  // by cluster: its newest upgrade
	bucketUpgradeNodes = "upgrade-nodes" // by cluster and node: what its newest upgrade knows of it
	bucketHolds        = "holds"         // by cluster and node
	bucketMarks        = "marks"         // by what is marked: a node, as cluster/name, or another word
	bucketLeases       = "leases"        // by site and address
	bucketBoots        = "boots"         // by cluster and node: the last boot script that it asked for

	// Rights are of the moment: they are no part of a backup, and only etcd keeps them.
	bucketClaims  = "claims"  // by cluster/node
	bucketLeaders = "leaders" // by site

	// bucketFiles is in backups alone: files that lie beside a state.
	bucketFiles = "files"
)

// Keys of bucketMeta.
const (
	keySchema = "schema"
	// keyUnknown counts the unknown machines that are kept.
	keyUnknown = "unknown"
	// keySequence, on etcd, is the number of the newest event and who committed last.
	keySequence = "sequence"
	// keyRestoring, on etcd, says that a restore was begun and did not end.
	keyRestoring = "restoring"
)

// kept is a bucket of a state, and how to tell that a value of it is sound.
type kept struct {
	name   string
	decode func(key, value []byte) error
}

// keptBuckets is every bucket that a state has, always.
func keptBuckets() []kept {
	return []kept{
		{bucketMeta, func([]byte, []byte) error { return nil }},
		{bucketNodes, decodes(func(n Node) []byte { return nodeKey(n.Cluster, n.Name) })},
		{bucketEvents, decodes(func(Event) []byte { return nil })},
		{bucketRuns, decodes(func(r Run) []byte { return runKey(r.Cluster, r.Site) })},
		{bucketUnknown, decodes(func(Unknown) []byte { return nil })},
		{bucketUpgradeRuns, decodes(func(json.RawMessage) []byte { return nil })},
		{bucketUpgradeNodes, decodes(func(u upgraded) []byte { return nodeKey(u.Cluster, u.Node) })},
		{bucketHolds, decodes(func(h Hold) []byte { return nodeKey(h.Cluster, h.Node) })},
		{bucketMarks, decodes(func(string) []byte { return nil })},
		{bucketLeases, decodes(func(l Lease) []byte { return l.key() })},
		{bucketBoots, decodes(func(b Boot) []byte { return nodeKey(b.Cluster, b.Node) })},
	}
}

// decodes makes the check of a bucket whose values are JSON of T. Where the value
// tells its key, the two must agree.
func decodes[T any](keyOf func(T) []byte) func(key, value []byte) error {
	return func(key, value []byte) error {
		var v T
		if err := json.Unmarshal(value, &v); err != nil {
			return err
		}
		if want := keyOf(v); want != nil && string(want) != string(key) {
			return fmt.Errorf("the value is of %q", want)
		}
		return nil
	}
}

func putJSON(tx writer, bucket string, key []byte, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return tx.put(bucket, key, raw)
}

// getJSON reads a key into a value; false when it is not there.
func getJSON(tx interface {
	get(bucket string, key []byte) ([]byte, error)
}, bucket string, key []byte, into any) (bool, error) {
	raw, err := tx.get(bucket, key)
	if err != nil || raw == nil {
		return false, err
	}
	return true, json.Unmarshal(raw, into)
}

// listJSON collects the values of the keys that begin with prefix.
func listJSON[T any](db database, bucket string, prefix []byte) ([]T, error) {
	list := []T{}
	err := db.view(func(tx reader) error {
		list = list[:0]
		return tx.walk(bucket, prefix, nil, func(_, raw []byte) error {
			var v T
			if err := json.Unmarshal(raw, &v); err != nil {
				return err
			}
			list = append(list, v)
			return nil
		})
	})
	return list, err
}

// nodeKey uses NUL, which no cluster or node name can hold, so that keys sort by cluster first.
func nodeKey(cluster, name string) []byte {
	return []byte(cluster + "\x00" + name)
}
