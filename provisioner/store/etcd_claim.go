package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// claimChunk is how many nodes one transaction claims or frees; etcd takes 128.
const claimChunk = 100

func (s *session) claim(ctx context.Context, keys []string, what string) (*Claim, error) {
	lease, lost, err := s.present()
	if err != nil {
		return nil, err
	}
	c := &Claim{keys: keys, lease: int64(lease), lost: lost}
	if err := s.reserve(c); err != nil {
		return nil, err
	}
	for chunk := range slices.Chunk(keys, claimChunk) {
		if err := s.claimSome(ctx, chunk, what, lease); err != nil {
			return nil, errors.Join(err, s.undo(c))
		}
	}
	var once sync.Once
	c.release = func(ctx context.Context) (err error) {
		once.Do(func() {
			err = s.free(ctx, c)
			s.forget(c)
		})
		return err
	}
	return c, nil
}

// reserve makes the claim known to the fences. A node is in one claim at most.
func (s *session) reserve(c *Claim) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var own []Holder
	for _, key := range c.keys {
		if s.claims[key] != nil {
			own = append(own, Holder{Key: key, Controller: "this controller itself"})
		}
	}
	if own != nil {
		return claimedError(own)
	}
	for _, key := range c.keys {
		s.claims[key] = c
	}
	return nil
}

func (s *session) forget(c *Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range c.keys {
		if s.claims[key] == c {
			delete(s.claims, key)
		}
	}
}

// claimSome takes some nodes with one transaction. Nodes that this session has
// already are of an attempt whose answer was lost; they make it a second one.
func (s *session) claimSome(ctx context.Context, keys []string, what string, lease clientv3.LeaseID) error {
	for ours := map[string]bool{}; ; {
		compare, put, look, err := s.claimOps(keys, ours, what, lease)
		if err != nil {
			return err
		}
		response, err := s.txn(ctx, compare, put, look)
		if err != nil || response.Succeeded {
			return err
		}
		before := len(ours)
		var others []Holder
		for i, key := range keys {
			h, found, mine, err := holderOf(response, i, lease)
			switch {
			case err != nil:
				return err
			case found && mine:
				ours[key] = true
			case found:
				others = append(others, h)
			}
		}
		if others != nil {
			return claimedError(others)
		}
		if len(ours) == before {
			return errors.New("some of the nodes were freed at that moment; try again")
		}
	}
}

// claimOps is a transaction that takes nodes that nobody has, and those of ours.
func (s *session) claimOps(keys []string, ours map[string]bool, what string, lease clientv3.LeaseID) (compare []clientv3.Cmp, put, look []clientv3.Op, err error) {
	for _, key := range keys {
		at := s.d.key(bucketClaims, []byte(key))
		holder, err := json.Marshal(Holder{Key: key, Controller: s.d.o.Controller, What: what, Since: time.Now().UTC()})
		if err != nil {
			return nil, nil, nil, err
		}
		condition := clientv3.Compare(clientv3.CreateRevision(at), "=", 0)
		if ours[key] {
			condition = clientv3.Compare(clientv3.LeaseValue(at), "=", lease)
		}
		compare = append(compare, condition)
		put = append(put, clientv3.OpPut(at, string(holder), clientv3.WithLease(lease)))
		look = append(look, clientv3.OpGet(at))
	}
	return compare, put, look, nil
}

// holderOf reads one answer of a transaction that looked.
func holderOf(response *clientv3.TxnResponse, i int, lease clientv3.LeaseID) (h Holder, found, mine bool, err error) {
	kvs := response.Responses[i].GetResponseRange().GetKvs()
	if len(kvs) == 0 {
		return h, false, false, nil
	}
	if err := json.Unmarshal(kvs[0].Value, &h); err != nil {
		return h, true, false, fmt.Errorf("%w: a claim in etcd is not readable: %w; look with etcdctl get %q", ErrDamaged, err, kvs[0].Key)
	}
	return h, true, clientv3.LeaseID(kvs[0].Lease) == lease, nil
}

// txn is a transaction on rights, within the timeout.
func (s *session) txn(ctx context.Context, compare []clientv3.Cmp, then, otherwise []clientv3.Op) (response *clientv3.TxnResponse, err error) {
	err = s.d.request(func(bound context.Context) error {
		if ctx.Err() != nil {
			return context.Canceled // and not its deadline, which would be tried again
		}
		bound, cancel := context.WithCancel(bound)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		response, err = s.d.client.Txn(bound).If(compare...).Then(then...).Else(otherwise...).Commit()
		return err
	})
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return response, err
}

// free deletes the claim's keys, as far as its session has them.
func (s *session) free(ctx context.Context, c *Claim) error {
	lease := clientv3.LeaseID(c.lease)
	for chunk := range slices.Chunk(c.keys, claimChunk) {
		compare := make([]clientv3.Cmp, 0, len(chunk))
		del, look := make([]clientv3.Op, 0, len(chunk)), make([]clientv3.Op, 0, len(chunk))
		for _, key := range chunk {
			at := s.d.key(bucketClaims, []byte(key))
			compare = append(compare, clientv3.Compare(clientv3.LeaseValue(at), "=", lease))
			del = append(del, clientv3.OpDelete(at))
			look = append(look, clientv3.OpGet(at))
		}
		response, err := s.txn(ctx, compare, del, look)
		if err != nil {
			return err
		}
		if response.Succeeded {
			continue
		}
		for i, key := range chunk { // some are gone: one by one
			if kvs := response.Responses[i].GetResponseRange().GetKvs(); len(kvs) > 0 && clientv3.LeaseID(kvs[0].Lease) == lease {
				at := s.d.key(bucketClaims, []byte(key))
				if _, err := s.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.LeaseValue(at), "=", lease)}, []clientv3.Op{clientv3.OpDelete(at)}, nil); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// undo takes back what a failed claim got, even if its caller has no time left.
func (s *session) undo(c *Claim) error {
	defer s.forget(c)
	if err := s.free(s.d.base, c); err != nil {
		return fmt.Errorf("give back what was claimed: %w; it is free when this controller ends", err)
	}
	return nil
}

func (s *session) holders() ([]Holder, error) { return listJSON[Holder](s.d, bucketClaims, nil) }
