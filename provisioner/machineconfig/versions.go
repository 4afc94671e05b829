package machineconfig

import (
	"fmt"
	"regexp"
	"strconv"
)

// kubernetes is which versions of Kubernetes a minor version of Talos runs, and
// which one a new cluster gets: the default of a release of that minor version.
type kubernetes struct {
	talos            int // of 1.x
	oldest, newest   int // of 1.x
	recommended      string
	recommendedFrom  string // the Talos release whose default it is
	generateContract string // whose form of config is generated
}

// kubernetesOf is as the compatibility packages of Talos say it. Talos 1.14 takes
// configs in the form of 1.13: its own documents are optional.
var kubernetesOf = []kubernetes{
	{9, 27, 32, "1.32.3", "v1.9.5", "v1.9"},
	{10, 28, 33, "1.33.4", "v1.10.7", "v1.10"},
	{11, 29, 34, "1.34.1", "v1.11.6", "v1.11"},
	{12, 30, 35, "1.35.8", "v1.12.12", "v1.12"},
	{13, 31, 36, "1.36.3", "v1.13.9", "v1.13"},
	{14, 32, 37, "1.36.3", "v1.13.9", "v1.13"},
}

// version is major, minor and patch.
type version [3]int

var versionPattern = regexp.MustCompile(`^v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?:[-+][0-9A-Za-z.+-]+)?$`)

func parseVersion(s string) (version, bool) {
	m := versionPattern.FindStringSubmatch(s)
	if m == nil {
		return version{}, false
	}
	var v version
	for i := range v {
		n, err := strconv.Atoi(m[i+1])
		if err != nil {
			return version{}, false
		}
		v[i] = n
	}
	return v, true
}

func (v version) less(other version) bool {
	for i := range v {
		if v[i] != other[i] {
			return v[i] < other[i]
		}
	}
	return false
}

// rowOf finds what is known of a version of Talos, written like v1.13.9.
func rowOf(talosVersion string) (kubernetes, error) {
	v, ok := parseVersion(talosVersion)
	if ok && v[0] == 1 {
		for _, row := range kubernetesOf {
			if row.talos == v[1] {
				return row, nil
			}
		}
	}
	first, last := kubernetesOf[0], kubernetesOf[len(kubernetesOf)-1]
	return kubernetes{}, fmt.Errorf("talos version %q is not known: write one from v1.%d to v1.%d, like v1.13.9", talosVersion, first.talos, last.talos)
}

// refuses says why a version of Kubernetes does not run there; "" when it does.
func (k kubernetes) refuses(kube version) string {
	if kube[0] != 1 || kube[1] < k.oldest || kube[1] > k.newest {
		return fmt.Sprintf("Talos 1.%d runs Kubernetes 1.%d to 1.%d", k.talos, k.oldest, k.newest)
	}
	return ""
}

// DefaultKubernetesVersion is the version of Kubernetes that a new cluster gets
// with a version of Talos, without "v".
func DefaultKubernetesVersion(talosVersion string) (string, error) {
	row, err := rowOf(talosVersion)
	return row.recommended, err
}
