// Package store keeps what must survive the death of the controller: the state
// of every node, the events that led there, the runs, and who may work on what
// (I7, I8). It is a bbolt file, or, for several controllers, a prefix in etcd. A
// transaction is durable when it returns.
//
// Most methods take no context: a record must be written even while a run is
// being interrupted. They bound themselves in time instead. On etcd each request
// gets Options.Timeout; a call that reads much makes one request a page. On a file
// the disk is waited for.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// ErrInUse is returned when another process has the state file open.
var ErrInUse = errors.New("state is in use")

// ErrNoState is returned when a state is opened to be read and there is none yet.
var ErrNoState = errors.New("no state yet")

// ErrDamaged is returned when the state file is not sound.
var ErrDamaged = errors.New("state is damaged")

// ErrOutOfReach is returned by Alive when etcd has not confirmed this controller's
// session lately, and by what needs such a session.
var ErrOutOfReach = errors.New("state is out of reach")

// ErrClaimed is returned by Claim when somebody else works on one of the nodes.
var ErrClaimed = errors.New("claimed")

// ErrFenced is returned when a record is written of a node that somebody else may
// work on by now, or that this controller had claimed and lost. Nothing was written.
var ErrFenced = errors.New("fenced off")

// errReadOnly is of a write to a state that was opened to be read.
var errReadOnly = errors.New("the state was opened to be read only")

// Store is an open state. It is safe for concurrent use.
type Store struct {
	db database
	// path is the location as messages name it.
	path string
}

// Open opens the state file at path and creates it, and its folder, when there
// is none. A file that is not a state of this program, or is torn, is an error:
// missing or strange state is never taken for an empty fleet (I6). A state of an
// older schema is copied aside, to state.db.schema-1, and migrated.
func Open(path string) (*Store, error) {
	return openPath(path, Options{}.withDefaults())
}

// OpenReadOnly opens the state file to look at it; one of an older schema is read
// as it is. ErrNoState says that no run has written one yet.
func OpenReadOnly(path string) (*Store, error) {
	return openPath(path, Options{ReadOnly: true}.withDefaults())
}

func openPath(path string, o Options) (*Store, error) {
	open := openBolt
	if o.ReadOnly {
		open = readBolt
	}
	db, err := open(path, o.Controller)
	if err != nil {
		return nil, err
	}
	return &Store{db: db, path: path}, nil
}

// Connect opens a state wherever it is: location is the path of a bbolt file, or
// etcd://host:port,host:port[/prefix], or the same with etcd+tls. See Open and
// OpenReadOnly for what is refused.
func Connect(ctx context.Context, location string, o Options) (*Store, error) {
	o = o.withDefaults()
	if !IsEtcd(location) {
		return openPath(location, o)
	}
	at, err := parseLocation(location)
	if err != nil {
		return nil, err
	}
	db, err := openEtcd(ctx, at, o)
	if err != nil {
		return nil, err
	}
	return &Store{db: db, path: at.String()}, nil
}

// Location is where the state is, as messages name it. It holds no secret.
func (s *Store) Location() string { return s.path }

// Alive returns nil when etcd has confirmed this controller's session less than
// three quarters of the TTL ago, by the local monotonic clock. Else it returns
// ErrOutOfReach: others may take over soon, and nothing new may be begun. It asks
// nobody and costs nothing: ask it before every effect that cannot be taken back.
// A state file is always alive.
func (s *Store) Alive() error { return s.db.alive() }

// Backup writes the whole state to w as a bbolt file, consistent while the state
// is in use. The form is the same from a file and from etcd; Restore reads it.
// Claims and leaderships are not in it.
func (s *Store) Backup(w io.Writer) error {
	if err := s.db.backup(w); err != nil {
		return fmt.Errorf("back up the state %s: %w; nothing of it was changed", s.path, err)
	}
	return nil
}

// Close lets go of the state, and of all rights that were given out.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close the state %s: %w", s.path, err)
	}
	return nil
}
