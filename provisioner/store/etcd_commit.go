package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// committer gathers the changes of many callers into few transactions, one after
// the other: a fleet that moves at once costs etcd a commit for some forty records.
//
// Each transaction compares and writes the sequence. So nothing that a change read
// can have been changed meanwhile by another controller, and a commit whose answer
// was lost can be told from one that was not done.
type committer struct {
	d      *etcdDB
	queue  chan *change
	writer string // tells this store's commits from others'

	// The rest is of run alone.
	waiting  []*change // which did not fit into the last transaction
	revision int64     // of the sequence, as known last; 0 when it is not
	sequence sequence
	count    uint64
}

// change is one caller's part of a transaction.
type change struct {
	work func(writer) error
	done chan error // has room for one
	// taken is set by whoever decides first: run takes it, or its caller gives it up.
	taken atomic.Bool
}

// gathered is how many changes are looked at for one transaction.
const gathered = 64

// do returns when the change is committed or known not to be, or when the timeout is
// over: that of the wait for its turn, then that of the commit. A change that did not
// fit into a transaction has one more turn.
func (c *committer) do(work func(writer) error) error {
	change := &change{work: work, done: make(chan error, 1)}
	ctx, cancel := context.WithTimeout(c.d.base, c.d.o.Timeout)
	defer cancel()
	select {
	case c.queue <- change:
	case <-ctx.Done():
		return c.d.explain(context.DeadlineExceeded)
	}
	select {
	case err := <-change.done:
		return err
	case <-ctx.Done():
	}
	if change.taken.CompareAndSwap(false, true) {
		return c.d.explain(context.DeadlineExceeded)
	}
	return <-change.done // it is being committed, which takes no longer than the timeout
}

// run commits until the store is closed.
func (c *committer) run() {
	for {
		if len(c.waiting) == 0 {
			select {
			case first := <-c.queue:
				c.waiting = append(c.waiting, first)
			case <-c.d.base.Done():
				return
			}
		}
		c.gather()
		group := c.take()
		ctx, cancel := context.WithTimeout(c.d.base, c.d.o.Timeout)
		c.commit(ctx, group)
		cancel()
	}
}

// gather adds what is in the queue already.
func (c *committer) gather() {
	for len(c.waiting) < gathered {
		select {
		case next := <-c.queue:
			c.waiting = append(c.waiting, next)
		default:
			return
		}
	}
}

// take makes sure that the callers still wait.
func (c *committer) take() []*change {
	var group []*change
	for _, w := range c.waiting {
		if w.taken.CompareAndSwap(false, true) {
			group = append(group, w)
		}
	}
	c.waiting = nil
	return group
}

// putBack leaves changes for the next transaction.
func (c *committer) putBack(changes []*change) {
	for _, w := range changes {
		w.taken.Store(false)
		c.waiting = append(c.waiting, w)
	}
}

// commit brings a group to its end: each change is committed, refused, or put back.
func (c *committer) commit(ctx context.Context, group []*change) {
	tried := map[string][]*change{} // what each attempt held
	for len(group) > 0 {
		if err := c.know(ctx); err != nil {
			answer(group, err)
			return
		}
		if done := tried[c.sequence.commit]; done != nil { // its answer was lost
			answer(done, nil)
			group = without(group, done)
			clear(tried)
			continue
		}
		tx, fit, rest := c.assemble(ctx, group)
		c.putBack(rest)
		if group = fit; len(group) == 0 {
			return
		}
		c.count++
		next := sequence{tx.last, fmt.Sprintf("%s-%d", c.writer, c.count)}
		tried[next.commit] = group
		fenced, err := c.try(ctx, tx, next)
		switch {
		case err == nil && c.sequence == next:
			answer(group, nil)
			return
		case err == nil:
			group = c.refuse(group, tx, fenced)
		case transient(err) && pause(ctx, retryPause):
			c.revision = 0 // it may have been committed
		default:
			c.revision = 0
			answer(group, c.d.explain(err))
			return
		}
	}
}

func answer(changes []*change, err error) {
	for _, w := range changes {
		w.done <- err
	}
}

func without(all, some []*change) (left []*change) {
	gone := make(map[*change]bool, len(some))
	for _, w := range some {
		gone[w] = true
	}
	for _, w := range all {
		if !gone[w] {
			left = append(left, w)
		}
	}
	return left
}

// know makes sure that the sequence is known.
func (c *committer) know(ctx context.Context) error {
	if c.revision != 0 {
		return nil
	}
	r := &etcdReader{d: c.d}
	response, err := r.fetch(c.d.key(bucketMeta, []byte(keySequence)))
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return c.d.explain(context.DeadlineExceeded)
	}
	return c.learn(response)
}

// learn takes the sequence over from an answer.
func (c *committer) learn(response *clientv3.GetResponse) (err error) {
	if len(response.Kvs) == 0 {
		c.revision = 0
		return fmt.Errorf("%w: somebody emptied %s/ while it was in use; restore a backup", ErrDamaged, c.d.at.prefix)
	}
	c.revision = response.Kvs[0].ModRevision
	c.sequence, err = parseSequence(response.Kvs[0].Value)
	return err
}

// assemble runs the changes one after the other into one transaction. A change that
// fails is answered; those that do not fit are the rest.
func (c *committer) assemble(ctx context.Context, group []*change) (tx *etcdTx, fit, rest []*change) {
	tx = newEtcdTx(c.d, c.sequence.last)
	for i, w := range group {
		if ctx.Err() != nil { // the changes before it took all the time to read
			answer(group[i:], c.d.explain(context.DeadlineExceeded))
			break
		}
		part := tx.part()
		if err := w.work(part); err != nil {
			w.done <- err
			continue
		}
		if !part.fits() {
			if len(fit) == 0 {
				w.done <- errors.New("too much for one transaction of etcd")
				continue
			}
			rest = append(rest, w)
			continue
		}
		part.merge(w)
		fit = append(fit, w)
	}
	return tx, fit, rest
}

// try commits once. It returns the fences that did not hold.
func (c *committer) try(ctx context.Context, tx *etcdTx, next sequence) (fenced map[string]error, err error) {
	sequenceKey := c.d.key(bucketMeta, []byte(keySequence))
	nodes := slices.Collect(maps.Keys(tx.fences))
	compare := append(make([]clientv3.Cmp, 0, len(nodes)+1), clientv3.Compare(clientv3.ModRevision(sequenceKey), "=", c.revision))
	look := append(make([]clientv3.Op, 0, len(nodes)+1), clientv3.OpGet(sequenceKey))
	for _, node := range nodes {
		compare = append(compare, tx.fences[node].compare())
		look = append(look, clientv3.OpGet(tx.fences[node].key))
	}
	ctx, cancel := context.WithTimeout(ctx, c.d.o.Timeout/3)
	defer cancel()
	response, err := c.d.client.Txn(ctx).If(compare...).Then(append(tx.ops(), clientv3.OpPut(sequenceKey, next.String()))...).Else(look...).Commit()
	if err != nil {
		return nil, err
	}
	if response.Succeeded {
		c.revision, c.sequence = response.Header.GetRevision(), next
		return nil, nil
	}
	found := func(i int) *clientv3.GetResponse {
		return (*clientv3.GetResponse)(response.Responses[i].GetResponseRange())
	}
	fenced = map[string]error{}
	for i, node := range nodes {
		if err := tx.fences[node].check(found(i + 1)); err != nil {
			fenced[node] = err
		}
	}
	return fenced, c.learn(found(0))
}

// refuse answers the changes that were fenced off; the others are tried again.
func (*committer) refuse(group []*change, tx *etcdTx, fenced map[string]error) (left []*change) {
	for _, w := range group {
		var err error
		for _, node := range tx.fencesOf[w] {
			err = errors.Join(err, fenced[node])
		}
		if err == nil {
			left = append(left, w)
			continue
		}
		w.done <- err
	}
	return left
}
