package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/e2e/kubeapi"
	"github.com/talos-provision/provision/e2e/loopback"
	"github.com/talos-provision/provision/provisioner/store"
)

// asProvision makes this test binary behave as the real one, for tests that
// kill the process or send it signals.
const asProvision = "TEST_AS_PROVISION"

func TestMain(m *testing.M) {
	if os.Getenv(asProvision) != "" {
		main()
	}
	os.Exit(m.Run())
}

// startFleet starts an emulated fleet that ends with the test.
func startFleet(t *testing.T, config fleet.Config) *fleet.Fleet {
	t.Helper()
	if config.Kubernetes {
		kubeapi.Need(t)
	}
	config.Dir = t.TempDir()
	config.Network = loopback.Reserve(t, 100, 249)
	f, err := fleet.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// result is what a person or a script sees of one command.
type result struct {
	status   int
	out, err string
}

// provision runs one command line in this process, with nobody at the terminal.
func provision(t *testing.T, args ...string) result {
	t.Helper()
	return provisionAt(t, strings.NewReader(""), false, args...)
}

func provisionAt(t *testing.T, in io.Reader, terminal bool, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	status := run(args, &app{in: in, out: &out, errOut: &errOut, terminal: terminal})
	if t.Failed() || testing.Verbose() {
		t.Logf("provision %s: status %d\n%s%s", strings.Join(args, " "), status, out.String(), errOut.String())
	}
	return result{status, out.String(), errOut.String()}
}

// install runs `provision --cluster demo --yes -o json` on a fleet.
func install(t *testing.T, f *fleet.Fleet) (result, map[string]store.Event) {
	t.Helper()
	r := provision(t, "--config", f.ConfigFile(), "--cluster", "demo", "--yes", "-o", "json")
	return r, lastEvents(t, r.out)
}

// lastEvents is the last event of each node in a run's JSON output.
func lastEvents(t *testing.T, out string) map[string]store.Event {
	t.Helper()
	last := map[string]store.Event{}
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		if line == "" {
			continue
		}
		var e store.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("output line %q: %v", line, err)
		}
		last[e.Node] = e
	}
	return last
}

// edit changes the text of a file that belongs to a fleet.
func edit(t *testing.T, f *fleet.Fleet, name, old, replacement string) {
	t.Helper()
	path := filepath.Join(filepath.Dir(f.ConfigFile()), name)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("%s does not contain %q", name, old)
	}
	put(t, f, name, strings.ReplaceAll(string(text), old, replacement))
}

func put(t *testing.T, f *fleet.Fleet, name, text string) {
	t.Helper()
	writeFile(t, filepath.Join(filepath.Dir(f.ConfigFile()), name), text)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// untouched fails the test when any of the machines was reset.
func untouched(t *testing.T, machines ...*fleet.Machine) {
	t.Helper()
	for _, m := range machines {
		if resets := m.BMC().Resets(); len(resets) > 0 {
			t.Errorf("%s was reset: %v", m.Name, resets)
		}
	}
}

// noSessions fails the test when a BMC session was left open.
func noSessions(t *testing.T, f *fleet.Fleet) {
	t.Helper()
	for _, m := range f.Machines() {
		if n := m.BMC().OpenSessions(); n > 0 {
			t.Errorf("%d sessions are open on the BMC of %s", n, m.Name)
		}
	}
}
