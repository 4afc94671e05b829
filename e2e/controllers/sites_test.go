package controllers_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
)

// Two sites share a state and an inventory: each installs its own nodes, in runs of
// one cluster at the same time. A node without the label is nobody's.
func TestEachSiteInstallsItsOwnNodes(t *testing.T) {
	t.Parallel()
	a := newLab(t, siteOf("a"))
	b := a.beside(siteOf("b"))
	nodes := filepath.Join(filepath.Dir(a.fleet.ConfigFile()), "nodes")
	a.label(nodes, "a")
	b.label(nodes, "b")
	atA := a.controller(0, map[string]any{"site": "a"})
	atB := b.controller(0, map[string]any{"site": "b", "inventory": nodes})
	atA.start()
	atB.start()
	atA.awaitLead()
	atB.awaitLead()
	if !a.state.leads(atA, "a") || !a.state.leads(atB, "b") {
		t.Error("the state has other leaders")
	}

	ofA, ofB := atA.run(web.RunRequest{Cluster: "demo"}), atB.run(web.RunRequest{Cluster: "demo"})
	a.state.awaitFinished(ofA, ofB)
	runs, err := a.state.store().Runs()
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 2 || runs[0].Started.After(runs[1].Finished) || runs[1].Started.After(runs[0].Finished) {
		t.Errorf("the runs are %+v, want two at the same time", runs)
	}
	a.plan, b.plan = []string{"demo/a-01", "demo/a-02"}, []string{"demo/b-01", "demo/b-02"}
	a.well(1)
	b.well(1)
	want := []string{"demo/a-01", "demo/a-02", "demo/b-01", "demo/b-02"}
	for _, c := range []*controller{atA, atB} {
		if got := c.status(); !slices.Equal(got, want) {
			t.Errorf("at %s the status tells of %v in maintenance, want %v", c.name, got, want)
		}
	}
}

// siteOf is a fleet whose machines are no other site's: three of them, the last one
// of no site at all.
func siteOf(site string) fleet.Config {
	count := 0
	return fleet.Config{
		Nodes: 3, POST: time.Second, KernelTime: time.Second,
		Adjust: func(m *fleet.Machine) {
			count++
			m.Name = site + "-0" + strconv.Itoa(count)
			m.Hardware.Serial, m.Hardware.BoardSerial = site+m.Hardware.Serial, site+m.Hardware.BoardSerial
			m.Hardware.ChassisSerial = site + m.Hardware.ChassisSerial
			m.Hardware.UUID = strings.Replace(m.Hardware.UUID, "7a1e0000", "7a1e000"+site, 1)
			m.Hardware.MACs = []string{"0c:c4:7" + site + m.Hardware.MACs[0][len("0c:c4:7a"):]}
		},
	}
}

// label writes the fleet's nodes into an inventory, with the label of their site: all
// but the last one.
func (l *lab) label(nodes, site string) {
	l.t.Helper()
	dir := filepath.Dir(l.fleet.ConfigFile())
	machines := l.fleet.Machines()
	for i, m := range machines {
		file := filepath.Join("demo", m.Name+".yaml")
		text, err := os.ReadFile(filepath.Join(dir, "nodes", file))
		if err != nil {
			l.t.Fatal(err)
		}
		node := map[string]any{}
		if err := yaml.Unmarshal(text, &node); err != nil {
			l.t.Fatal(err)
		}
		// What the defaults of its own inventory say.
		node["gateway"], node["ntp"] = l.address(1).String(), l.address(1).String()
		bmc := node["bmc"].(map[string]any)
		bmc["passwordFile"], bmc["caFile"] = filepath.Join(dir, "bmc-password"), filepath.Join(dir, "bmc-ca.pem")
		if i < len(machines)-1 {
			node["labels"] = map[string]any{"site": site}
		}
		if text, err = yaml.Marshal(node); err != nil {
			l.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(nodes, file), text, 0o600); err != nil {
			l.t.Fatal(err)
		}
	}
}

// command runs another command with a controller's configuration, and returns its
// exit status and what it wrote.
func (c *controller) command(args ...string) (status int, out, errOut string) {
	c.t.Helper()
	binary, err := program()
	if err != nil {
		c.t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(c.t.Context(), binary, append(args, "--config", c.config)...)
	command.Stdout, command.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := command.Run(); err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// status is what `provision status` says is in maintenance.
func (c *controller) status() []string {
	c.t.Helper()
	status, out, errOut := c.command("status", "-o", "json")
	var nodes []store.Node
	if err := json.Unmarshal([]byte(out), &nodes); err != nil || status != 0 {
		c.t.Fatalf("provision status at %s ended with %d and %q: %v", c.name, status, errOut, err)
	}
	var up []string
	for _, n := range nodes {
		if n.State == "Maintenance" {
			up = append(up, n.Cluster+"/"+n.Name)
		}
	}
	slices.Sort(up)
	return up
}

// exitRefused is the exit status of a run that others forbid.
const exitRefused = 3

// One controller serves a network segment: a run from another host is refused, and
// learns whom to ask.
func TestARunBesideALeaderOnAnotherHostIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Nodes: 1})
	leader := l.controller(0, nil)
	leader.start()
	leader.awaitLead()
	status, out, errOut := l.controller(1, nil).command("--cluster", "demo", "--yes")
	if status != exitRefused {
		t.Errorf("exit status %d, want %d; it wrote %q", status, exitRefused, out)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{host + "/" + strconv.Itoa(leader.process.Process.Pid), "--server"} {
		if !strings.Contains(errOut, part) {
			t.Errorf("it says %q, without %s", errOut, part)
		}
	}
	if got := l.effects(); len(got) > 0 {
		t.Errorf("BMCs got %v", got)
	}
	if leads, what := leader.standing(); !leads {
		t.Errorf("the leader is disturbed: %s", what)
	}
}
