package main

import (
	"strings"
	"testing"

	"github.com/talos-provision/provision/inventory"
)

// What the documentation tells people to copy must load without a finding.
func TestTheExamplesOfTheDocumentationAreSound(t *testing.T) {
	t.Parallel()
	tree, findings, err := inventory.Load("../../docs/examples/nodes")
	if err != nil || len(findings) > 0 || len(tree.Nodes) != 4 {
		t.Errorf("%d nodes, error %v, findings:\n%v", len(tree.Nodes), err, findings)
	}
	a := &app{flags: flags{config: "../../docs/examples/provision.yaml"}}
	c, err := a.loadConfig()
	if err != nil {
		t.Fatal(err)
	}
	if want := defaultConfig().Power; c.Power != want {
		t.Errorf("power is %+v, want the defaults %+v, as the comment in the file says", c.Power, want)
	}
}

// A mistake in provision.yaml is told with its file, line and field.
func TestMistakesInTheConfigurationAreToldByFileAndLine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"unknown key":     {"dhcp:\n  mod: server\n", []string{"provision.yaml", "line 2", "mod"}},
		"bad range":       {"dhcp:\n  subnets:\n  - {cidr: 10.0.0.0/24, range: 10.0.0.9}\n", []string{"provision.yaml", "10.0.0.9", "FIRST-LAST"}},
		"bad duration":    {"power:\n  window: soon\n", []string{"provision.yaml", "line 2", "soon"}},
		"unknown mode":    {"dhcp: {mode: relay}\n", []string{"dhcp.mode", "relay", "server, proxy or off"}},
		"no parallelism":  {"power: {parallel: 0}\n", []string{"power.parallel"}},
		"nobody's subnet": {"dhcp:\n  subnets:\n  - {cidr: 10.0.0.0/24, range: 10.0.0.9-10.0.0.10}\n", []string{"network", "interface or address"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := t.TempDir() + "/provision.yaml"
			writeFile(t, file, tc.text)
			r := provision(t, "inventory", "validate", "--config", file)
			if r.status != exitUsage {
				t.Errorf("status %d, want %d", r.status, exitUsage)
			}
			for _, want := range tc.want {
				if !strings.Contains(r.err, want) {
					t.Errorf("error output %q lacks %q", r.err, want)
				}
			}
		})
	}
}

// The reference inventory, as it is printed for machines.
func TestShowGivesTheMergedValues(t *testing.T) {
	t.Parallel()
	r := provision(t, "inventory", "show", "--inventory", "../../inventory/testdata/reference/nodes", "--node", "node-01", "-o", "json")
	if r.status != exitDone {
		t.Fatalf("status %d: %s", r.status, r.err)
	}
	for _, want := range []string{`"serial": "ABCDEFGHIJ01"`, `"vlan": "1234"`, `"install": true`, `"talosVersion": "v1.9.5"`, `"ntp": "fr.pool.ntp.org"`} {
		if !strings.Contains(r.out, want) {
			t.Errorf("output lacks %s:\n%s", want, r.out)
		}
	}
	plan := provision(t, "plan", "--inventory", "../../inventory/testdata/reference/nodes", "--cluster", "k8s-dev", "--state", t.TempDir())
	if plan.status != exitFailed || !strings.Contains(plan.out, "no BMC is configured") {
		t.Errorf("plan: status %d, output %s", plan.status, plan.out)
	}
}
