package upgrade

import (
	"errors"
	"fmt"
	"slices"
)

// ErrDowngrade is returned by Path when the target is older than what runs.
var ErrDowngrade = errors.New("the target is older than what runs")

// UnknownStopError is returned by Path when no release of a minor version on the way is known.
type UnknownStopError struct {
	Major, Minor int
}

// Error implements error.
func (e *UnknownStopError) Error() string {
	return fmt.Sprintf("no release of Talos %d.%d is known, which the way leads through", e.Major, e.Minor)
}

// knownReleases are the newest patches of each minor version when this was
// written; Survey.Releases, which the Image Factory lists, go before them.
var knownReleases = []Version{
	{Major: 1, Minor: 9, Patch: 5}, {Major: 1, Minor: 10, Patch: 9}, {Major: 1, Minor: 11, Patch: 6},
	{Major: 1, Minor: 12, Patch: 12}, {Major: 1, Minor: 13, Patch: 9},
}

// KnownReleases are the newest patches of each minor version of Talos that this
// program knows by itself.
func KnownReleases() []Version { return slices.Clone(knownReleases) }

// Path is the way from one version to another: every minor version between them
// is a stop, at the newest of the releases given, and the target is the last.
// Talos tests migrations between adjacent minor versions only. Pre-releases are
// no stops. It is empty when there is nothing to do.
func Path(from, to Version, releases []Version) ([]Version, error) {
	switch c := to.Compare(from); {
	case c == 0:
		return nil, nil
	case c < 0:
		return nil, fmt.Errorf("%s to %s: %w", from, to, ErrDowngrade)
	case to.Major != from.Major:
		return nil, &UnknownStopError{Major: from.Major, Minor: from.Minor + 1}
	}
	var stops []Version
	for minor := from.Minor + 1; minor < to.Minor; minor++ {
		stop, found := newest(releases, from.Major, minor)
		if !found {
			return nil, &UnknownStopError{Major: from.Major, Minor: minor}
		}
		stops = append(stops, stop)
	}
	return append(stops, to), nil
}

// newest finds the newest release of a minor version.
func newest(releases []Version, major, minor int) (Version, bool) {
	var best Version
	found := false
	for _, r := range releases {
		if r.Major == major && r.Minor == minor && r.Pre == "" && (!found || r.Compare(best) > 0) {
			best, found = r, true
		}
	}
	return best, found
}
