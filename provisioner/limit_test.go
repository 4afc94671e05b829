package provisioner

import "testing"

func TestLimitsAreReachedByCountAndByShare(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text       string
		nodes, all int
		want       bool
	}{
		{"", 50, 50, false},
		{"3", 2, 50, false},
		{"3", 3, 50, true},
		{"10%", 4, 50, false},
		{"10%", 5, 50, true},
		{"10%", 1, 3, true},
		{"100%", 2, 3, false},
		{"1", 0, 0, false},
	} {
		limit, err := ParseLimit(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := limit.Reached(tt.nodes, tt.all); got != tt.want || limit.String() != tt.text {
			t.Errorf("%q: %d of %d reached: %t, want %t; written as %q", tt.text, tt.nodes, tt.all, got, tt.want, limit)
		}
	}
	for _, text := range []string{"0", "-1", "101%", "0%", "many", "3 %", "%"} {
		if limit, err := ParseLimit(text); err == nil {
			t.Errorf("%q is taken as %s", text, limit)
		}
	}
}
