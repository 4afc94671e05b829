package pxe

import (
	"os"
	"runtime/debug"
)

// collectorPercent is how much garbage may gather, in percent of what lives,
// before it is collected while machines are served.
const collectorPercent = 400

// RelaxCollector makes the garbage collector run more rarely until restore is
// called. On two processors a collection takes one of them for some 20 ms, and at
// 20,000 boot scripts a second the machines that ask meanwhile are the slowest
// hundredth. GOGC in the environment wins.
func RelaxCollector() (restore func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(collectorPercent)
	return func() { debug.SetGCPercent(before) }
}
