package provisioner

import (
	"testing"
	"testing/synctest"
	"time"
)

// I10: in no stretch of time as long as the window are more than Parallel
// power-ons admitted, whatever was waiting.
func TestI10PowerOnsPerWindowAreBounded(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]Power{
		"one at a time": {Parallel: 1, Window: 10 * time.Second},
		"eight":         {Parallel: 8, Window: 10 * time.Second},
		"with jitter":   {Parallel: 3, Window: 5 * time.Second, Jitter: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const nodes = 40
				window := NewPowerWindow(limits)
				admitted := make(chan time.Time, nodes)
				for range nodes {
					go func() {
						if err := window.Wait(t.Context()); err != nil {
							t.Error(err)
						}
						admitted <- time.Now()
					}()
				}
				times := make([]time.Time, 0, nodes)
				for range nodes {
					times = append(times, <-admitted)
				}
				for i := limits.Parallel; i < nodes; i++ {
					if gap := times[i].Sub(times[i-limits.Parallel]); gap < limits.Window {
						t.Errorf("power-ons %d and %d are %s apart: %d in a window of %s", i-limits.Parallel, i, gap, limits.Parallel+1, limits.Window)
					}
				}
			})
		})
	}
}

func TestNoWindowMeansNoLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		window := NewPowerWindow(Power{Parallel: 1})
		for range 100 {
			if err := window.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("took %s, want none", took)
		}
	})
}
