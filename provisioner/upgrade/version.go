package upgrade

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Version is a release of Talos. Its text, also in JSON, is like v1.13.9 or v1.14.0-rc.1.
type Version struct {
	Major, Minor, Patch int
	// Pre is what follows the hyphen of a pre-release, such as "rc.1"; "" in a release.
	Pre string
}

var versionPattern = regexp.MustCompile(`^v?([1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})(?:-([0-9A-Za-z.-]{1,64}))?(?:\+[0-9A-Za-z.-]{1,64})?$`)

// ParseVersion reads a version with or without its "v". What follows a "+" is
// no part of it.
func ParseVersion(s string) (Version, error) {
	m := versionPattern.FindStringSubmatch(s)
	if m == nil {
		return Version{}, fmt.Errorf("%q is no version of Talos; write it like v1.13.9", s)
	}
	var n [3]int
	for i := range n {
		// Six digits always fit.
		n[i], _ = strconv.Atoi(m[i+1])
	}
	return Version{Major: n[0], Minor: n[1], Patch: n[2], Pre: m[4]}, nil
}

// String is the version as tags have it, or "" for the zero Version.
func (v Version) String() string {
	switch {
	case v == Version{}:
		return ""
	case v.Pre != "":
		return fmt.Sprintf("v%d.%d.%d-%s", v.Major, v.Minor, v.Patch, v.Pre)
	}
	return fmt.Sprintf("v%d.%d.%d", v.Major, v.Minor, v.Patch)
}

// MarshalText implements encoding.TextMarshaler.
func (v Version) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (v *Version) UnmarshalText(text []byte) (err error) {
	*v = Version{}
	if len(text) > 0 {
		*v, err = ParseVersion(string(text))
	}
	return err
}

// Compare is negative when v is older than other, as https://semver.org defines it.
func (v Version) Compare(other Version) int {
	if c := cmp.Or(v.compareMinor(other), cmp.Compare(v.Patch, other.Patch)); c != 0 {
		return c
	}
	if v.Pre == "" || other.Pre == "" {
		// A release is newer than its pre-releases.
		return cmp.Compare(len(other.Pre), len(v.Pre))
	}
	return comparePre(strings.Split(v.Pre, "."), strings.Split(other.Pre, "."))
}

func (v Version) compareMinor(other Version) int {
	return cmp.Or(cmp.Compare(v.Major, other.Major), cmp.Compare(v.Minor, other.Minor))
}

func comparePre(a, b []string) int {
	for i := range min(len(a), len(b)) {
		x, errX := strconv.Atoi(a[i])
		y, errY := strconv.Atoi(b[i])
		var c int
		switch {
		case errX == nil && errY == nil:
			c = cmp.Compare(x, y)
		case errX == nil:
			c = -1 // numbers come before words
		case errY == nil:
			c = 1
		default:
			c = cmp.Compare(a[i], b[i])
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}
