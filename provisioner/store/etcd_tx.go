package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// etcdTx is what one transaction will write. A part of it is one caller's change,
// which sees what the parts before it wrote.
type etcdTx struct {
	d      *etcdDB
	whole  *etcdTx           // what this is a part of; nil for the whole
	writes map[string][]byte // by key in etcd; nil deletes
	fences map[string]fence  // by node
	last   uint64            // the number of the newest event
	size   int               // of what is written, in bytes

	// fencesOf is which nodes each change is about; of the whole alone.
	fencesOf map[*change][]string
}

// transactionBytes bounds a transaction; etcd takes one and a half megabytes.
const transactionBytes = 1 << 20

// transactionOps bounds its comparisons and its writes; etcd takes 128 of each.
const transactionOps = 100

func newEtcdTx(d *etcdDB, last uint64) *etcdTx {
	return &etcdTx{d: d, writes: map[string][]byte{}, fences: map[string]fence{}, last: last, fencesOf: map[*change][]string{}}
}

func (t *etcdTx) part() *etcdTx {
	p := newEtcdTx(t.d, t.last)
	p.whole = t
	return p
}

// fits says whether the whole can take the part.
func (t *etcdTx) fits() bool {
	writes, fences := len(t.whole.writes)+len(t.writes), len(t.whole.fences)+len(t.fences)
	// One large value goes alone, and etcd decides.
	small := len(t.whole.writes) == 0 || t.whole.size+t.size <= transactionBytes
	return small && writes < transactionOps && fences < transactionOps
}

// merge puts the part into the whole.
func (t *etcdTx) merge(of *change) {
	w := t.whole
	maps.Copy(w.writes, t.writes)
	maps.Copy(w.fences, t.fences)
	w.last = t.last
	w.size += t.size
	for node := range t.fences {
		w.fencesOf[of] = append(w.fencesOf[of], node)
	}
}

func (t *etcdTx) ops() []clientv3.Op {
	ops := make([]clientv3.Op, 0, len(t.writes)+1)
	for key, value := range t.writes {
		if value == nil {
			ops = append(ops, clientv3.OpDelete(key))
			continue
		}
		ops = append(ops, clientv3.OpPut(key, string(value)))
	}
	return ops
}

func (t *etcdTx) get(bucket string, key []byte) ([]byte, error) {
	at := t.d.key(bucket, key)
	for tx := t; tx != nil; tx = tx.whole {
		if value, written := tx.writes[at]; written {
			return value, nil
		}
	}
	return (&etcdReader{d: t.d}).get(bucket, key)
}

func (t *etcdTx) put(bucket string, key, value []byte) error {
	at := t.d.key(bucket, key)
	t.writes[at] = append(make([]byte, 0, len(value)), value...)
	t.size += len(at) + len(value)
	return nil
}

func (t *etcdTx) del(bucket string, key []byte) error {
	t.writes[t.d.key(bucket, key)] = nil
	return nil
}

func (t *etcdTx) append(event []byte) error {
	t.last++
	return t.put(bucketEvents, eventKey(t.last), event)
}

func (t *etcdTx) fence(node string) { t.fences[node] = t.d.fence(node) }

// fence is the condition that a node is ours to write.
type fence struct {
	key string // of the claim, in etcd
	// lease is the session that must have the claim; 0 says that nobody may.
	lease clientv3.LeaseID
	// held says that this controller claimed the node and has not released it.
	held bool
	// session is the present one: what it has without our knowing is ours too.
	session clientv3.LeaseID
}

// compare is the condition for etcd.
func (f fence) compare() clientv3.Cmp {
	if f.lease == 0 {
		return clientv3.Compare(clientv3.CreateRevision(f.key), "=", 0)
	}
	return clientv3.Compare(clientv3.LeaseValue(f.key), "=", f.lease)
}

// check says why the condition does not hold for what was found.
func (f fence) check(found *clientv3.GetResponse) error {
	if len(found.Kvs) == 0 {
		if f.held {
			return fmt.Errorf("%w: this controller lost its claim of the node when etcd did not hear from it for too long; end the work on it and run again", ErrFenced)
		}
		return nil
	}
	lease := clientv3.LeaseID(found.Kvs[0].Lease)
	if lease == f.lease || (!f.held && lease == f.session) {
		return nil
	}
	var h Holder
	if err := json.Unmarshal(bytes.TrimSpace(found.Kvs[0].Value), &h); err != nil {
		return fmt.Errorf("%w: the node is claimed by somebody unknown (%w); look with etcdctl get %q", ErrFenced, err, f.key)
	}
	return fmt.Errorf("%w: the node is claimed: %s; end the work on it here", ErrFenced, h)
}
