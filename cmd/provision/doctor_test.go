package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner/doctor"
)

// report reads what `provision doctor -o json` printed.
func report(t *testing.T, r result) map[string][]doctor.Finding {
	t.Helper()
	var got doctorReport
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		t.Fatalf("%v in %q; %s", err, r.out, r.err)
	}
	byCheck := map[string][]doctor.Finding{}
	for _, f := range got.Checks {
		byCheck[f.Check] = append(byCheck[f.Check], f)
	}
	return byCheck
}

func TestTheDoctorFindsAnEmulatedFleetFit(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2})
	r := provision(t, "doctor", "--config", f.ConfigFile(), "-o", "json")
	if r.status != exitDone {
		t.Errorf("status %d: %s%s", r.status, r.out, r.err)
	}
	found := report(t, r)
	for check, want := range map[string]string{
		"inventory": "with a BMC address", "ports": "free", "ipxe": "recent", "factory": "reachable",
		"cache": "free", "state": "free", "bmc": "can be reached", "clock": "agrees with",
	} {
		if len(found[check]) == 0 || found[check][0].Result != doctor.OK || !strings.Contains(found[check][0].Message, want) {
			t.Errorf("check %s: %+v, want ok: %s", check, found[check], want)
		}
	}
	table := provision(t, "doctor", "--config", f.ConfigFile())
	if table.status != exitDone || !strings.Contains(table.out, "CHECK") || !strings.Contains(table.out, "ready") {
		t.Errorf("status %d:\n%s", table.status, table.out)
	}
	noSessions(t, f)
	untouched(t, f.Machines()...)
}

func TestTheDoctorSaysWhatWouldStopARun(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2})
	f.Machines()[0].BMC().Close()
	text, err := os.ReadFile(f.ConfigFile())
	if err != nil {
		t.Fatal(err)
	}
	listen := regexp.MustCompile(`http:\s*listen: (127\.[0-9.]+:[0-9]+)`).FindSubmatch(text)
	if listen == nil {
		t.Fatalf("no http.listen in %s", text)
	}
	holder, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", strings.TrimSpace(string(listen[1])))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Close() })
	if err := os.RemoveAll(filepath.Join(filepath.Dir(f.ConfigFile()), "ipxe")); err != nil {
		t.Fatal(err)
	}
	r := provision(t, "doctor", "--config", f.ConfigFile(), "-o", "json")
	found := report(t, r)
	if r.status != exitFailed {
		t.Errorf("status %d", r.status)
	}
	if bad := found["bmc"]; len(bad) != 2 || bad[1].Result != doctor.Fail || !strings.Contains(bad[1].Subject, f.Machines()[0].Name) {
		t.Errorf("BMCs: %+v", bad)
	}
	if bad := found["ipxe"]; len(bad) != 1 || bad[0].Result != doctor.Fail {
		t.Errorf("iPXE: %+v", bad)
	}
	// The holder is this very program, which the doctor takes for a run at work.
	held := false
	for _, p := range found["ports"] {
		held = held || strings.Contains(p.Message, "is at work")
	}
	if !held {
		t.Errorf("ports: %+v", found["ports"])
	}
	if table := provision(t, "doctor", "--config", f.ConfigFile()); table.status != exitFailed || !strings.Contains(table.out, "  -> ") || !strings.Contains(table.out, "not ready") {
		t.Errorf("status %d:\n%s", table.status, table.out)
	}
}

func TestTheDoctorLooksAtAHostWithoutConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "provision.yaml")
	// Nothing outside of this host is to be asked by a test.
	writeFile(t, config, "inventory: "+dir+"/nodes\nassets: {factory: 'http://127.0.0.1:9'}\nipxeDir: "+dir+"\nstate: "+dir+"\n")
	r := provision(t, "doctor", "--config", config, "-o", "json")
	found := report(t, r)
	if r.status != exitFailed || found["inventory"][0].Result != doctor.Fail || found["interface"][0].Result != doctor.Fail {
		t.Errorf("status %d: %+v", r.status, found)
	}
	writeFile(t, config, "tftp: {listen: nonsense}\n")
	if r := provision(t, "doctor", "--config", config); r.status != exitUsage || !strings.Contains(r.err, "tftp.listen") {
		t.Errorf("a wrong address: status %d: %s", r.status, r.err)
	}
}

func TestTheDoctorLooksAtEveryInterface(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "provision.yaml")
	writeFile(t, config, "network: {interfaces: [lo, nosuch0]}\ninventory: "+dir+"/nodes\nassets: {factory: 'http://127.0.0.1:9'}\nipxeDir: "+dir+"\nstate: "+dir+"\n")
	results := map[string]doctor.Result{}
	for _, f := range report(t, provision(t, "doctor", "--config", config, "-o", "json"))["interface"] {
		if results[f.Subject] != doctor.Fail {
			results[f.Subject] = f.Result
		}
	}
	// Loopback is a warning at most: only emulated machines are there.
	if results["lo"] == "" || results["lo"] == doctor.Fail || results["nosuch0"] != doctor.Fail {
		t.Errorf("interfaces: %v", results)
	}
}

func TestTheDoctorAsksTheBMCsOfTheSelectedNodes(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 4})
	for _, tc := range []struct {
		args []string
		want int
	}{
		{nil, 4},
		{[]string{"--node", "node-[01-03]"}, 3},
		{[]string{"--node", "node-[01-03]", "--exclude", "node-02"}, 2},
	} {
		r := provision(t, append([]string{"doctor", "--config", f.ConfigFile(), "-o", "json"}, tc.args...)...)
		want := fmt.Sprintf("%d nodes, %d with a BMC address", tc.want, tc.want)
		if got := report(t, r)["inventory"][0].Message; got != want {
			t.Errorf("%v: %q, want %q", tc.args, got, want)
		}
	}
}

// A person looks a cause up in the documentation by the word that was printed.
func TestEveryCauseIsExplained(t *testing.T) {
	t.Parallel()
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	document := read("../../docs/troubleshooting.md")
	for file, pattern := range map[string]string{
		"../../provisioner/failure.go": `Cause = "([^"]+)"`,
		"../../pxe/dhcp/problem.go":    `ProblemKind = "([^"]+)"`,
	} {
		words := regexp.MustCompile(pattern).FindAllStringSubmatch(read(file), -1)
		if len(words) < 5 {
			t.Errorf("%s has only %d causes: the pattern is out of date", file, len(words))
		}
		for _, word := range words {
			if !strings.Contains(document, "`"+word[1]+"`") {
				t.Errorf("docs/troubleshooting.md does not explain %q", word[1])
			}
		}
	}
}
