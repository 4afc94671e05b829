package pxe

import (
	"os"
	"runtime/debug"
	"testing"
)

// Not parallel: the setting is the process's.
func TestTheCollectorIsRelaxedUnlessTheEnvironmentSaysOtherwise(t *testing.T) {
	percent := func() int {
		now := debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		return now
	}
	t.Setenv("GOGC", "")
	before := percent()
	restore := RelaxCollector()
	if got := percent(); got != collectorPercent {
		t.Errorf("%d percent while serving, want %d", got, collectorPercent)
	}
	restore()
	if got := percent(); got != before {
		t.Errorf("%d percent afterwards, want %d as before", got, before)
	}
	if err := os.Setenv("GOGC", "50"); err != nil { // undone by t.Setenv
		t.Fatal(err)
	}
	defer RelaxCollector()()
	if got := percent(); got != before {
		t.Errorf("%d percent with GOGC set, want it left alone at %d", got, before)
	}
}

func TestTheCollectorIsRelaxedLessWhereMuchLives(t *testing.T) {
	t.Parallel()
	const mega = 1 << 20
	for living, want := range map[uint64]int{0: 400, 10 * mega: 400, 96 * mega: 200, 150 * mega: 120, 192 * mega: 100, 4096 * mega: 100} {
		if got := relaxed(living); got != want {
			t.Errorf("%d MiB live: %d percent of garbage, want %d", living/mega, got, want)
		}
	}
}
