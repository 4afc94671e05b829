package upgrade_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/compatibility"

	"github.com/talos-provision/provision/provisioner/upgrade"
)

func version(t *testing.T, s string) upgrade.Version {
	t.Helper()
	v, err := upgrade.ParseVersion(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func versions(t *testing.T, list ...string) []upgrade.Version {
	t.Helper()
	found := make([]upgrade.Version, 0, len(list))
	for _, s := range list {
		found = append(found, version(t, s))
	}
	return found
}

func TestVersionsCompareAsSemverDoes(t *testing.T) {
	t.Parallel()
	// Each is older than the next.
	ordered := versions(t, "1.9.5", "v1.13.0-alpha.2", "v1.13.0-alpha.10", "v1.13.0-alpha.beta", "v1.13.0-beta.0", "v1.13.0-rc.1", "v1.13.0-rc.1.1", "v1.13.0", "v1.13.9", "v2.0.0")
	for i, a := range ordered {
		for j, b := range ordered {
			if got, want := sign(a.Compare(b)), sign(i-j); got != want {
				t.Errorf("%s to %s: %d, want %d", a, b, got, want)
			}
		}
	}
	for _, s := range []string{"", "v1.13", "1.13.9.1", "latest", "v1.13.9 ", "v1.13.-1", "v1.1234567.0", "v1.013.9", "v0.1.0"} {
		if v, err := upgrade.ParseVersion(s); err == nil {
			t.Errorf("%q is read as %s", s, v)
		}
	}
}

func sign(n int) int { return max(-1, min(1, n)) }

func FuzzParseVersion(f *testing.F) {
	for _, s := range []string{"v1.13.9", "1.14.0-rc.1", "v1.13.9+build", "v1", "", "0.00.00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := upgrade.ParseVersion(s)
		if err != nil {
			return
		}
		again, err := upgrade.ParseVersion(v.String())
		if err != nil || again != v || again.Compare(v) != 0 {
			t.Errorf("%q: %s and %s, %v", s, v, again, err)
		}
	})
}

// home-operations/tuppr#66
func TestPathGoesThroughTheNewestPatchOfEachMinor(t *testing.T) {
	t.Parallel()
	releases := versions(t, "v1.12.11", "v1.12.12", "v1.12.9", "v1.12.13-rc.1", "v1.13.9", "v1.13.4", "v1.15.0")
	for _, c := range []struct {
		from, to string
		want     []string
		err      string
	}{
		{"v1.11.3", "v1.13.4", []string{"v1.12.12", "v1.13.4"}, ""},
		{"v1.11.3", "v1.14.0-rc.1", []string{"v1.12.12", "v1.13.9", "v1.14.0-rc.1"}, ""},
		{"v1.13.4", "v1.13.9", []string{"v1.13.9"}, ""},
		{"v1.12.3", "v1.13.9", []string{"v1.13.9"}, ""},
		{"v1.13.9", "v1.13.9", nil, ""},
		{"v1.13.9", "v1.13.8", nil, "older than what runs"},
		{"v1.14.0", "v1.14.0-rc.1", nil, "older than what runs"},
		{"v1.13.9", "v1.15.0", nil, "no release of Talos 1.14"},
		{"v1.13.9", "v2.0.0", nil, "no release of Talos 1.14"},
	} {
		got, err := upgrade.Path(version(t, c.from), version(t, c.to), releases)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s to %s: %v, %v", c.from, c.to, got, err)
			}
			continue
		}
		if diff := cmp.Diff(versions(t, c.want...), got, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("%s to %s: %v %s", c.from, c.to, err, diff)
		}
	}
	// siderolabs/omni#509
	if _, err := upgrade.Path(version(t, "v1.13.9"), version(t, "v1.12.12"), releases); !errors.Is(err, upgrade.ErrDowngrade) {
		t.Error(err)
	}
}

func TestCompatibility(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ target, host, err string }{
		{"v1.14.1", "v1.12.0", ""},
		{"v1.14.1", "v1.13.9", ""},
		{"v1.14.0-rc.1", "v1.11.9", "too old"},
		{"v1.14.1", "v1.15.9", ""},
		{"v1.14.1", "v1.16.0-alpha.0", "too new"},
		{"v1.13.9", "v1.11.0", ""},
		{"v1.13.9", "v1.10.9", "too old"},
		{"v1.11.6", "v1.13.9", "too new to downgrade"},
		{"v1.15.0", "v1.14.0", "not supported"},
		{"v1.99.0", "v1.98.0", "not supported"},
	} {
		err := upgrade.Replaces(version(t, c.target), version(t, c.host))
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s over %s: %v, want %q", c.target, c.host, err, c.err)
		}
	}
	for _, c := range []struct{ talos, kubernetes, err string }{
		{"v1.14.1", "v1.32.0", ""},
		{"v1.14.1", "1.37.2", ""},
		{"v1.14.1", "v1.31.9", "takes 1.32 to 1.37"},
		{"v1.14.1", "v1.38.0", "takes 1.32 to 1.37"},
		{"v1.14.1", "1.x", "no version of Kubernetes"},
		{"v1.13.9", "v1.31.0", ""},
		{"v1.13.9", "v1.30.9", "too old"},
		{"v1.13.9", "v1.37.0", "too new"},
		{"v1.13.9", "x", "no version of Kubernetes"},
	} {
		err := upgrade.RunsKubernetes(version(t, c.talos), c.kubernetes)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s on %s: %v, want %q", c.kubernetes, c.talos, err, c.err)
		}
	}
}

// Our own row for Talos 1.14 is to go when the library has one.
func TestTheLibraryStillLacksTalos114(t *testing.T) {
	t.Parallel()
	target, err := compatibility.ParseTalosVersion(&machine.VersionInfo{Tag: "v1.14.0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := target.UpgradeableFrom(target); err == nil {
		t.Error("the compatibility package knows Talos 1.14 now: compare its row with ours, and take ours out")
	}
}

func TestChoosesTheAPI(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		running string
		args    bool
		want    upgrade.API
	}{
		{"v1.9.5", false, upgrade.Legacy},
		{"v1.12.12", false, upgrade.Legacy},
		{"v1.13.0-alpha.2", false, upgrade.Legacy},
		{"v1.13.0-alpha.3", false, upgrade.Lifecycle},
		{"v1.13.0", false, upgrade.Lifecycle},
		{"v1.14.1", false, upgrade.Lifecycle},
		{"v1.13.9", true, upgrade.Legacy}, // siderolabs/talos#13967
		{"v2.0.0", false, upgrade.Legacy},
	} {
		if got, why := upgrade.ChooseAPI(version(t, c.running), c.args); got != c.want || why == "" {
			t.Errorf("%s, arguments: %t: %s %q", c.running, c.args, got, why)
		}
	}
}
