package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// allowed are the licences that may be linked into a program under Apache-2.0 and handed on
// with their texts. What is not here is refused, GPL and AGPL among it.
var allowed = []string{
	"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BlueOak-1.0.0", "CC0-1.0", "ISC", "MIT", "MPL-2.0", "Unlicense",
}

// certain is the share of a text, in percent, that has to be a known licence.
const certain = 75

// What a file's name says of it.
const (
	other = iota
	licence
	notice
)

func kindOf(name string) int {
	base := strings.ToLower(name)
	switch ext := path.Ext(base); ext {
	case "", ".txt", ".md", ".mit", ".bsd", ".apache", ".libyaml", ".rst":
	default:
		return other
	}
	switch {
	case strings.HasPrefix(base, "licen"), strings.HasPrefix(base, "copying"), strings.HasPrefix(base, "unlicense"):
		return licence
	case strings.HasPrefix(base, "notice"), strings.HasPrefix(base, "patents"), strings.HasPrefix(base, "copyright"):
		return notice
	}
	return other
}

// identify names the licences that a text consists of; none when too much of it is something else.
func identify(text []byte) []string {
	coverage := licensecheck.Scan(text)
	if coverage.Percent < certain {
		return nil
	}
	found := map[string]bool{}
	for _, match := range coverage.Match {
		found[match.ID] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// judge is an error that names each module without a licence in its root, or with one that is not allowed.
func judge(modules []module) error {
	var bad []error
	for _, m := range modules {
		// A distribution's package of Go keeps its licence in another place.
		ofRoot := m.path == "std"
		for _, f := range m.files {
			if f.notice {
				continue
			}
			ofRoot = ofRoot || !strings.Contains(f.name, "/")
			if len(f.ids) == 0 {
				bad = append(bad, fmt.Errorf("%s %s: %s is no licence that is known: read it, and do without the module unless it may be handed on", m.path, m.version, f.name))
			}
			for _, id := range f.ids {
				if !slices.Contains(allowed, id) {
					bad = append(bad, fmt.Errorf("%s %s: %s is %s, which is not on the list of licences that may be linked: do without the module", m.path, m.version, f.name, id))
				}
			}
		}
		if !ofRoot {
			bad = append(bad, fmt.Errorf("%s %s has no licence: do without the module", m.path, m.version))
		}
	}
	return errors.Join(bad...)
}

// tally counts the modules of each licence.
func tally(modules []module) string {
	count := map[string]int{}
	for _, m := range modules {
		ids := map[string]bool{}
		for _, f := range m.files {
			if f.notice {
				continue
			}
			for _, id := range f.ids {
				ids[id] = true
			}
		}
		for id := range ids {
			count[id]++
		}
	}
	parts := make([]string, 0, len(count))
	for _, id := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%s %d", id, count[id]))
	}
	return strings.Join(parts, ", ")
}

// write writes the texts, which these licences ask to be handed on with the program.
func write(w io.Writer, modules []module) error {
	if _, err := fmt.Fprintf(w, "Licences and notices of the code that is linked into this program.\n"); err != nil {
		return err
	}
	for _, m := range modules {
		title := strings.TrimSpace(m.path + " " + m.version)
		if m.path == "std" {
			title = "the standard library of Go"
		}
		for _, f := range m.files {
			if _, err := fmt.Fprintf(w, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("=", 78), title, f.name, strings.TrimSpace(string(f.text))); err != nil {
				return err
			}
		}
	}
	return nil
}
