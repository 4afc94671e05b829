package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cgroupRoots are where version 2 of the control groups is mounted: alone, or
// beside version 1.
var cgroupRoots = []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}

// cgroup counts the processor time of a server with every process that it ever
// made; tftpd-hpa makes one for each file and leaves no other trace of them.
type cgroup struct {
	dir  string
	file *os.File
}

// newCgroup gives nil where there are no control groups of version 2: the table
// of processes is then looked at instead.
func newCgroup(name string) *cgroup {
	for _, root := range cgroupRoots {
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
			continue
		}
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "cpu.stat")); err != nil {
			_ = os.Remove(dir)
			continue
		}
		if file, err := os.Open(dir); err == nil {
			return &cgroup{dir, file}
		}
	}
	return nil
}

// processor is the time used so far.
func (g *cgroup) processor() time.Duration {
	text, err := os.ReadFile(filepath.Join(g.dir, "cpu.stat"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if usage, found := strings.CutPrefix(line, "usage_usec "); found {
			us, err := strconv.ParseInt(strings.TrimSpace(usage), 10, 64)
			if err == nil {
				return time.Duration(us) * time.Microsecond
			}
		}
	}
	return 0
}

// close removes the group; the last processes of a server may take a moment to go.
func (g *cgroup) close() {
	_ = g.file.Close()
	for range 50 {
		if os.Remove(g.dir) == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
