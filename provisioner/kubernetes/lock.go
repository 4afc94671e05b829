package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The Lease that an upgrade of the cluster holds.
const (
	LeaseNamespace = metav1.NamespaceSystem
	LeaseName      = "provision-upgrade"
)

// LockOptions says who holds the cluster, and how.
type LockOptions struct {
	// Holder names the controller. It should be the same when the controller is started again
	// after it was killed: it then has to wait for some renewals and not for the Duration.
	Holder string
	// Duration is how long a holder that is not heard counts as alive; 0 is 15 min. It must
	// be longer than the API may be away while control planes reboot.
	Duration time.Duration
	// Renew is the time between two signs of life; 0 is 10 s.
	Renew time.Duration
	// Lost is called once when the Lease is no longer ours; it may be nil.
	Lost func(error)
}

const (
	defaultDuration = 15 * time.Minute
	defaultRenew    = 10 * time.Second
	// missed is how many signs of life in a row a holder that is alive never misses while the API answers.
	missed = 3
)

// LockedError is returned when another controller holds the cluster.
type LockedError struct {
	Holder string
	// Renewed is its last sign of life, Until when it no longer counts as alive; both by its own clock.
	Renewed, Until time.Time
}

// Error says who it is, and how to go on when it is dead.
func (e *LockedError) Error() string {
	return fmt.Sprintf("%s upgrades this cluster: it holds the Lease %s/%s and was last heard at %s; wait for it, or if it is dead, until %s, or delete the Lease",
		e.Holder, LeaseNamespace, LeaseName, e.Renewed.UTC().Format(time.RFC3339), e.Until.UTC().Format(time.RFC3339))
}

// Lock is a cluster that is held. It is renewed until Release.
type Lock struct {
	cluster *Cluster
	options LockOptions
	stop    context.CancelFunc
	done    chan struct{}

	mu    sync.Mutex
	lease *coordinationv1.Lease // as it was written last
	lost  error
}

// Lock takes the cluster's Lease and renews it, or returns a *LockedError. A
// Lease of a holder that seems to be dead, or of an earlier process of this one, is
// watched for some renewals before it is taken: clocks differ.
func (c *Cluster) Lock(ctx context.Context, o LockOptions) (*Lock, error) {
	o.Duration, o.Renew = cmp.Or(o.Duration, defaultDuration), cmp.Or(o.Renew, defaultRenew)
	if o.Holder == "" {
		return nil, errors.New("a Lease needs the name of its holder")
	}
	lease, err := c.take(ctx, o)
	if err != nil {
		var locked *LockedError
		if errors.As(err, &locked) {
			return nil, err
		}
		return nil, c.failure(ctx, fmt.Sprintf("take the Lease %s/%s", LeaseNamespace, LeaseName), err)
	}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	l := &Lock{cluster: c, options: o, stop: stop, done: make(chan struct{}), lease: lease}
	go l.renew(renewing)
	return l, nil
}

func (c *Cluster) take(ctx context.Context, o LockOptions) (*coordinationv1.Lease, error) {
	leases := c.client.CoordinationV1().Leases(LeaseNamespace)
	lease, err := leases.Get(ctx, LeaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: LeaseName}}
		claim(lease, o)
		lease, err = leases.Create(ctx, lease, metav1.CreateOptions{FieldManager: manager})
		if apierrors.IsAlreadyExists(err) {
			return nil, c.beaten(ctx)
		}
		return lease, err
	}
	if err != nil {
		return nil, err
	}
	if holder := holderOf(lease); holder != "" {
		if holder != o.Holder && time.Now().Before(until(lease)) {
			return nil, lockedBy(lease)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(missed * o.Renew):
		}
	}
	claim(lease, o)
	// The version that was read: whoever lives has written another one since.
	lease, err = leases.Update(ctx, lease, metav1.UpdateOptions{FieldManager: manager})
	if apierrors.IsConflict(err) {
		return nil, c.beaten(ctx)
	}
	return lease, err
}

// beaten says who was faster.
func (c *Cluster) beaten(ctx context.Context) error {
	lease, err := c.client.CoordinationV1().Leases(LeaseNamespace).Get(ctx, LeaseName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return lockedBy(lease)
}

func lockedBy(lease *coordinationv1.Lease) error {
	locked := &LockedError{Holder: cmp.Or(holderOf(lease), "another controller"), Until: until(lease)}
	if lease.Spec.RenewTime != nil {
		locked.Renewed = lease.Spec.RenewTime.Time
	}
	return locked
}

// claim writes us into the Lease.
func claim(lease *coordinationv1.Lease, o LockOptions) {
	now, seconds, transitions := metav1.NowMicro(), int32(max(o.Duration.Seconds(), 1)), int32(1)
	if lease.Spec.LeaseTransitions != nil {
		transitions += *lease.Spec.LeaseTransitions
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.LeaseTransitions = &o.Holder, &seconds, &transitions
	lease.Spec.AcquireTime, lease.Spec.RenewTime = &now, &now
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func until(lease *coordinationv1.Lease) time.Time {
	if lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return time.Time{}
	}
	return lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second)
}
