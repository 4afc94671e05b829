package doctor

import (
	"fmt"
	"net/http"
	"time"
)

// clockSample is how far another clock is ahead of this host's.
type clockSample struct {
	who    string
	ahead  time.Duration
	public bool // kept by people who watch it: the Image Factory's
}

// A Date header has whole seconds, and a proxy may keep an answer for a moment.
const (
	slightDrift = 30 * time.Second
	wrongClock  = 5 * time.Minute
)

// sample compares a Date header with the time at which it was made, which lies
// between asking and being answered.
func (h *host) sample(who string, asked, answered time.Time, date string, public bool) {
	at, err := http.ParseTime(date)
	if err != nil {
		return
	}
	here := asked.Add(answered.Sub(asked) / 2)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dates = append(h.dates, clockSample{who, at.Sub(here).Round(time.Second), public})
}

// checkClock judges this host's clock by the factory's, and by the BMCs' where
// most of them agree against it. One BMC that differs has the wrong time itself.
func checkClock(h *host) []Finding {
	if len(h.dates) == 0 {
		return []Finding{warn("", "there is no other clock to compare with", "compare `date` with a clock that you trust: TLS certificates are judged by it")}
	}
	const hint = "set this host's clock (`timedatectl set-ntp true`, or chrony): certificates of Talos nodes and of the factory are judged by it"
	var found []Finding
	var off []clockSample
	bmcs := 0
	for _, d := range h.dates {
		far := d.ahead.Abs()
		switch {
		case d.public && far > wrongClock:
			found = append(found, fail("", "this host's clock is wrong: "+d.text(), hint))
		case d.public && far > slightDrift:
			found = append(found, warn("", "this host's clock drifts: "+d.text(), hint))
		}
		if !d.public {
			bmcs++
			if far > wrongClock {
				off = append(off, d)
			}
		}
	}
	switch {
	case len(off) > 0 && 2*len(off) > bmcs && len(found) == 0 && !h.publicClock():
		found = append(found, warn("", fmt.Sprintf("the clocks of %d of %d BMCs differ from this host's; %s", len(off), bmcs, off[0].text()), "find out whose clock is wrong; "+hint))
	case len(off) > 0:
		found = append(found, warn("", fmt.Sprintf("%d of %d BMCs have the wrong time; %s", len(off), bmcs, off[0].text()), "set NTP in the BMCs: their certificates and event logs carry that time"))
	}
	if len(found) == 0 {
		found = append(found, ok("", fmt.Sprintf("agrees with %d other clocks", len(h.dates))))
	}
	return found
}

func (h *host) publicClock() bool {
	for _, d := range h.dates {
		if d.public {
			return true
		}
	}
	return false
}

func (d clockSample) text() string {
	if d.ahead < 0 {
		return fmt.Sprintf("%s is %s behind it", d.who, d.ahead.Abs())
	}
	return fmt.Sprintf("%s is %s ahead of it", d.who, d.ahead)
}
