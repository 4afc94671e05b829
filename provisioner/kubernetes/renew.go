package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errTaken: the Lease is another's, or is gone.
var errTaken = errors.New("the Lease of the upgrade is no longer ours: another controller took it, or somebody deleted it; look at both before going on")

// renew gives signs of life until it is stopped or the Lease is lost. An API that
// does not answer is asked again: control planes reboot one after the other.
func (l *Lock) renew(ctx context.Context) {
	defer close(l.done)
	tick := time.NewTicker(l.options.Renew)
	defer tick.Stop()
	heard := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := l.write(ctx, func(lease *coordinationv1.Lease) {
			now := metav1.NowMicro()
			lease.Spec.RenewTime = &now
		})
		switch {
		case err == nil:
			heard = time.Now()
			continue
		case ctx.Err() != nil:
			return
		case errors.Is(err, errTaken):
		case time.Since(heard) < l.options.Duration:
			continue
		default:
			err = fmt.Errorf("the Lease of the upgrade could not be renewed for %v, so another controller may take the cluster: %w", l.options.Duration, err)
		}
		l.mu.Lock()
		l.lost = err
		l.mu.Unlock()
		if l.options.Lost != nil {
			l.options.Lost(err)
		}
		return
	}
}

// write changes the Lease while it is ours.
func (l *Lock) write(ctx context.Context, change func(*coordinationv1.Lease)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	leases := l.cluster.client.CoordinationV1().Leases(LeaseNamespace)
	for {
		next := l.lease.DeepCopy()
		change(next)
		written, err := leases.Update(ctx, next, metav1.UpdateOptions{FieldManager: manager})
		switch {
		case err == nil:
			l.lease = written
			return nil
		case apierrors.IsNotFound(err):
			return errTaken
		case !apierrors.IsConflict(err):
			return l.cluster.failure(ctx, "renew the Lease of the upgrade", err)
		}
		// Somebody wrote it; that may have been an answer of ours that was lost.
		seen, err := leases.Get(ctx, LeaseName, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return errTaken
		case err != nil:
			return l.cluster.failure(ctx, "renew the Lease of the upgrade", err)
		case !l.same(seen):
			return errTaken
		}
		l.lease = seen
	}
}

// same says whether the Lease is the one that this process took.
func (l *Lock) same(seen *coordinationv1.Lease) bool {
	return seen.UID == l.lease.UID && holderOf(seen) == l.options.Holder &&
		seen.Spec.AcquireTime != nil && seen.Spec.AcquireTime.Equal(l.lease.Spec.AcquireTime)
}

// Release lets go of the cluster. It is an error when another had taken it before.
func (l *Lock) Release(ctx context.Context) error {
	l.stop()
	<-l.done
	l.mu.Lock()
	lost := l.lost
	l.mu.Unlock()
	if lost != nil {
		return lost
	}
	return l.write(ctx, func(lease *coordinationv1.Lease) {
		nobody := ""
		lease.Spec.HolderIdentity = &nobody
	})
}
