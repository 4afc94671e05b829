package install_test

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/talos-provision/provision/e2e/needs"
)

const unit = "deploy/systemd/provision.service"

func TestTheManualShowsTheUnitThatIsInstalled(t *testing.T) {
	t.Parallel()
	_, after, found := strings.Cut(read(t, repository(t), "docs/operations.md"), "```ini\n")
	shown, _, closed := strings.Cut(after, "```\n")
	if !found || !closed {
		t.Fatal("docs/operations.md shows no unit")
	}
	if want := read(t, repository(t), unit); shown != want {
		t.Errorf("docs/operations.md shows another unit than %s; put this one there:\n%s", unit, want)
	}
}

// The same line may stand there several times (SystemCallFilter).
func directives(text string) map[string][]string {
	found := map[string][]string{}
	for line := range strings.SplitSeq(text, "\n") {
		if name, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			found[name] = append(found[name], value)
		}
	}
	return found
}

// What the daemon counts on, whatever else is taken from it.
func TestTheUnitLeavesTheDaemonWhatItNeeds(t *testing.T) {
	t.Parallel()
	has := directives(read(t, repository(t), unit))
	for name, want := range map[string]string{
		"Type": "notify", "WatchdogSec": "60", "TimeoutStartSec": "infinity", "TimeoutStopSec": "900",
		"ExecReload": "kill -HUP $MAINPID", "Restart": "on-failure", "User": "provision",
		"StateDirectory": "provision", "CacheDirectory": "provision",
		"AmbientCapabilities":   "CAP_NET_BIND_SERVICE CAP_NET_RAW",
		"CapabilityBoundingSet": "CAP_NET_BIND_SERVICE CAP_NET_RAW",
		"NoNewPrivileges":       "true", "ProtectSystem": "strict",
		"RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_PACKET",
	} {
		if got := strings.Join(has[name], "|"); got != want {
			t.Errorf("%s=%s, want %s", name, got, want)
		}
	}
	// The boot id, by which an interrupted download and a restarted node are told, is there.
	if subset := has["ProcSubset"]; len(subset) > 0 {
		t.Errorf("ProcSubset=%s hides /proc/sys/kernel/random/boot_id", subset)
	}
}

func TestTheUnitIsExposedAsLittleAsTheManualSays(t *testing.T) {
	t.Parallel()
	needs.Program(t, "systemd-analyze")
	said := regexp.MustCompile(`exposure level of (\d+\.\d)`).FindStringSubmatch(read(t, repository(t), "docs/install.md"))
	if said == nil {
		t.Fatal("docs/install.md does not say what systemd-analyze makes of the unit")
	}
	report := output(t, repository(t), "systemd-analyze", "security", "--offline=true", "--no-pager", unit)
	level := regexp.MustCompile(`Overall exposure level for provision\.service: (\d+\.\d)`).FindStringSubmatch(report)
	if level == nil {
		t.Fatalf("systemd-analyze gives no level:\n%s", report)
	}
	most, err := strconv.ParseFloat(said[1], 64)
	must(t, err)
	is, err := strconv.ParseFloat(level[1], 64)
	must(t, err)
	if is > most {
		t.Errorf("the unit is exposed by %.1f, docs/install.md says %.1f", is, most)
	}
}

func TestSystemdHasNothingToSayAgainstTheUnit(t *testing.T) {
	t.Parallel()
	needs.Program(t, "systemd-analyze")
	// The program need not be installed here, and its manual neither.
	text := strings.Replace(read(t, repository(t), unit), "ExecStart=provision ", "ExecStart=/bin/true ", 1)
	text = strings.Replace(text, "man:provision(1) ", "", 1)
	copied := filepath.Join(t.TempDir(), "provision.service")
	write(t, copied, text)
	r := try(t, repository(t), "systemd-analyze", "verify", copied)
	if r.err != nil || strings.Contains(r.errOut, "provision.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", r.err, r.errOut)
	}
	// It would find something.
	write(t, copied, strings.Replace(text, "ProtectSystem=strict", "ProtectSystem=stricter", 1))
	if r := try(t, repository(t), "systemd-analyze", "verify", copied); !strings.Contains(r.errOut, "stricter") {
		t.Errorf("systemd-analyze verify lets a wrong value pass:\n%s", r.errOut)
	}
}
