package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// acceptance is a finding that somebody has judged, and until when that holds.
type acceptance struct {
	until  time.Time
	reason string
}

// parseAccepted reads lines of "ID DATE REASON". Empty ones and those from # on are skipped.
func parseAccepted(text string) (map[string]acceptance, error) {
	list := map[string]acceptance{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 3 {
			return nil, fmt.Errorf("line %d: write it as ID YYYY-MM-DD REASON", number)
		}
		until, err := time.Parse(time.DateOnly, fields[1])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		list[fields[0]] = acceptance{until, strings.Join(fields[2:], " ")}
	}
	return list, nil
}

// judgement is by what findings are judged.
type judgement struct {
	accepted map[string]acceptance
	release  bool // what the standard library has counts too
	now      time.Time
}

// report prints every finding and returns an error when one is not accepted, or no longer.
// Those of the standard library are mended by building with a newer Go, whose version is
// no matter of the code: they are only told, but for a release.
func report(out io.Writer, found findings, by judgement) error {
	var bad []error
	for _, f := range found.sorted() {
		fixed := "no version without it"
		if f.fixed != "" {
			fixed = "gone in " + f.fixed
		}
		told := fmt.Sprintf("%s in %s (%s): %s\n  %s is reached from %s", f.id, f.module, fixed, f.summary, f.called, f.from)
		a, ok := by.accepted[f.id]
		switch {
		case !ok && !by.release && strings.HasPrefix(f.module, "stdlib@"):
			if _, err := fmt.Fprintf(out, "%s\n  build releases with a newer Go\n", told); err != nil {
				return err
			}
		case !ok:
			bad = append(bad, fmt.Errorf("%s\n  -> take a version without it, or accept it in accepted.txt with a date and a reason", told))
		case by.now.After(a.until):
			bad = append(bad, fmt.Errorf("%s\n  -> it was accepted until %s (%s): judge it anew", told, a.until.Format(time.DateOnly), a.reason))
		default:
			if _, err := fmt.Fprintf(out, "%s\n  accepted until %s: %s\n", told, a.until.Format(time.DateOnly), a.reason); err != nil {
				return err
			}
		}
	}
	if _, err := fmt.Fprintf(out, "vulnerabilities: %d known of what is required, %d of them in code that is not called, %d called\n",
		found.checked, len(found.imported), len(found.called)); err != nil {
		return err
	}
	return errors.Join(bad...)
}
