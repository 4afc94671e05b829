package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/fleet"
)

const status = `[{"cluster":"demo","node":"node-01","state":"Maintenance"},{"cluster":"demo","node":"node-02","state":"Failed","message":"no DHCP seen"}]`

// written writes the truth of two nodes: one that is up, and one that never answers.
func written(t *testing.T, change func(*fleet.Oracle)) string {
	t.Helper()
	o := fleet.Oracle{Attempts: 2, Machines: []fleet.Truth{
		{Cluster: "demo", Name: "node-01", Listed: true, InPlan: true, PowerOns: 1, Up: "maintenance", Expected: fleet.Expectation{State: "Maintenance", PowerOns: 2}},
		{
			Cluster: "demo", Name: "node-02", Listed: true, InPlan: true, PowerOns: 2, Faults: []fleet.Fault{fleet.SilentPower},
			Expected: fleet.Expectation{State: "Failed", Causes: []string{"no DHCP seen"}, PowerOns: 2},
		},
	}}
	change(&o)
	file := filepath.Join(t.TempDir(), "truth.json")
	if err := writeTruth(file, o); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCheckListsWhatTheControllerBroke(t *testing.T) {
	t.Parallel()
	dark := func(o *fleet.Oracle) { o.Machines[0].Up = "" }
	opened := func(o *fleet.Oracle) {
		o.Machines[1].Sessions = []time.Time{time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)}
	}
	for name, tt := range map[string]struct {
		change func(*fleet.Oracle)
		status string
		args   []string
		broken bool
		want   string
	}{
		"nothing":                 {func(*fleet.Oracle) {}, status, nil, false, "2 machines, no rule broken\n"},
		"not up":                  {dark, status, nil, true, "demo/node-01: confirmed: it is said to be up in maintenance, and its own system does not run\n"},
		"not up, in the middle":   {dark, status, []string{"--safety"}, true, "demo/node-01: confirmed:"},
		"one is missing":          {func(*fleet.Oracle) {}, "[]", []string{"--plan", "demo/node-02"}, true, "demo/node-01: outside the plan: its BMC switched it on 1 and off 0 times\ndemo/node-02: bad node: nothing is said"},
		"missing, in the middle":  {func(*fleet.Oracle) {}, "[]", []string{"--safety"}, false, "no rule broken"},
		"a session was left open": {opened, status, nil, true, "demo/node-02: session: 1 sessions"},
		"by one that was killed":  {opened, status, []string{"--since", "2026-01-02T12:00:01Z"}, false, "no rule broken"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			args := append([]string{"--truth", written(t, tt.change)}, tt.args...)
			err := check(t.Context(), args, strings.NewReader(tt.status), &out)
			if errors.Is(err, errBroken) != tt.broken || !tt.broken && err != nil {
				t.Errorf("error = %v, want broken %t", err, tt.broken)
			}
			if !strings.Contains(out.String(), tt.want) {
				t.Errorf("output %q lacks %q", out.String(), tt.want)
			}
		})
	}
}

func TestCheckSaysWhatItCannotRead(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	truth := written(t, func(*fleet.Oracle) {})
	for name, tt := range map[string]struct {
		args   []string
		status string
		want   string
	}{
		"no truth named":      {nil, status, "--truth FILE"},
		"no such truth":       {[]string{"--truth", "/nonexistent"}, status, "no such file"},
		"no such status":      {[]string{"--truth", truth, "--status", "/nonexistent"}, status, "no such file"},
		"status is no JSON":   {[]string{"--truth", truth}, "CLUSTER  NODE", "provision status -o json"},
		"a server without":    {[]string{"--truth", server.URL}, status, "404"},
		"truth is no JSON":    {[]string{"--truth", "check_test.go"}, status, "--oracle"},
		"since is no time":    {[]string{"--truth", truth, "--since", "noon"}, status, "--since"},
		"a flag is not known": {[]string{"--what"}, status, "not defined"},
	} {
		if err := check(t.Context(), tt.args, strings.NewReader(tt.status), new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
	}
}

// The whole command: a fleet with faults, its truth while it runs and at its end.
func TestTheCommandTellsTheTruth(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	end := filepath.Join(dir, "truth.json")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"--dir", dir, "--network", "127.93.0.0/16", "--nodes", "8", "--seed", "4", "--vendors", "supermicro:1,dell:1", "--faults", "bmc-auth=1", "--post", "uniform:1s-2s", "--oracle", end})
	}()
	deadline := time.After(time.Minute)
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		if _, err := os.Stat(filepath.Join(dir, "ready")); err == nil {
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v", err)
		case <-deadline:
			t.Fatal("it was not ready within a minute")
		default:
		}
	}
	for _, from := range []string{"http://127.93.0.4:8070/truth", end} {
		if from == end {
			stop()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
		}
		o, err := readTruth(t.Context(), from)
		if err != nil || len(o.Machines) != 8 || o.Seed != 4 {
			t.Fatalf("%s: %+v, %v", from, o, err)
		}
		for _, m := range o.Machines {
			if len(m.Faults) != 1 || m.Faults[0] != fleet.BMCAuth || m.Expected.State != "Failed" {
				t.Errorf("%s: %+v", from, m)
			}
		}
	}
}
