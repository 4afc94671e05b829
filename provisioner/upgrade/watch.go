package upgrade

import (
	"context"
	"time"

	"github.com/talos-provision/provision/provisioner/talos"
)

// watch looks at the node until until says so, until it shows the same conclusive
// thing a few times in a row, or until the time is up. It returns what it saw
// last. Each look is a call of its own.
func (n *node) watch(ctx context.Context, timeout time.Duration, until func(Record, talos.Running) bool) (Verdict, talos.Running, error) {
	deadline := time.Now().Add(timeout)
	// What is seen when the time is up gets some more of it to show that it stays so.
	limits := n.r.o.Timeouts
	last := deadline.Add(2 * time.Duration(limits.Stable) * (limits.Poll + limits.Call))
	var (
		verdict Verdict
		boot    string
		same    int
	)
	for {
		seen := n.r.look(ctx, n.record.Host)
		if ctx.Err() != nil {
			return "", seen, ctx.Err()
		}
		j := judge(n.record, seen)
		if j.verdict != verdict || seen.BootID != boot {
			same = 0
		}
		same++
		verdict, boot = j.verdict, seen.BootID
		switch now := time.Now(); {
		case j.conclusive && same >= limits.Stable, until != nil && until(n.record, seen), !j.conclusive && now.After(deadline):
			return verdict, seen, nil
		case now.After(last):
			return VerdictNotReady, seen, nil // it keeps changing
		}
		if err := sleep(ctx, limits.Poll); err != nil {
			return "", seen, err
		}
	}
}

// sleep waits for d, or until ctx ends and then returns its error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
