// Package source watches where an inventory comes from, a folder or a branch of a
// git remote, and yields it generation by generation. A generation is whole and
// valid. What is not is refused as a whole, with everything that is wrong in it,
// while the last good generation goes on.
package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/talos-provision/provision/inventory"
)

// The defaults of Options and of the options of each kind of source.
const (
	DefaultQuiet    = 500 * time.Millisecond
	DefaultMaxQuiet = 5 * time.Second
	DefaultRescan   = time.Minute
	DefaultPoll     = time.Minute
	DefaultTimeout  = 2 * time.Minute
	DefaultKeep     = 2
	// DefaultMaxBytes is for a git source, DefaultMaxBytesOfFolder for a folder, which
	// is not fetched and may hold a machine config for each of many nodes.
	DefaultMaxBytes         = 64 << 20
	DefaultMaxBytesOfFolder = 1 << 30
)

// Options are what every source has in common. The zero value of each field
// stands for its default.
type Options struct {
	// OnGeneration and OnRefusal are told what Run sees, one call at a time, from
	// the goroutine of Run. While they run nothing new is looked at. A refusal
	// that lasts is told once.
	OnGeneration func(Generation)
	OnRefusal    func(Refusal)
	// Check adds findings to those of package inventory: the folder is the one that
	// the nodes' relative paths begin in. An error among them refuses the generation.
	Check func(folder string, nodes []inventory.Node) inventory.Findings
	// Strict makes warnings errors.
	Strict bool
	// AllowEmpty accepts an inventory without a node after one with nodes. It is
	// refused by default: an unmounted folder looks the same.
	AllowEmpty bool
	// Timeout bounds one look; 2 m by default.
	Timeout time.Duration
	// MaxBytes bounds all files of a generation together, and what is fetched for
	// it; 64 MiB by default for git, 1 GiB for a folder.
	MaxBytes int64
	// Log is slog.Default() by default.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	orElse(&o.Timeout, DefaultTimeout)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.OnGeneration == nil {
		o.OnGeneration = func(Generation) {}
	}
	if o.OnRefusal == nil {
		o.OnRefusal = func(Refusal) {}
	}
	return o
}

func (o Options) check() error {
	if o.Timeout < 0 || o.MaxBytes < 0 {
		return errors.New("inventory source: timeout and maxBytes must not be negative: leave them out for the defaults")
	}
	return nil
}

func orElse[T comparable](value *T, standard T) {
	var zero T
	if *value == zero {
		*value = standard
	}
}

// origin is a kind of source.
type origin interface {
	// head names what is the newest now.
	head(ctx context.Context) (*candidate, error)
	// kept is the last good generation from before this process; nil if there is none.
	kept(ctx context.Context) *candidate
	// watch calls poke when a look is worth it, until the context ends.
	watch(ctx context.Context, poke func()) error
	// delay is how long to wait for the next look after so many failures in a row.
	delay(failures int) time.Duration
	// settle is how long no change must come before a look, and the longest wait for that.
	settle() (quiet, longest time.Duration)
	// lasting says that what was refused under an ID stays refused.
	lasting() bool
}

// candidate is what may become a generation.
type candidate struct {
	id string
	// open makes its files available.
	open func(ctx context.Context) (opened, error)
}

// opened are the files of a candidate. The functions may be nil.
type opened struct {
	folder string
	commit *Commit
	load   func() (*inventory.Tree, inventory.Findings, error)
	// confirm fails if the files changed while they were read.
	confirm func(ctx context.Context) error
	// keep and drop say what became of it.
	keep func() error
	drop func()
}

// errUnsettled says that the files changed while they were read.
var errUnsettled = errors.New("the files change while they are read")

// Source watches one inventory. Its methods may be used concurrently.
type Source struct {
	options Options
	origin  origin
	name    string // for messages: never a secret
	reload  chan struct{}
	running atomic.Bool

	looking sync.Mutex // one look at a time
	mu      sync.Mutex // status
	status  Status
	known   bool // status.Good is one
}

func newSource(name string, options Options, o origin) *Source {
	return &Source{options: options, origin: o, name: name, reload: make(chan struct{}, 1)}
}

// Name says what is watched, for messages; it holds no secret.
func (s *Source) Name() string { return s.name }

// Status is how things stand.
func (s *Source) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Reload asks Run for a look now, also at what was refused before. It does not wait.
func (s *Source) Reload() {
	select {
	case s.reload <- struct{}{}:
	default: // one is asked for already
	}
}

// Load looks now and gives the generation in use after that. It calls no callback.
// If the newest is refused, the last good generation is given, which for a git
// remote may be one from before this process: Status has the refusal then. Without
// any the error is a *Refusal.
func (s *Source) Load(ctx context.Context) (Generation, error) {
	_, refusal := s.look(ctx, true)
	for range maxUnsettled {
		if refusal == nil || !errors.Is(refusal, errUnsettled) || !s.pause(ctx) {
			break
		}
		_, refusal = s.look(ctx, true)
	}
	if refusal != nil && !s.hasGood() {
		s.restore(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known {
		return Generation{}, refusal
	}
	return s.status.Good, nil
}

// pause waits for the files to settle; false if the context ended.
func (s *Source) pause(ctx context.Context) bool {
	quiet, _ := s.origin.settle()
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (s *Source) hasGood() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known
}

// restore goes on with what was good before this process.
func (s *Source) restore(ctx context.Context) {
	s.looking.Lock()
	defer s.looking.Unlock()
	timed, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	c := s.origin.kept(timed)
	if c == nil {
		return
	}
	generation, err := s.judge(timed, c)
	if err != nil {
		s.options.Log.Warn("the last good inventory cannot be used any more", "source", s.name, "generation", c.id, "error", err)
		return
	}
	generation.Restored = true
	s.options.Log.Warn("the newest inventory is not available: going on with the last good one", "source", s.name, "generation", c.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Good, s.known = generation, true
}

// look looks at the newest. It gives the generation if there is a new one, and
// the refusal if there is one.
func (s *Source) look(ctx context.Context, again bool) (*Generation, *Refusal) {
	s.looking.Lock()
	defer s.looking.Unlock()
	before := s.Status()
	timed, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	c, err := s.origin.head(timed)
	switch {
	case err != nil:
		return nil, s.refuse("", err)
	case s.hasGood() && c.id == before.Good.ID:
		s.content(nil)
		return nil, nil
	case !again && s.origin.lasting() && before.Refusal != nil && before.Refusal.ID == c.id:
		return nil, s.refuse(c.id, before.Refusal)
	}
	generation, err := s.judge(timed, c)
	if err != nil {
		return nil, s.refuse(c.id, err)
	}
	s.content(&generation)
	return &generation, nil
}

// content notes that the newest is good.
func (s *Source) content(newer *Generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if newer == nil && s.status.Refusal != nil {
		s.options.Log.Info("the inventory is again the one in use", "source", s.name, "generation", s.status.Good.ID)
	}
	if newer != nil {
		s.status.Good, s.known = *newer, true
	}
	s.status.Good.Restored = false
	s.status.Refusal, s.status.Failures, s.status.Looked = nil, 0, time.Now()
}

// refuse notes that the newest is not to be used.
func (s *Source) refuse(id string, err error) *Refusal {
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		refusal = &Refusal{Reason: Unreadable, Err: err}
	}
	told := *refusal
	told.ID = id
	if told.Time.IsZero() {
		told.Time = time.Now()
	}
	if told.Err == nil {
		told.Err = fmt.Errorf("%s is refused", s.name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.status.Refusal; last != nil && last.same(&told) {
		told.Time = last.Time // since when it lasts
	}
	if last := s.status.Refusal; last != nil && last.Reason != told.Reason {
		s.status.Failures = 0
	}
	s.status.Refusal, s.status.Looked = &told, time.Now()
	s.status.Failures++
	return &told
}
