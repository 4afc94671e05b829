package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Holder is who has a right: to work on a node, or to lead a site.
type Holder struct {
	// Key is the node as cluster/name, or the site.
	Key        string    `json:"key"`
	Controller string    `json:"controller"`
	What       string    `json:"what,omitempty"`
	Since      time.Time `json:"since"`
}

func (h Holder) String() string {
	text := fmt.Sprintf("%s by %s since %s", h.Key, h.Controller, h.Since.Local().Format(time.DateTime))
	if h.What != "" {
		text += " for " + h.What
	}
	return text
}

// Claim is the exclusive right to work on some nodes.
type Claim struct {
	keys []string // sorted, each once
	// lease is the etcd session that has it; 0 in a file.
	lease int64
	// lost is closed with the session.
	lost    <-chan struct{}
	release func(context.Context) error
}

// Claim takes the exclusive right to work on nodes, named cluster/name: on all of
// them or on none. what is for others to read, such as "install run 2026…". When
// somebody else has one of them the error wraps ErrClaimed and says who has which,
// and since when. A claim that was lost must be released before this controller can
// claim its nodes again: whoever worked under it has to have ended.
func (s *Store) Claim(ctx context.Context, keys []string, what string) (*Claim, error) {
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	c, err := s.db.claim(ctx, keys, what)
	if err != nil {
		return nil, fmt.Errorf("claim %s in the state %s: %w", brief(keys), s.path, err)
	}
	return c, nil
}

// MayWork returns nil while this controller may do something to a node, named
// cluster/name: it is alive, and has not lost the node's claim if it took one. It
// asks nobody, as Alive does: ask it right before every effect on the node, also
// where Alive would say yes again, of a new session that has not the claims of the
// old one. ErrFenced says that the claim was lost.
func (s *Store) MayWork(node string) error { return s.db.mayWork(node) }

// Holders returns who works on which nodes, by node.
func (s *Store) Holders() ([]Holder, error) {
	holders, err := s.db.holders()
	if err != nil {
		return nil, fmt.Errorf("read the claims of the state %s: %w", s.path, err)
	}
	return holders, nil
}

// Keys are the nodes of the claim, as cluster/name, sorted.
func (c *Claim) Keys() []string { return slices.Clone(c.keys) }

// Lost is closed when others may work on the nodes although the claim was not
// released: nothing more may be done to any of them. With a state file it never is.
func (c *Claim) Lost() <-chan struct{} { return c.lost }

// Release gives the nodes back. One that was lost is no error. After another error
// the nodes are free when this controller's session ends.
func (c *Claim) Release(ctx context.Context) error {
	if err := c.release(ctx); err != nil {
		return fmt.Errorf("release %s: %w; they are free when this controller ends", brief(c.keys), err)
	}
	return nil
}

// claimedError says who has what.
func claimedError(holders []Holder) error {
	const shown = 8
	said := make([]string, 0, shown)
	for _, h := range holders[:min(shown, len(holders))] {
		said = append(said, h.String())
	}
	text := strings.Join(said, "; ")
	if more := len(holders) - shown; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return fmt.Errorf("%w: %s; wait for that to end, or leave these nodes out", ErrClaimed, text)
}

// brief names nodes, but not hundreds.
func brief(keys []string) string {
	const shown = 4
	if len(keys) <= shown {
		return strings.Join(keys, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(keys[:shown], ", "), len(keys)-shown)
}
