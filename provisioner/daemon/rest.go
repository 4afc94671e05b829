package daemon

import "time"

// maxRest is the longest time that the daemon leaves between two runs that it begins
// by itself and that come to nothing, such as where images cannot be had.
const maxRest = time.Minute

// rests are the clusters whose last run came to nothing.
type rests map[string]rest

type rest struct {
	length time.Duration
	until  time.Time
}

// note takes note of how a run of a cluster ended.
func (r rests) note(cluster string, failed bool) {
	if !failed {
		delete(r, cluster)
		return
	}
	length := min(max(2*r[cluster].length, retryInterval), maxRest)
	r[cluster] = rest{length, time.Now().Add(length)}
}

// resting says whether the daemon waits before it begins another run of a cluster by itself.
func (d *Daemon) resting(cluster string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Now().Before(d.rests[cluster].until)
}
