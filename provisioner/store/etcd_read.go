package store

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// pageKeys is how many keys one answer of etcd holds: answers stay small.
const pageKeys = 500

// etcdReader reads everything as it was at one revision, that of its first answer.
type etcdReader struct {
	d        *etcdDB
	revision int64
}

func (r *etcdReader) fetch(key string, opts ...clientv3.OpOption) (response *clientv3.GetResponse, err error) {
	if r.revision != 0 {
		opts = append(opts, clientv3.WithRev(r.revision))
	}
	err = r.d.request(func(ctx context.Context) (err error) {
		response, err = r.d.client.Get(ctx, key, opts...)
		return err
	})
	if err == nil && r.revision == 0 {
		r.revision = response.Header.GetRevision()
	}
	return response, err
}

func (r *etcdReader) get(bucket string, key []byte) ([]byte, error) {
	response, err := r.fetch(r.d.key(bucket, key))
	if err != nil || len(response.Kvs) == 0 {
		return nil, err
	}
	return response.Kvs[0].Value, nil
}

func (r *etcdReader) walk(bucket string, prefix, from []byte, visit func(key, value []byte) error) error {
	root := r.d.key(bucket, nil)
	end := clientv3.WithRange(clientv3.GetPrefixRangeEnd(root + string(prefix)))
	if bytes.Compare(from, prefix) < 0 {
		from = prefix
	}
	start := root + string(from)
	for {
		response, err := r.fetch(start, end, clientv3.WithLimit(pageKeys))
		if err != nil {
			return err
		}
		for _, kv := range response.Kvs {
			if err := visit([]byte(strings.TrimPrefix(string(kv.Key), root)), kv.Value); err != nil {
				return err
			}
		}
		if !response.More || len(response.Kvs) == 0 {
			return nil
		}
		start = string(response.Kvs[len(response.Kvs)-1].Key) + "\x00"
	}
}

func (r *etcdReader) last() (uint64, error) {
	raw, err := r.get(bucketMeta, []byte(keySequence))
	if err != nil {
		return 0, err
	}
	s, err := parseSequence(raw)
	return s.last, err
}

// sequence is what every commit writes: the number of the newest event, and which
// commit it was. Two commits from one and the same state exclude each other by it,
// and whoever got no answer can tell whether the commit was done.
type sequence struct {
	last   uint64
	commit string // "" before the first
}

func (s sequence) String() string { return fmt.Sprintf("%d %s", s.last, s.commit) }

func parseSequence(raw []byte) (s sequence, err error) {
	if _, err := fmt.Sscanf(string(raw), "%d", &s.last); err != nil {
		return s, fmt.Errorf("%w: the number of the newest event is %q; restore a backup into another prefix", ErrDamaged, raw)
	}
	_, s.commit, _ = strings.Cut(string(raw), " ")
	return s, nil
}
