package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner/store"
)

// fastUpgrade is for emulated nodes, which do in milliseconds what takes servers minutes.
const fastUpgrade = `upgrade:
  gateTimeout: 20s
  drainTimeout: 5s
  installTimeout: 20s
  rebootTimeout: 20s
  verifyTimeout: 20s
  callTimeout: 10s
  poll: 50ms
  grace: 300ms
  leaseDuration: 2m
  leaseRenew: 200ms
`

// upgradeSite is a fleet on whose disks a cluster is installed that runs v1.13.4, or what the configuration says.
type upgradeSite struct {
	t *testing.T
	*fleet.Fleet
}

const before, after = "v1.13.4", "v1.14.0"

// newUpgradeSite switches every machine on; each boots its disk and joins its cluster.
func newUpgradeSite(t *testing.T, config fleet.Config) upgradeSite {
	t.Helper()
	if config.Clusters == nil {
		config.Clusters = []fleet.Cluster{{Name: "prod", ControlPlanes: 3, Workers: 2}}
	}
	config.Installed, config.MachineConfigs, config.TalosVersion = true, true, cmp.Or(config.TalosVersion, before)
	s := upgradeSite{t, startFleet(t, config)}
	edit(t, s.Fleet, "provision.yaml", "talos:\n", fastUpgrade+"talos:\n")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := s.AwaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

// running is what each node that is ready runs.
func (s upgradeSite) running() map[string]string {
	versions := map[string]string{}
	for _, c := range s.Clusters() {
		for _, n := range c.Nodes {
			if n.Ready {
				versions[n.Name] = n.Version
			}
		}
	}
	return versions
}

// command is `provision upgrade --cluster prod` and more, in this process.
func (s upgradeSite) command(args ...string) result {
	s.t.Helper()
	return provision(s.t, append([]string{"upgrade", "--config", s.ConfigFile(), "--cluster", "prod"}, args...)...)
}

// withoutKubernetes is for sites that have no Kubernetes API.
var withoutKubernetes = []string{"--no-drain", "--kubernetes-version", "v1.36.0"}

// run upgrades without Kubernetes, and returns the events.
func (s upgradeSite) run(args ...string) (result, []store.Event) {
	s.t.Helper()
	r := s.command(slices.Concat(withoutKubernetes, []string{"--to", after, "--yes", "-o", "json"}, args)...)
	return r, eventsOf(s.t, r.out)
}

// allRun checks that every node is up with a version.
func (s upgradeSite) allRun(version string) {
	s.t.Helper()
	want := map[string]string{}
	for _, m := range s.Machines() {
		want[m.Name] = version
	}
	if diff := gocmp.Diff(want, s.running()); diff != "" {
		s.t.Errorf("running versions (-want +got):\n%s", diff)
	}
}

// order is in which order nodes reached a state.
func order(events []store.Event, state string) []string {
	var nodes []string
	for _, e := range events {
		if e.State == state && e.Previous != state {
			nodes = append(nodes, e.Node)
		}
	}
	return nodes
}

// boots is how often each machine was started.
func (s upgradeSite) boots() map[string]int {
	counts := map[string]int{}
	for _, m := range s.Machines() {
		counts[m.Name] = len(m.Boots())
	}
	return counts
}

// each gives every machine the same number.
func (s upgradeSite) each(n int) map[string]int {
	counts := map[string]int{}
	for _, m := range s.Machines() {
		counts[m.Name] = n
	}
	return counts
}

// says checks status and text of a result.
func (r result) says(t *testing.T, status int, texts ...string) {
	t.Helper()
	if r.status != status {
		t.Errorf("status %d, want %d:\n%s%s", r.status, status, r.out, r.err)
	}
	for _, text := range texts {
		if !strings.Contains(r.out+r.err, text) {
			t.Errorf("lacks %q:\n%s%s", text, r.out, r.err)
		}
	}
}

func eventsOf(t *testing.T, out string) []store.Event {
	t.Helper()
	var events []store.Event
	for line := range strings.Lines(out) {
		var e store.Event
		if err := unmarshalStrict([]byte(line), &e); err != nil {
			t.Fatalf("output line %q: %v", line, err)
		}
		events = append(events, e)
	}
	return events
}

// unmarshalStrict refuses fields that an event does not have.
func unmarshalStrict(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}
