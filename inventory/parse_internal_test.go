package inventory

import (
	"strings"
	"testing"
)

// FuzzParse holds the reader of one file against its promises without any
// files: it ends, every finding is inside of the file, and what is left out is
// reported.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "#", "a", "serial: 0123\n", "bmc: {address: a, password: b}\n", "labels: {a.b: 1e5}\n", "macs: [a, ~, [b]]\n", "<<: *x\n",
		"serial: &a A1\nlabels: {x: *a}\n", "a: &a [*a]\n", "%YAML 1.1\n---\nip: 1\n...\n", "\ufeffip: ::1\n", "? ? ? a\n", "ip: !!binary aGk=\n",
		"install: !!bool banana\n", "kernelArgs: |-\n  a\n  b\n", "vlan: 4095\nvlan: 1\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		l, findings := parse("f.yaml", content)
		if l.damaged && !findings.HasErrors() {
			t.Errorf("something is left out without an error")
		}
		lines := 2 + strings.Count(string(content), "\n") + strings.Count(string(content), "\r") +
			strings.Count(string(content), "\u0085") + strings.Count(string(content), "\u2028") + strings.Count(string(content), "\u2029")
		for _, finding := range findings {
			if finding.File != "f.yaml" || finding.Line < 1 || finding.Line > lines || finding.Message == "" {
				t.Errorf("finding %+v in %d lines", finding, lines)
			}
		}
		for _, leaf := range l.leaves {
			if leaf.origin.Line < 1 || leaf.origin.Line > lines || leaf.slot >= len(fields) {
				t.Errorf("leaf %+v in %d lines", leaf, lines)
			}
		}
		n := l.over(nil).node("c/f.yaml")
		for path, origin := range n.Origins() {
			if origin.File == "" {
				t.Errorf("%s has no origin", path)
			}
		}
	})
}
