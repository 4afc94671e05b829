package provisioner

import (
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/pxe/httpboot"
)

// A node's progress becomes an event no more often than both of these say: each
// is written to the disk, and a person reads them.
const (
	progressInterval = 3 * time.Second
	progressPercent  = 10
)

// images are the files that a node downloads by HTTP, by the beginning of their
// names: the boot stage that follows a complete download, and the word for it.
// Other files are iPXE binaries.
var images = []struct {
	prefix string
	stage  bootStage
	word   string
}{
	{"kernel-", stageKernel, "kernel"},
	{"initramfs-", stageInitramfs, "initramfs"},
	{"metal-", stageImage, "image"},
	{"", stageBinary, ""},
}

// imageOf finds a file in the table. Its word is empty for what is too small to
// have a progress.
func imageOf(name string) (stage bootStage, word string) {
	file := path.Base(name)
	for _, i := range images {
		if strings.HasPrefix(file, i.prefix) {
			return i.stage, i.word
		}
	}
	return stageNone, ""
}

// ObserveHTTP takes note of a file that a node downloaded whole.
func (c *Controller) ObserveHTTP(t httpboot.Transfer) {
	if t.Err != nil || t.Method != http.MethodGet || t.Bytes != t.Size {
		return
	}
	stage, _ := imageOf(t.Name)
	c.observe(t.Source, stage)
}

// ObserveProgress takes note of how far a node is with a file that it downloads.
func (c *Controller) ObserveProgress(p httpboot.Progress) {
	_, word := imageOf(p.Name)
	if n := c.bySource(p.Source); n != nil && word != "" && n.armed() {
		n.advance(store.Progress{File: path.Base(p.Name), Bytes: p.Bytes, Total: p.Size}, time.Now())
	}
}

// advance notes the progress and wakes the node's goroutine when it is worth an event.
func (n *node) advance(p store.Progress, now time.Time) {
	n.mu.Lock()
	told := n.seen.told
	worth := told.worth(p, now)
	if worth {
		n.seen.told = telling{p, now}
		n.seen.progress = &p
	}
	n.mu.Unlock()
	if worth {
		n.wake()
	}
}

// telling is the last progress that became an event, and when.
type telling struct {
	store.Progress
	at time.Time
}

// worth says whether a person should hear of the progress, after what was told.
// A download that began anew counts from nothing.
func (t telling) worth(p store.Progress, now time.Time) bool {
	if now.Sub(t.at) < progressInterval || p.Total <= 0 {
		return false
	}
	return p.File != t.File || p.Bytes < t.Bytes || percent(p) >= percent(t.Progress)+progressPercent
}

func percent(p store.Progress) int64 {
	if p.Total <= 0 {
		return 0
	}
	return 100 * p.Bytes / p.Total
}

// followProgress turns progress that was not told yet into an event of the state
// that the node is in.
func (n *node) followProgress() (transition, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.seen.progress
	n.seen.progress = nil
	if p == nil || State(n.record.State) != Booting {
		return transition{}, false
	}
	_, word := imageOf(p.File)
	return transition{
		state: Booting, step: step(n.record.Step), progress: p,
		message: fmt.Sprintf("%s %d %% of %s", word, percent(*p), size(p.Total)),
	}, true
}

// size is a number of bytes for a person.
func size(bytes int64) string {
	const mega = 1000 * 1000
	if bytes >= mega {
		return fmt.Sprintf("%d MB", (bytes+mega/2)/mega)
	}
	return fmt.Sprintf("%d kB", (bytes+999)/1000)
}
