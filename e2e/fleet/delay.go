package fleet

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Delay is how long something takes, which may be different each time. The zero
// Delay takes no time.
type Delay struct {
	kind delayKind
	a, b time.Duration // what they are depends on kind
}

type delayKind string

const (
	fixed   delayKind = ""        // a
	uniform delayKind = "uniform" // a to b
	normal  delayKind = "normal"  // mean a, standard deviation b
)

// Fixed always takes d.
func Fixed(d time.Duration) Delay { return Delay{a: d} }

// Uniform takes any time from a to b, each as likely.
func Uniform(a, b time.Duration) Delay { return Delay{uniform, a, b} }

// Normal is the normal distribution, without what lies below 0.
func Normal(mean, deviation time.Duration) Delay { return Delay{normal, mean, deviation} }

// Draw draws one time, never negative.
func (d Delay) Draw(r *rand.Rand) time.Duration {
	switch d.kind {
	case uniform:
		return d.a + time.Duration(r.Float64()*float64(d.b-d.a))
	case normal:
		return max(0, d.a+time.Duration(r.NormFloat64()*float64(d.b)))
	default:
		return d.a
	}
}

// MarshalText writes what UnmarshalText reads.
func (d Delay) MarshalText() ([]byte, error) {
	switch d.kind {
	case uniform:
		return fmt.Appendf(nil, "uniform:%s-%s", d.a, d.b), nil
	case normal:
		return fmt.Appendf(nil, "normal:%s,%s", d.a, d.b), nil
	default:
		return []byte(d.a.String()), nil
	}
}

// UnmarshalText reads "2s", "uniform:1s-3s" or "normal:2s,500ms".
func (d *Delay) UnmarshalText(text []byte) error {
	kind, rest, found := strings.Cut(string(text), ":")
	if !found {
		kind, rest = "", string(text)
	}
	separator, known := map[delayKind]string{fixed: "", "fixed": "", uniform: "-", normal: ","}[delayKind(kind)]
	if !known {
		return fmt.Errorf("%q: want a time as 2s, uniform:1s-3s or normal:2s,500ms", text)
	}
	parts := []string{rest}
	if separator != "" {
		parts = strings.Split(rest, separator)
		if len(parts) != 2 {
			return fmt.Errorf("%q: want two times with %q between them", text, separator)
		}
	}
	var times [2]time.Duration
	for i, part := range parts {
		var err error
		if times[i], err = time.ParseDuration(strings.TrimSpace(part)); err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
		if times[i] < 0 {
			return fmt.Errorf("%q: a time below 0", text)
		}
	}
	if delayKind(kind) == uniform && times[1] < times[0] {
		return fmt.Errorf("%q: the second time must not be the shorter one", text)
	}
	*d = Delay{delayKind(strings.TrimPrefix(kind, "fixed")), times[0], times[1]}
	return nil
}
