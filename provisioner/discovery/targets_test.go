package discovery

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func noFile(string) bool { return false }

func TestTargets(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, spec string
		port       uint16
		want       []Target
	}{
		{"a prefix is a slice of addresses, with its first and last", "10.0.0.8/30", 0, []Target{
			{"10.0.0.8", "10.0.0.8:443"}, {"10.0.0.9", "10.0.0.9:443"}, {"10.0.0.10", "10.0.0.10:443"}, {"10.0.0.11", "10.0.0.11:443"},
		}},
		{"host bits are dropped", "10.0.0.9/31", 8443, []Target{{"10.0.0.8:8443", "10.0.0.8:8443"}, {"10.0.0.9:8443", "10.0.0.9:8443"}}},
		{"IPv6", "fd00::1/127,fd00::9,[fd00::a]:8443", 0, []Target{
			{"fd00::", "[fd00::]:443"}, {"fd00::1", "[fd00::1]:443"}, {"fd00::9", "[fd00::9]:443"}, {"[fd00::a]:8443", "[fd00::a]:8443"},
		}},
		{"a list in the order given, each once", "bmc-02.example.com, 10.0.0.1:444 ,https://10.0.0.1:444/,BMC-02.example.com.,https://10.0.0.3/", 0, []Target{
			{"bmc-02.example.com", "bmc-02.example.com:443"}, {"10.0.0.1:444", "10.0.0.1:444"}, {"https://10.0.0.3", "10.0.0.3:443"},
		}},
		{"a port for those without", "10.0.0.1,10.0.0.2:443", 8443, []Target{{"10.0.0.1:8443", "10.0.0.1:8443"}, {"10.0.0.2:443", "10.0.0.2:443"}}},
	} {
		got, err := ParseTargets(tc.spec, tc.port, noFile, nil)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

func TestTargetsFromAFile(t *testing.T) {
	t.Parallel()
	content := "\ufeff# rack 1\r\n10.0.0.1   # left\r\n\nbmc-02.example.com:8443\n10.0.1.0/31, https://10.0.0.9\n"
	got, err := ParseTargets("bmcs.txt", 0, func(string) bool { return true }, func(string) ([]byte, error) { return []byte(content), nil })
	if err != nil {
		t.Fatal(err)
	}
	addresses := make([]string, len(got))
	for i, target := range got {
		addresses[i] = target.Address
	}
	if diff := cmp.Diff([]string{"10.0.0.1", "bmc-02.example.com:8443", "10.0.1.0", "10.0.1.1", "https://10.0.0.9"}, addresses); diff != "" {
		t.Error(diff)
	}
	_, err = ParseTargets("x", 0, func(string) bool { return true }, func(string) ([]byte, error) { return nil, errors.New("denied") })
	if err == nil || !strings.Contains(err.Error(), "denied") {
		t.Error(err)
	}
}

func TestTargetsThatAreRefused(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"":                      "no BMC is named",
		" , ":                   "no BMC is named",
		"10.0.0.0/15":           "131072 addresses",
		"fd00::/64":             "18446744073709551616 addresses",
		"10.0.0.0/33":           "neither a CIDR",
		"racks/one.txt":         "nor a file that exists",
		"http://10.0.0.1":       "does not use HTTPS",
		"https://u:pw@1.2.3.4":  "holds a user or a password",
		"https://10.0.0.1/x":    "path",
		"10.0.0.1:0":            "port",
		"10.0.0.1:70000":        "port",
		"a b":                   "BMC's address",
		"1.0.0.0/16,2.0.0.0/32": "more than 65536",
	} {
		_, err := ParseTargets(spec, 0, noFile, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", spec, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "pw") {
			t.Errorf("the password is told (I9): %v", err)
		}
	}
}

func FuzzParseTargets(f *testing.F) {
	f.Add("10.0.0.0/30,bmc:443,https://[fd00::1]")
	f.Add("https://u:p@h/%zz")
	f.Fuzz(func(t *testing.T, spec string) {
		targets, err := ParseTargets(spec, 0, noFile, os.ReadFile)
		if err != nil {
			return
		}
		for _, target := range targets[:min(len(targets), 100)] {
			if again, err := Endpoint(target.Address, 443); err != nil || again != target.Endpoint {
				t.Errorf("%+v is read again as %q, %v", target, again, err)
			}
		}
	})
}

func TestNewNamesContinueBehindTheHighest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"prod/node-02.yaml", "prod/node-10.yaml", "prod/gpu-99.yaml", "prod/node-x.yaml", "dev/node-50.yaml"} {
		put(t, dir, name, "serial: S"+strings.ReplaceAll(filepath.Base(name), ".yaml", "")+"XYZ\n")
	}
	tree := load(t, dir)
	for format, want := range map[string][]string{"node-%02d": {"node-11", "node-12"}, "gpu-%d": {"gpu-100", "gpu-101"}, "rack1-%03d": {"rack1-001", "rack1-002"}} {
		n, err := newNames(format, "prod", tree.Nodes)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, []string{n.next(), n.next()}); diff != "" {
			t.Errorf("%s: %s", format, diff)
		}
	}
	for _, format := range []string{"", "node", "node-%s", "%d-%d", "Node-%d", "node_%d", "-%d", "node-%02d%%", "a/%d"} {
		if _, err := newNames(format, "prod", nil); err == nil {
			t.Errorf("%q makes names", format)
		}
	}
}
