package pxe

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// While machines are served, garbage may gather until it is this many bytes, or as
// much as what lives if that is more; but never more than collectorPercent of what lives.
const (
	collectorPercent = 400
	collectorLeast   = 100 // Go's own
	collectorBytes   = 192 << 20
)

// collectorInterval is how often the percentage is fitted to what lives.
const collectorInterval = 2 * time.Second

// RelaxCollector makes the garbage collector run more rarely until restore is
// called. On two processors a collection takes one of them for some 20 ms, and at
// 20,000 boot scripts a second the machines that ask meanwhile are the slowest
// hundredth. Where much lives, as with thousands of nodes, it runs rarely enough by
// itself, and the memory counts more. GOGC in the environment wins.
func RelaxCollector() (restore func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	now := relaxed(living())
	before := debug.SetGCPercent(now)
	done := make(chan struct{})
	var fitting sync.WaitGroup
	fitting.Go(func() {
		ticks := time.NewTicker(collectorInterval)
		defer ticks.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticks.C:
				if fit := relaxed(living()); fit != now {
					now = fit
					debug.SetGCPercent(now)
				}
			}
		}
	})
	return func() {
		close(done)
		fitting.Wait()
		debug.SetGCPercent(before)
	}
}

// relaxed is the percentage of garbage that goes with so many living bytes, in steps
// of ten: setting it stops everything for a moment.
func relaxed(living uint64) int {
	const step = 10
	percent := uint64(collectorPercent)
	if living > 0 {
		percent = min(percent, collectorBytes*100/living)
	}
	return int(max(percent/step*step, collectorLeast)) //nolint:gosec // at most collectorPercent
}

// living is how many bytes were found alive at the last collection, stacks included.
func living() uint64 {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}}
	metrics.Read(samples)
	var sum uint64
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			sum += s.Value.Uint64()
		}
	}
	return sum
}
