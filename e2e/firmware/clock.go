package firmware

import (
	"context"
	"errors"
	"time"
)

func (m Machine) scaled(d time.Duration) time.Duration {
	if m.TimeScale == 0 {
		return d
	}
	return time.Duration(float64(d) * m.TimeScale)
}

// patience is the wait for an answer to a packet that is sent for the nth time
// (from 0). TimeScale does not make it shorter than MinRetry: the server and
// the network do not get faster with the machine's clock.
func (m Machine) patience(d time.Duration, n int) time.Duration {
	floor := m.MinRetry
	if floor == 0 {
		floor = time.Second
	}
	return max(m.scaled(d), min(floor<<n, 8*time.Second))
}

// contextError is err when it comes of the end of the boot's context, else nil.
func contextError(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// sleep waits, or returns the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
