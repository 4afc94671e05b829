package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner/web"
)

func TestHealthzSaysHowTheDaemonIs(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1})
	startDaemon(t, f)
	for _, args := range [][]string{{"healthz"}, {"healthz", "--ready"}} {
		r := provision(t, append(args, "--config", f.ConfigFile())...)
		if r.status != exitDone || !strings.Contains(r.out, "site ") || strings.Contains(r.out, "not ok") {
			t.Errorf("%v: status %d: %s%s", args, r.status, r.out, r.err)
		}
	}
	r := provision(t, "healthz", "--ready", "-o", "json", "--config", f.ConfigFile())
	var health web.Health
	if err := json.Unmarshal([]byte(r.out), &health); err != nil || !health.OK || len(health.Checks) == 0 {
		t.Errorf("as JSON: %v: %s", err, r.out)
	}
}

// A daemon that has no site yet lives, and is not ready.
func TestHealthzTellsLivingFromReady(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1})
	edit(t, f, "provision.yaml", "ipxeDir: ", "ipxeDir: /does-not-exist")
	d := launchDaemon(t, f)
	d.until("it answers", func() bool { return provision(t, "healthz", "--config", f.ConfigFile()).status == exitDone })
	r := provision(t, "healthz", "--ready", "--config", f.ConfigFile())
	if r.status != exitFailed || !strings.Contains(r.out, "not ok") {
		t.Errorf("status %d: %s%s", r.status, r.out, r.err)
	}
}

func TestHealthzFailsWhereNobodyAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"no daemon":        {[]string{"--state", t.TempDir()}, exitFailed, "start `provision serve`"},
		"no daemon there":  {[]string{"--server", "http://127.0.0.1:1"}, exitFailed, "no answer from"},
		"another output":   {[]string{"-o", "xml"}, exitUsage, "table or json"},
		"a file not there": {[]string{"--config", "/does-not-exist"}, exitUsage, "read the configuration"},
	} {
		if r := provision(t, append([]string{"healthz"}, c.args...)...); r.status != c.status || !strings.Contains(r.err, c.says) {
			t.Errorf("%s: status %d: %s", name, r.status, r.err)
		}
	}
}
