package store

import (
	"context"
	"io"
)

// database is what lies under the store: ordered keys and values in buckets, with
// atomic transactions. bbolt and etcd have it; all that knows nodes, runs and
// events is written once, above it.
type database interface {
	// view runs a function over one state of everything.
	view(func(reader) error) error
	// update commits what a function writes, or nothing of it. The function may run
	// several times, and what it read is what the commit builds on.
	update(func(writer) error) error
	// batch is update for many callers at once: they share the cost of one commit.
	batch(func(writer) error) error
	// capacity is how many keys one update can change.
	capacity() int
	// backup writes everything but rights as a bbolt file.
	backup(io.Writer) error
	// inspect adds what only this database knows to a report.
	inspect(*Report) error
	// arbiter says which of several controllers may do what.
	arbiter
	io.Closer
}

// reader reads. What it returns is the caller's only until view or update end.
type reader interface {
	// get returns nil for a key, or a bucket, that is not there.
	get(bucket string, key []byte) ([]byte, error)
	// walk visits, in order, the keys that begin with prefix and are not before from.
	walk(bucket string, prefix, from []byte, visit func(key, value []byte) error) error
	// last is the number of the newest event; 0 when there was none.
	last() (uint64, error)
}

// writer is what update hands out.
type writer interface {
	get(bucket string, key []byte) ([]byte, error)
	put(bucket string, key, value []byte) error
	del(bucket string, key []byte) error
	// append adds an event under the next number.
	append(event []byte) error
	// fence lets the commit through only while nobody else has the right to work on
	// a node, named cluster/name.
	fence(node string)
}

// arbiter gives out rights: to work on nodes, to lead a site. In a bbolt file
// they hold within the process, which alone has the file open.
type arbiter interface {
	claim(ctx context.Context, keys []string, what string) (*Claim, error)
	holders() ([]Holder, error)
	lead(ctx context.Context, site string) (*Leadership, error)
	leader(site string) (Holder, bool, error)
	alive() error
	// mayWork and mayServe are alive, and that the right to a node or a site was not lost.
	mayWork(node string) error
	mayServe(site string) error
}
