package store

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// leadPoll is how often a controller that waits to lead looks.
	leadPoll = 500 * time.Millisecond
	// leadComplaint is how often it says that it cannot.
	leadComplaint = time.Minute
)

func (s *session) lead(ctx context.Context, site string) (*Leadership, error) {
	var complained time.Time
	for {
		l, err := s.tryLead(ctx, site)
		switch {
		case l != nil:
			return l, nil
		case errors.Is(err, errReadOnly), errors.Is(err, errClosed):
			return nil, err
		case err == nil:
			complained = time.Time{}
		case time.Since(complained) > leadComplaint:
			complained = time.Now()
			s.d.o.Log.Warn("cannot ask etcd to lead; it is asked again", "site", site, "error", err)
		}
		if !pause(ctx, leadPoll) {
			return nil, ctx.Err()
		}
		if s.d.base.Err() != nil {
			return nil, errClosed
		}
	}
}

// tryLead returns nil when another leads.
func (s *session) tryLead(ctx context.Context, site string) (*Leadership, error) {
	lease, lost, err := s.present()
	if err != nil {
		return nil, err
	}
	at := s.d.key(bucketLeaders, []byte(site))
	found, err := (&etcdReader{d: s.d}).fetch(at)
	if err != nil {
		return nil, err
	}
	compare := clientv3.Compare(clientv3.CreateRevision(at), "=", 0)
	if len(found.Kvs) > 0 {
		// One of ours that nobody here knows of is of an attempt whose answer was lost.
		if clientv3.LeaseID(found.Kvs[0].Lease) != lease || s.leading(site) {
			return nil, nil //nolint:nilnil // somebody leads, which is no error
		}
		compare = clientv3.Compare(clientv3.LeaseValue(at), "=", lease)
	}
	value, err := json.Marshal(Holder{Key: site, Controller: s.d.o.Controller, Since: time.Now().UTC()})
	if err != nil {
		return nil, err
	}
	response, err := s.txn(ctx, []clientv3.Cmp{compare}, []clientv3.Op{clientv3.OpPut(at, string(value), clientv3.WithLease(lease))}, nil)
	if err != nil || !response.Succeeded || !s.takeLead(site, lease) {
		return nil, err
	}
	return &Leadership{site: site, lost: lost, resign: s.resigner(site, lease)}, nil
}

func (s *session) leading(site string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leads[site]
}

// takeLead is false when the session was lost meanwhile, or another caller here was quicker.
func (s *session) takeLead(site string, lease clientv3.LeaseID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease != lease || s.leads[site] {
		return false
	}
	s.leads[site] = true
	return true
}

func (s *session) resigner(site string, lease clientv3.LeaseID) func(context.Context) error {
	at := s.d.key(bucketLeaders, []byte(site))
	var once sync.Once
	return func(ctx context.Context) (err error) {
		once.Do(func() {
			_, err = s.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.LeaseValue(at), "=", lease)}, []clientv3.Op{clientv3.OpDelete(at)}, nil)
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.lease == lease {
				delete(s.leads, site)
			}
		})
		return err
	}
}

func (s *session) leader(site string) (h Holder, found bool, err error) {
	err = s.d.view(func(tx reader) (err error) {
		found, err = getJSON(tx, bucketLeaders, []byte(site), &h)
		return err
	})
	return h, found, err
}
