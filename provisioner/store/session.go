package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// session is this controller's life in etcd's eyes: a lease that it keeps, and to
// which all of its rights are bound. When the lease ends the rights are lost, and a
// new session begins without any.
type session struct {
	d *etcdDB

	mu    sync.Mutex
	lease clientv3.LeaseID // 0 while there is none
	ttl   time.Duration    // as etcd granted it
	// confirmed is when the last request was sent that etcd answered: the lease
	// lives for a TTL from then at least.
	confirmed time.Time
	lost      chan struct{} // closed with the lease
	// claims are those not yet released, of past sessions too, by cluster/name.
	claims map[string]*Claim
	ending bool
	// leads are the sites that are led from here, by site.
	leads map[string]bool
}

// beats is how often etcd is heard from within a TTL.
const beats = 4

// renew begins a session. The caller has seen to it that the old one is over.
func (s *session) renew() error {
	seconds := int64(math.Ceil(s.d.o.TTL.Seconds()))
	return s.d.request(func(ctx context.Context) error {
		sent := time.Now()
		granted, err := s.d.client.Grant(ctx, seconds)
		if err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lease, s.ttl, s.confirmed = granted.ID, time.Duration(granted.TTL)*time.Second, sent
		s.lost = make(chan struct{})
		if s.claims == nil {
			s.claims, s.leads = map[string]*Claim{}, map[string]bool{}
		}
		return nil
	})
}

// keep holds the session, and begins a new one whenever it is lost.
func (s *session) keep() {
	ctx := s.d.base
	for ctx.Err() == nil {
		err := s.beatUntilLost(ctx)
		if !s.lose() || ctx.Err() != nil {
			return
		}
		s.d.o.Log.Warn("the session with etcd was lost: what was claimed here is free for others", "state", s.d.at.String(), "error", err)
		for err = s.renew(); err != nil && pause(ctx, time.Second); err = s.renew() {
			s.d.o.Log.Warn("no new session with etcd yet", "state", s.d.at.String(), "error", err)
		}
		if err == nil {
			s.d.o.Log.Info("a new session with etcd has begun", "state", s.d.at.String())
		}
	}
}

// beatUntilLost keeps the lease until etcd says that it is over, or may think so.
func (s *session) beatUntilLost(ctx context.Context) error {
	s.mu.Lock()
	lease, every, confirmed := s.lease, s.ttl/beats, s.confirmed
	s.mu.Unlock()
	for {
		if !pause(ctx, time.Until(confirmed.Add(every))) {
			return ctx.Err()
		}
		sent, err := s.beat(ctx, lease, every)
		switch {
		case err == nil:
			confirmed = sent
			s.mu.Lock()
			s.confirmed = sent
			s.mu.Unlock()
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			return err
		case time.Since(confirmed) >= every*beats:
			return fmt.Errorf("etcd did not answer for %v: %w", time.Since(confirmed).Round(time.Millisecond), err)
		default:
			pause(ctx, min(every/2, 2*retryPause))
		}
	}
}

// beat asks etcd once to keep the lease. What counts is when it was asked: the
// answer may lie unread in a process that is stopped.
func (s *session) beat(ctx context.Context, lease clientv3.LeaseID, within time.Duration) (sent time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	sent = time.Now()
	stream, err := etcdserverpb.NewLeaseClient(s.d.client.ActiveConnection()).LeaseKeepAlive(clientv3.WithRequireLeader(ctx))
	if err != nil {
		return sent, err
	}
	if err := stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(lease)}); err != nil {
		return sent, err
	}
	answer, err := stream.Recv()
	if err == nil && answer.GetTTL() <= 0 {
		err = rpctypes.ErrLeaseNotFound
	}
	return sent, err
}

// lose ends the session here; false says that the store is being closed.
func (s *session) lose() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease != 0 {
		s.lease = 0
		clear(s.leads)
		close(s.lost)
	}
	return !s.ending
}

// end gives the lease back, and with it every right.
func (s *session) end() {
	s.mu.Lock()
	lease := s.lease
	s.ending = true
	s.mu.Unlock()
	if lease == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(s.d.base, s.d.o.Timeout/3)
	defer cancel()
	_, _ = s.d.client.Revoke(ctx, lease) // else it ends by itself, a TTL from now
	s.lose()
}

// present returns the session's lease, and what is closed with it.
func (s *session) present() (clientv3.LeaseID, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.d.o.ReadOnly:
		return 0, nil, errReadOnly
	case s.lease == 0:
		return 0, nil, fmt.Errorf("%w: there is no session with etcd at this moment; see whether it runs and has a quorum: etcdctl endpoint status", ErrOutOfReach)
	}
	return s.lease, s.lost, nil
}

// alive compares with the clock only.
func (s *session) alive() error {
	if s.d.o.ReadOnly {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.living()
}

// mayWork is alive in the session that has the node's claim: a process that was
// stopped has a new session before all that ran in the old one has noticed.
func (s *session) mayWork(node string) error {
	if s.d.o.ReadOnly {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.living(); err != nil {
		return err
	}
	if c := s.claims[node]; c != nil && clientv3.LeaseID(c.lease) != s.lease {
		return fmt.Errorf("%w: the claim on %s was lost; whoever has it now goes on", ErrFenced, node)
	}
	return nil
}

// mayServe is alive in the session that has the leadership.
func (s *session) mayServe(site string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.living(); err != nil {
		return err
	}
	if !s.leads[site] {
		return fmt.Errorf("%w: the leadership of the site %q was lost; whoever has it now goes on", ErrFenced, site)
	}
	return nil
}

// living is alive, with the lock held.
func (s *session) living() error {
	silent := time.Since(s.confirmed)
	if s.lease != 0 && silent < s.ttl-s.ttl/beats {
		return nil
	}
	return fmt.Errorf("%w: etcd at %s has not confirmed this controller for %v; nothing new is begun until it does: etcdctl endpoint status", ErrOutOfReach, s.d.at, silent.Round(time.Millisecond))
}

// fence is the condition under which this controller may write of a node.
func (s *session) fence(node string) fence {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := fence{key: s.d.key(bucketClaims, []byte(node)), session: s.lease}
	if c := s.claims[node]; c != nil {
		f.held, f.lease = true, clientv3.LeaseID(c.lease)
	}
	return f
}
