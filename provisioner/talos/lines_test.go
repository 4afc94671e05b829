package talos_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/provisioner/talos"
)

func TestLinesOfAnInstaller(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pieces []string
		want   []string
	}{
		"whole":            {[]string{"one\n", "two\n"}, []string{"one", "two"}},
		"several at once":  {[]string{"one\ntwo\nthr", "ee"}, []string{"one", "two", "three"}},
		"empty ones":       {[]string{"\n\n", " \n", "one\n\n"}, []string{"one"}},
		"progress":         {[]string{"10%\r20%\r", "done\r\n"}, []string{"10%", "20%", "done"}},
		"a cut rune":       {[]string{"K\xc3", "\xbchlung\n"}, []string{"Kühlung"}},
		"for a terminal":   {[]string{"\x1b]0;evil\x07one\n"}, []string{"]0;evilone"}},
		"nothing":          {nil, nil},
		"without an end":   {[]string{strings.Repeat("x", 100_000), strings.Repeat("y", 100_000), "\nnext"}, []string{strings.Repeat("x", 4096) + " [cut short]", "next"}},
		"a quoted version": {[]string{"host is \"v1.13.9\"\n"}, []string{`host is "v1.13.9"`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, kept := talos.Lines([]byte(noArgs), false, tt.pieces...)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(got, kept); diff != "" {
				t.Errorf("kept (-handed on +kept):\n%s", diff)
			}
		})
	}
}

func TestTheLastLinesAreKept(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for i := range 1000 {
		_, _ = fmt.Fprintf(&all, "line %d\n", i)
	}
	got, kept := talos.Lines(nil, false, all.String())
	if len(got) != 1000 || len(kept) != 100 || kept[0] != "line 900" || kept[99] != "line 999" {
		t.Errorf("%d lines, kept %d from %q", len(got), len(kept), kept[:1])
	}
}

// What a node says is cut anywhere. Where must not matter, and no line may carry
// a secret of the config or end a line of a terminal.
func FuzzLines(f *testing.F) {
	const secret = "hunter2secret"
	config := []byte("version: v1alpha1\nmachine:\n  token: " + secret + "\n")
	f.Add("running\nError: `"+secret+"` is no key\n", 12, false)
	f.Add("unknown keys found during decoding:\n  token: "+secret+"\n", 40, true)
	f.Add("10%\r20%\r\x00\xff\n\"unended", 3, true)
	f.Fuzz(func(t *testing.T, text string, cut int, strict bool) {
		cut = max(0, min(cut, len(text)))
		whole, _ := talos.Lines(config, strict, text)
		pieces, kept := talos.Lines(config, strict, text[:cut], text[cut:])
		if diff := cmp.Diff(whole, pieces); diff != "" {
			t.Errorf("cut at %d (-whole +pieces):\n%s", cut, diff)
		}
		if len(kept) > 100 {
			t.Errorf("%d lines are kept", len(kept))
		}
		for _, line := range whole {
			if strings.ContainsAny(line, "\r\n\x1b") || line == "" || !strict && strings.Contains(line, secret) {
				t.Errorf("line %q", line)
			}
		}
	})
}

func TestInstallSection(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		config string
		args   []string
		useUKI bool
		fails  bool
	}{
		"none":             {config: noArgs},
		"empty":            {},
		"arguments":        {config: withArgs, args: []string{"console=ttyS1", "intel_iommu=on"}},
		"arguments of UKI": {config: withUKIArg, args: []string{"console=ttyS1", "intel_iommu=on"}, useUKI: true},
		"second document":  {config: of14 + "---\n" + withArgs, args: []string{"console=ttyS1", "intel_iommu=on"}},
		"of another shape": {config: "machine: [a, b]\n", fails: true},
		"no YAML":          {config: "machine: {", fails: true},
	}
	for name, tt := range tests {
		args, useUKI, err := talos.InstallSection([]byte(tt.config))
		if cmp.Diff(tt.args, args) != "" || useUKI != tt.useUKI || (err != nil) != tt.fails {
			t.Errorf("%s: %q, %t, %v", name, args, useUKI, err)
		}
	}
}

func FuzzInstallSection(f *testing.F) {
	f.Add([]byte(withUKIArg))
	f.Add([]byte(of14))
	f.Add([]byte("machine: &a {install: *a}"))
	f.Fuzz(func(t *testing.T, config []byte) {
		if _, _, err := talos.InstallSection(config); err != nil && err.Error() != "its machine config is no YAML as it is known here; look at machine.install in it" {
			t.Errorf("error = %q, may quote the config", err)
		}
	})
}
