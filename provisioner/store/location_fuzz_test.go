package store

import (
	"strings"
	"testing"
)

func FuzzLocation(f *testing.F) {
	for _, seed := range []string{"a:1", "a:1,b:2/p/q/", "[::1]:2379/x", "@", ",", "/", "a:1/\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		p, err := parseLocation(schemeEtcd + rest)
		if err != nil {
			return
		}
		if strings.ContainsAny(p.String(), "@?#") || p.prefix == "" || len(p.hosts) == 0 {
			t.Errorf("%q is taken as %+v", rest, p)
		}
		if again, err := parseLocation(p.String()); err != nil || again.String() != p.String() {
			t.Errorf("%q is written %q, which is read as %+v, error %v", rest, p, again, err)
		}
	})
}
