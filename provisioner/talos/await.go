package talos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// maxCandidates bounds the addresses of one machine that are probed at the same time.
	maxCandidates = 8
	// knock is how often an address that does not answer is tried, and how long one try waits
	// for a connection: the kernel repeats a lost SYN after 1 s, 3 s, 7 s; a new try is sooner.
	knock = 800 * time.Millisecond
	// knockLate is knock after lateAfter: a machine that was not there for so long is not
	// about to come this second.
	knockLate = 3 * time.Second
	lateAfter = 15 * time.Minute
	// lookAgain is how soon an address that answers, but not what is waited for, is looked at
	// again; it doubles up to lookAgainMost as long as the answer stays the same.
	lookAgain     = 250 * time.Millisecond
	lookAgainMost = 4 * time.Second
)

// Await probes the addresses that a machine may have (the inventory's, a lease's,
// the boot request's) at the same time, until one shows what accept takes, and
// returns that. hosts is asked anew each time, so an address that is learnt
// meanwhile joins in; of more than 8 the first 8 are probed. hosts and accept
// are called from one goroutine, the caller's.
//
// A node that comes up is seen within a second; after a quarter of an hour
// within four. An address that answers something else is asked ever less often,
// every 4 s at last, until its answer changes.
//
// When ctx ends, the error says what was last seen at each address, and wraps
// the context's.
func (p Prober) Await(ctx context.Context, hosts func() []string, accept func(Observation) bool) (Observation, error) {
	probing, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &watch{began: time.Now(), candidates: map[string]*candidate{}}
	seen := make(chan Observation)
	for {
		now := time.Now()
		current := distinct(hosts())
		for _, host := range current {
			if w.due(host, now) {
				go func() {
					select {
					case seen <- p.probe(probing, host, knock):
					case <-probing.Done():
					}
				}()
			}
		}
		timer := time.NewTimer(w.untilDue(current, now))
		select {
		case <-ctx.Done():
			timer.Stop()
			return w.last(), fmt.Errorf("waiting for Talos: %s: %w", w.summary(), context.Cause(ctx))
		case o := <-seen:
			timer.Stop()
			if accept(o) {
				return o, nil
			}
			w.note(o, time.Now())
		case <-timer.C:
		}
	}
}

// watch is what an Await remembers of its candidates.
type watch struct {
	began      time.Time
	candidates map[string]*candidate
}

// candidate is one address that the machine may have.
type candidate struct {
	probing bool
	next    time.Time
	pause   time.Duration
	last    Observation
}

// due takes a candidate up when it is time to probe it.
func (w *watch) due(host string, now time.Time) bool {
	c := w.candidates[host]
	if c == nil {
		c = &candidate{last: Observation{Host: host}}
		w.candidates[host] = c
	}
	if c.probing || now.Before(c.next) {
		return false
	}
	// Due from the start of the probe: one that waits out its time is repeated at once.
	c.probing, c.next = true, now.Add(w.knock(now))
	return true
}

func (w *watch) knock(now time.Time) time.Duration {
	if now.Sub(w.began) > lateAfter {
		return knockLate
	}
	return knock
}

// note takes in what a probe saw that was not what is waited for.
func (w *watch) note(o Observation, now time.Time) {
	c := w.candidates[o.Host]
	c.probing = false
	switch {
	case o.State == Unreachable:
		c.pause = 0
	case sameAnswer(c.last, o):
		c.pause = min(max(2*c.pause, lookAgain), lookAgainMost)
		c.next = now.Add(c.pause)
	default:
		c.pause = lookAgain
		c.next = now.Add(c.pause)
	}
	c.last = o
}

func sameAnswer(a, b Observation) bool {
	return a.State == b.State && a.Stage == b.Stage && a.Ready == b.Ready
}

// untilDue is how long nothing is to be done but to wait. hosts is asked again
// that often, too.
func (w *watch) untilDue(hosts []string, now time.Time) time.Duration {
	wait := knock
	for _, host := range hosts {
		if c := w.candidates[host]; !c.probing {
			wait = min(wait, max(c.next.Sub(now), time.Millisecond))
		}
	}
	return wait
}

// last is the most telling of what was seen: an address that answers, before one that does not.
func (w *watch) last() Observation {
	var best Observation
	for _, host := range w.hosts() {
		if o := w.candidates[host].last; best.Host == "" || best.State == Unreachable && o.State != Unreachable {
			best = o
		}
	}
	return best
}

// summary says what was seen at each address.
func (w *watch) summary() string {
	var parts []string
	for _, host := range w.hosts() {
		switch o := w.candidates[host].last; {
		case o.Err != nil:
			parts = append(parts, o.Err.Error())
		case o.State == Unreachable:
			parts = append(parts, host+" was not looked at to the end")
		case o.Stage != "":
			parts = append(parts, fmt.Sprintf("%s is in %s mode, stage %s, ready %t", host, o.State, o.Stage, o.Ready))
		default:
			parts = append(parts, fmt.Sprintf("%s is %s", host, o.State))
		}
	}
	if len(parts) == 0 {
		return "no address of the machine is known"
	}
	return strings.Join(parts, "; ")
}

func (w *watch) hosts() []string {
	hosts := make([]string, 0, len(w.candidates))
	for host := range w.candidates {
		hosts = append(hosts, host)
	}
	slices.Sort(hosts)
	return hosts
}

// distinct drops what is empty, repeated or too much.
func distinct(hosts []string) []string {
	var list []string
	for _, host := range hosts {
		if host != "" && !slices.Contains(list, host) && len(list) < maxCandidates {
			list = append(list, host)
		}
	}
	return list
}
