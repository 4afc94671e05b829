package kubernetes_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/talos-provision/provision/provisioner/kubernetes"
	"github.com/talos-provision/provision/provisioner/upgrade"
)

// TestLock runs one after the other: a cluster has one Lease.
func TestLock(t *testing.T) {
	t.Parallel()
	l := newLab(t, "127.73.0.1")
	for _, s := range lockScenarios {
		t.Run(s.name, func(t *testing.T) {
			s.run(t, l)
			err := l.Client.CoordinationV1().Leases(kubernetes.LeaseNamespace).Delete(context.WithoutCancel(t.Context()), kubernetes.LeaseName, metav1.DeleteOptions{})
			if err != nil {
				t.Logf("the Lease: %v", err)
			}
		})
	}
}

func options(holder string) kubernetes.LockOptions {
	return kubernetes.LockOptions{Holder: holder, Renew: 300 * time.Millisecond, Duration: 10 * time.Minute}
}

func (l lab) lock(t *testing.T, o kubernetes.LockOptions) *kubernetes.Lock {
	t.Helper()
	lock, err := l.cluster.Lock(t.Context(), o)
	must(t, err)
	return lock
}

// renewed waits until the holder has given a sign of life.
func (l lab) renewed(t *testing.T) {
	t.Helper()
	var first string
	until(t, "the Lease is renewed", func(ctx context.Context) bool {
		lease, err := l.Client.CoordinationV1().Leases(kubernetes.LeaseNamespace).Get(ctx, kubernetes.LeaseName, metav1.GetOptions{})
		if err != nil {
			return false
		}
		if first == "" {
			first = lease.ResourceVersion
		}
		return first != lease.ResourceVersion
	})
}

var lockScenarios = []scenario{
	{"refuses while another is alive, and not afterwards", func(t *testing.T, l lab) {
		eve := l.lock(t, options("eve@laptop"))
		_, err := l.cluster.Lock(t.Context(), options("bob@server"))
		var locked *kubernetes.LockedError
		if !errors.As(err, &locked) || locked.Holder != "eve@laptop" || !locked.Until.After(locked.Renewed) {
			t.Errorf("the second lock ends with %v", err)
		}
		upgrader := kubernetes.Upgrader{Cluster: l.cluster, Lease: options("")}
		if _, err := upgrader.Lock(t.Context(), "k8s-prod", "bob@server"); !errors.Is(err, upgrade.ErrLocked) || !strings.Contains(err.Error(), "eve@laptop") {
			t.Errorf("the lock of an upgrade ends with %v", err)
		}
		must(t, eve.Release(t.Context()))
		must(t, l.lock(t, options("bob@server")).Release(t.Context()))
	}},
	{"refuses a second process under the same name", func(t *testing.T, l lab) {
		eve := l.lock(t, options("eve@laptop"))
		o := options("eve@laptop")
		o.Renew = patience / 40 // it waits for longer than any renewal of the first takes
		var locked *kubernetes.LockedError
		if _, err := l.cluster.Lock(t.Context(), o); !errors.As(err, &locked) {
			t.Errorf("the second lock ends with %v", err)
		}
		must(t, eve.Release(t.Context()))
	}},
	{"takes it again after it was killed", func(t *testing.T, l lab) {
		l.abandoned(t, "eve@laptop", time.Now())
		again := l.lock(t, options("eve@laptop"))
		l.renewed(t)
		must(t, again.Release(t.Context()))
	}},
	{"takes it from one that is dead", func(t *testing.T, l lab) {
		l.abandoned(t, "eve@laptop", time.Now().Add(-time.Hour))
		must(t, l.lock(t, options("bob@server")).Release(t.Context()))
	}},
	{"does not take it from one whose clock is wrong", func(t *testing.T, l lab) {
		// By the clock of others it was heard too long ago, and yet it lives.
		o := options("eve@laptop")
		o.Duration = 10 * time.Minute
		eve := l.lock(t, o)
		l.shorten(t)
		late := options("bob@server")
		late.Renew = patience / 40
		var locked *kubernetes.LockedError
		if _, err := l.cluster.Lock(t.Context(), late); !errors.As(err, &locked) {
			t.Errorf("the second lock ends with %v", err)
		}
		must(t, eve.Release(t.Context()))
	}},
	{"tells that it is lost", func(t *testing.T, l lab) {
		lost := make(chan error, 1)
		o := options("eve@laptop")
		o.Lost = func(err error) { lost <- err }
		lock := l.lock(t, o)
		must(t, l.Client.CoordinationV1().Leases(kubernetes.LeaseNamespace).Delete(t.Context(), kubernetes.LeaseName, metav1.DeleteOptions{}))
		if err := <-lost; !strings.Contains(err.Error(), "no longer ours") {
			t.Errorf("it is told as %v", err)
		}
		if err := lock.Release(t.Context()); err == nil {
			t.Error("to let go of it is no error")
		}
	}},
	{"goes on when somebody else wrote something into it", func(t *testing.T, l lab) {
		lock := l.lock(t, options("eve@laptop"))
		leases := l.Client.CoordinationV1().Leases(kubernetes.LeaseNamespace)
		until(t, "the Lease is written", func(ctx context.Context) bool {
			lease, err := leases.Get(ctx, kubernetes.LeaseName, metav1.GetOptions{})
			must(t, err)
			lease.Labels = map[string]string{"seen": "true"}
			_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
			return err == nil
		})
		l.renewed(t)
		must(t, lock.Release(t.Context()))
	}},
}

// shorten has a Lease that is renewed seem to be over at once.
func (l lab) shorten(t *testing.T) {
	t.Helper()
	leases := l.Client.CoordinationV1().Leases(kubernetes.LeaseNamespace)
	until(t, "the Lease is written", func(ctx context.Context) bool {
		lease, err := leases.Get(ctx, kubernetes.LeaseName, metav1.GetOptions{})
		must(t, err)
		second := int32(1)
		lease.Spec.LeaseDurationSeconds = &second
		// Nobody has renewed it for long, by a clock that goes ahead.
		past := metav1.NewMicroTime(lease.Spec.AcquireTime.Add(-time.Hour))
		lease.Spec.RenewTime = &past
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err == nil
	})
}

// abandoned leaves a Lease as a killed controller does.
func (l lab) abandoned(t *testing.T, holder string, renewed time.Time) {
	t.Helper()
	lock := l.lock(t, options(holder))
	must(t, lock.Release(t.Context()))
	leases := l.Client.CoordinationV1().Leases(kubernetes.LeaseNamespace)
	lease, err := leases.Get(t.Context(), kubernetes.LeaseName, metav1.GetOptions{})
	must(t, err)
	at := metav1.NewMicroTime(renewed)
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &holder, &at
	_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
	must(t, err)
}
