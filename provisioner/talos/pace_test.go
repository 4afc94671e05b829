package talos

import (
	"slices"
	"testing"
	"time"
)

func TestThePaceOfAnAwait(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	closed := Observation{Host: "a"}
	waiting := Observation{Host: "a", State: Maintenance, Stage: "maintenance"}
	ready := Observation{Host: "a", State: Maintenance, Stage: "maintenance", Ready: true}
	many := slices.Repeat([]Observation{waiting}, 50)
	tests := map[string]struct {
		after time.Duration
		seen  []Observation
		want  time.Duration
	}{
		"closed port":                {0, []Observation{closed, closed}, knock},
		"closed for long":            {lateAfter + time.Second, []Observation{closed}, knockLate},
		"an answer":                  {0, []Observation{waiting}, lookAgain},
		"the same answer":            {0, many[:3], 4 * lookAgain},
		"the same answer for long":   {0, many, lookAgainMost},
		"an answer that has changed": {0, append(slices.Clone(many), ready), lookAgain},
		"an answer, then none":       {0, append(slices.Clone(many), closed), knock},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &watch{began: began, candidates: map[string]*candidate{}}
			now := began.Add(tt.after)
			var got time.Duration
			for _, o := range tt.seen {
				if !w.due("a", now) {
					t.Fatal("the candidate is not due")
				}
				if w.due("a", now.Add(time.Hour)) {
					t.Fatal("the candidate is probed twice at the same time")
				}
				w.note(o, now)
				got = w.candidates["a"].next.Sub(now)
				now = now.Add(got)
			}
			if got != tt.want {
				t.Errorf("the next look is in %v, want %v", got, tt.want)
			}
		})
	}
}

func TestTooManyAddressesAreCut(t *testing.T) {
	t.Parallel()
	got := distinct([]string{"a", "", "a", "b", "c", "d", "e", "f", "g", "h", "i"})
	if want := []string{"a", "b", "c", "d", "e", "f", "g", "h"}; !slices.Equal(got, want) {
		t.Errorf("distinct = %v, want %v", got, want)
	}
}
