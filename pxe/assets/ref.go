// Package assets keeps a local copy of the Talos boot files that an Image
// Factory serves. Each file is fetched once, however many machines ask for it,
// and goes on being served when the factory cannot be reached.
package assets

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// maxVersion bounds a version so that a path component stays far below NAME_MAX.
const maxVersion = 64

var versionForm = regexp.MustCompile(`^v(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// Ref names one boot file of one image.
type Ref struct {
	// Schematic is the Image Factory's schematic id: 64 lower-case hex digits.
	Schematic string
	// Version is the Talos version with its v, such as v1.13.9 or v1.14.0-rc.1.
	Version string
	// Name is one of Names.
	Name string
}

// Validate says what is wrong with the reference. A valid one is safe to use as
// a path below the cache and in a URL.
func (r Ref) Validate() error {
	if len(r.Schematic) != 64 || strings.Trim(r.Schematic, "0123456789abcdef") != "" {
		return fmt.Errorf("schematic %s is not 64 lower-case hex digits; take the id that the Image Factory shows for the schematic", clip(r.Schematic))
	}
	if len(r.Version) > maxVersion || !versionForm.MatchString(r.Version) {
		return fmt.Errorf("version %s is not of the form v1.13.9; write the Talos version with its v and all three numbers", clip(r.Version))
	}
	if _, ok := names[r.Name]; !ok {
		return fmt.Errorf("%s is not a boot file; known are %s", clip(r.Name), strings.Join(Names(), ", "))
	}
	return nil
}

// String is the reference as a path: schematic/version/name. It is the tail of
// the file's URL at the factory and of its path in the cache.
func (r Ref) String() string {
	return r.Schematic + "/" + r.Version + "/" + r.Name
}

// brief is for messages: 64 hex digits say no more to a person than 8 do.
func (r Ref) brief() string {
	schematic := r.Schematic
	if len(schematic) > 8 {
		schematic = schematic[:8] + "…"
	}
	return fmt.Sprintf("%s of Talos %s (schematic %s)", r.Name, r.Version, schematic)
}

func (r Ref) path(dir string) string {
	return filepath.Join(dir, r.Schematic, r.Version, r.Name)
}

// clip quotes text that a client chose, cut to a length fit for a log line.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
