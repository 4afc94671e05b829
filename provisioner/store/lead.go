package store

import (
	"context"
	"fmt"
)

// Leadership is the right to serve a site: to answer its machines.
type Leadership struct {
	site   string
	lost   <-chan struct{}
	resign func(context.Context) error
}

// Lead returns when this controller leads the site, or with ctx's error. The site
// "" is a site too. On etcd the next controller in wait leads at most ten seconds
// after a leader died (with the default TTL); in a file the first to ask leads at once.
func (s *Store) Lead(ctx context.Context, site string) (*Leadership, error) {
	l, err := s.db.lead(ctx, site)
	if err != nil {
		return nil, fmt.Errorf("lead the site %q of the state %s: %w", site, s.path, err)
	}
	return l, nil
}

// MayServe returns nil while this controller is alive and leads a site. It asks
// nobody, as Alive does: ask it before a machine of the site is answered.
func (s *Store) MayServe(site string) error { return s.db.mayServe(site) }

// Leader is the controller that leads a site; false when nobody does.
func (s *Store) Leader(site string) (string, bool, error) {
	h, found, err := s.db.leader(site)
	if err != nil {
		return "", false, fmt.Errorf("read who leads the site %q of the state %s: %w", site, s.path, err)
	}
	return h.Controller, found, nil
}

// Site is the site that is led.
func (l *Leadership) Site() string { return l.site }

// Lost is closed when another controller may lead although this one did not resign.
func (l *Leadership) Lost() <-chan struct{} { return l.lost }

// Resign lets another controller lead. A leadership that was lost is no error.
func (l *Leadership) Resign(ctx context.Context) error {
	if err := l.resign(ctx); err != nil {
		return fmt.Errorf("resign from the site %q: %w; another leads it when this controller ends", l.site, err)
	}
	return nil
}
