package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner/store"
)

// A download that takes its time is told of while it lasts, with how much of how much.
func TestAnEventTellsHowFarADownloadIs(t *testing.T) {
	t.Parallel()
	const total = 32 << 20
	f := startFleet(t, fleet.Config{Nodes: 2, PerChassis: 1, ImageSize: total, Adjust: func(m *fleet.Machine) {
		if m.Name == "node-01" {
			m.HTTPRate = 5 << 20
		}
	}})
	r, last := install(t, f)
	if r.status != exitDone || last["node-01"].State != "Maintenance" || last["node-02"].State != "Maintenance" {
		t.Fatalf("status %d: %v; %s", r.status, last, r.err)
	}
	told := map[string][]store.Event{} // by file
	for _, line := range strings.Split(strings.TrimSpace(r.out), "\n") {
		var e store.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Progress != nil && e.Node == "node-01" {
			told[e.Progress.File] = append(told[e.Progress.File], e)
		}
	}
	for file, word := range map[string]string{"kernel-amd64": "kernel", "initramfs-amd64.xz": "initramfs"} {
		if len(told[file]) == 0 {
			t.Errorf("nothing was told of the download of %s:\n%s", file, r.out)
		}
		var before int64
		for _, e := range told[file] {
			p := e.Progress
			// The emulated factory's files are a little longer: each names its version.
			if p.Total < total || p.Total > total+1024 || p.Bytes <= before || p.Bytes > p.Total {
				t.Errorf("%+v after %d bytes, want more, of %d and a little", *p, before, total)
			}
			before = p.Bytes
			want := fmt.Sprintf("%s %d %% of 34 MB", word, 100*p.Bytes/p.Total)
			if e.State != "Booting" || e.Message != want {
				t.Errorf("event %+v, want Booting: %s", e, want)
			}
		}
	}
	if p := last["node-01"].Progress; p != nil {
		t.Errorf("the last event still tells of a download: %+v", p)
	}
}

// What DHCP reports of a node's machine is an event of that node: here, that no
// address is left for it.
func TestAProblemOfDHCPIsToldOfTheNodeThatHasIt(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2, PerChassis: 1})
	config, err := os.ReadFile(f.ConfigFile())
	if err != nil {
		t.Fatal(err)
	}
	oneAddress := regexp.MustCompile(`range: ([0-9.]+)-[0-9.]+`).ReplaceAll(config, []byte("range: $1-$1"))
	writeFile(t, f.ConfigFile(), string(oneAddress))
	edit(t, f, "provision.yaml", "bootTimeout: 2m", "bootTimeout: 20s")
	edit(t, f, "provision.yaml", "attempts: 2", "attempts: 1")
	r, last := install(t, f)
	served, left := last["node-01"], last["node-02"]
	if served.State == "Failed" { // whichever was quicker has the address
		served, left = left, served
	}
	if r.status != exitFailed || served.State != "Maintenance" || left.State != "Failed" {
		t.Fatalf("status %d: %+v, %+v", r.status, served, left)
	}
	for _, line := range strings.Split(strings.TrimSpace(r.out), "\n") {
		var e store.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(e.Message, "pool exhausted: ") {
			if e.Node != left.Node || e.State != "PowerCycled" {
				t.Errorf("it is told of the wrong node or state: %+v", e)
			}
			return
		}
	}
	t.Errorf("no event tells that the pool is exhausted:\n%s", r.out)
}
