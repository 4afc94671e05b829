package store

import (
	"encoding/json"
	"fmt"
)

// Report is what Check finds.
type Report struct {
	Location string `json:"location"`
	// Backend is bbolt or etcd.
	Backend string `json:"backend"`
	Schema  string `json:"schema"`
	// Bytes is the size of the file, or of all keys and values in etcd.
	Bytes   int64         `json:"bytes"`
	Buckets []BucketCount `json:"buckets"`
	// LastEvent is the number of the newest event, 0 when there was none; NewestEvent
	// is the event, if it is still kept.
	LastEvent   uint64 `json:"lastEvent"`
	NewestEvent *Event `json:"newestEvent,omitempty"`
	// UnfinishedRuns were begun and not finished: the next run carries them on.
	UnfinishedRuns []Run `json:"unfinishedRuns"`
	// Problems is what is not sound, the first fifty of it; empty for a good state.
	Problems []string `json:"problems"`
}

// BucketCount is how much one kind of record there is.
type BucketCount struct {
	Name  string `json:"name"`
	Keys  int    `json:"keys"`
	Bytes int64  `json:"bytes"`
}

// problem notes what is not sound.
func (r *Report) problem(format string, args ...any) {
	const most = 50
	if len(r.Problems) < most {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// Check reads everything and says whether it is sound; it changes nothing. An error
// says that the state could not be read to its end.
func (s *Store) Check() (Report, error) {
	r := Report{Location: s.path, UnfinishedRuns: []Run{}, Problems: []string{}}
	err := s.db.view(func(tx reader) error {
		schema, err := tx.get(bucketMeta, []byte(keySchema))
		if err != nil {
			return err
		}
		r.Schema = string(schema)
		for _, bucket := range keptBuckets() {
			if err := r.count(tx, bucket); err != nil {
				return err
			}
		}
		return r.newest(tx)
	})
	if err == nil {
		err = s.db.inspect(&r)
	}
	if err != nil {
		return r, fmt.Errorf("check the state %s: %w", s.path, err)
	}
	return r, nil
}

func (r *Report) count(tx reader, bucket kept) error {
	c := BucketCount{Name: bucket.name}
	err := tx.walk(bucket.name, nil, nil, func(key, value []byte) error {
		c.Keys++
		c.Bytes += int64(len(key) + len(value))
		if err := bucket.decode(key, value); err != nil {
			r.problem("%s %q does not decode: %v", bucket.name, key, err)
			return nil
		}
		if bucket.name != bucketRuns {
			return nil
		}
		var run Run
		if err := json.Unmarshal(value, &run); err == nil && run.Finished.IsZero() {
			r.UnfinishedRuns = append(r.UnfinishedRuns, run)
		}
		return nil
	})
	r.Buckets = append(r.Buckets, c)
	return err
}

// newest looks at the newest event, and that none has a higher number.
func (r *Report) newest(tx reader) (err error) {
	if r.LastEvent, err = tx.last(); err != nil {
		return err
	}
	raw, err := tx.get(bucketEvents, eventKey(r.LastEvent))
	if err != nil {
		return err
	}
	var e Event
	if raw != nil && json.Unmarshal(raw, &e) == nil { // one that does not decode was told
		r.NewestEvent = &e
	}
	return tx.walk(bucketEvents, nil, eventKey(r.LastEvent+1), func(key, _ []byte) error {
		r.problem("events: %q is newer than the newest", key)
		return nil
	})
}

// inspect lets bbolt look at its pages. Writers wait for that long: what they free
// meanwhile would look lost.
func (b *boltDB) inspect(r *Report) error {
	r.Backend = "bbolt"
	return guard(func() error {
		tx, err := b.db.Begin(!b.db.IsReadOnly())
		if err != nil {
			return err
		}
		r.Bytes = tx.Size()
		for err := range tx.Check() {
			r.problem("file: %v", err)
		}
		return tx.Rollback()
	})
}

func (d *etcdDB) inspect(r *Report) error {
	r.Backend = "etcd"
	for _, b := range r.Buckets {
		r.Bytes += b.Bytes
	}
	return nil
}
