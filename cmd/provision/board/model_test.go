package board

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/provisioner/store"
)

var update = flag.Bool("update", false, "write the golden views anew")

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// twelve are twelve nodes of a run, in every kind of state.
func twelve() *model {
	nodes := make([]Node, 0, 12)
	for i := range 12 {
		nodes = append(nodes, Node{Cluster: "demo", Name: fmt.Sprintf("node-%02d", i+1), State: "Pending", Goal: "Ready", Message: "would be installed"})
	}
	nodes[11].Facts = []Fact{{"BMC", "10.0.0.12"}, {"vendor", "Supermicro"}, {"kernel arguments", "talos.platform=metal console=tty0 console=ttyS0,115200 ip=10.1.0.12::10.1.0.1:255.255.255.0:node-12:eth0:off"}}
	m := newModel(Options{Title: "run 20261130T115000Z-98a1 of demo", Began: noon.Add(-250 * time.Second), Nodes: nodes, In: strings.NewReader(""), Interrupt: func() {}, Now: func() time.Time { return noon }})
	at := func(ago time.Duration, node int, state, previous, message string) store.Event {
		return store.Event{Time: noon.Add(-ago), Run: "r", Cluster: "demo", Node: fmt.Sprintf("node-%02d", node), State: state, Previous: previous, Message: message}
	}
	booting := at(151*time.Second, 7, "Booting", "PowerCycled", "initramfs 46 % of 34 MB")
	booting.Progress = &store.Progress{File: "initramfs", Bytes: 46, Total: 100}
	failed := at(20*time.Second, 12, "Failed", "Booting", "no DHCP seen")
	failed.Error, failed.Cause, failed.Hint = "no request of its firmware within 15m0s", "no DHCP seen", "its first NIC: in the provisioning network, untagged, portfast"
	held := at(240*time.Second, 3, "Held", "Pending", "already configured")
	held.Error, held.Cause = "a configured Talos answers at 10.1.0.3", "already configured"
	for _, e := range []store.Event{
		at(200*time.Second, 1, "PowerCycled", "Armed", "powered on"),
		at(100*time.Second, 1, "Maintenance", "Booting", "Talos is up"),
		at(62*time.Second, 1, "Ready", "Installed", "a Ready node of its cluster"),
		at(3700*time.Second, 2, "Armed", "Identified", "boots once from the network"),
		at(152*time.Second, 7, "PowerCycled", "Armed", "powered on"), booting, held,
		at(900*time.Second, 12, "PowerCycled", "Armed", "powered on"),
		at(400*time.Second, 12, "PowerCycled", "Armed", "powered on\x1b[2J\nagain"), failed,
	} {
		m.fleet.Apply(e)
	}
	return m
}

// keys are pressed one after the other.
func press(m *model, keys ...string) wish {
	codes := map[string]rune{
		"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown, "pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp,
		"home": tea.KeyHome, "end": tea.KeyEnd, "backspace": tea.KeyBackspace,
	}
	var w wish
	for _, k := range keys {
		key := tea.KeyPressMsg{Code: []rune(k)[0], Text: k}
		if code, named := codes[k]; named {
			key = tea.KeyPressMsg{Code: code}
		}
		if letter, ctrl := strings.CutPrefix(k, "ctrl+"); ctrl {
			key = tea.KeyPressMsg{Code: []rune(letter)[0], Mod: tea.ModCtrl}
		}
		w = m.press(key)
	}
	return w
}

func TestTheViewsAreAsTheyWereApproved(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		width, height int
		ready         func(*model)
	}{
		"80x24":         {80, 24, nil},
		"120x20-color":  {120, 20, func(m *model) { m.look = newLook(true, false) }},
		"40x10":         {40, 10, nil},
		"20x4":          {20, 4, nil},
		"80x24-ascii":   {80, 24, func(m *model) { m.look = newLook(false, true) }},
		"80x24-failed":  {80, 24, func(m *model) { press(m, "s", "s", "s") }},
		"80x24-filter":  {80, 24, func(m *model) { press(m, "/", "D", "H", "C", "P") }},
		"80x24-nothing": {80, 24, func(m *model) { press(m, "/", "x", "y", "enter") }},
		"80x24-detail":  {80, 24, func(m *model) { press(m, "end", "enter") }},
		"40x10-detail":  {40, 10, func(m *model) { press(m, "end", "enter", "down", "down") }},
		"80x24-help":    {80, 24, func(m *model) { press(m, "?") }},
		"80x24-log":     {80, 24, func(m *model) { m.tell("level=WARN msg=\"a lease is near its end\""); m.tell("two\nlines") }},
		"80x24-finishing": {80, 24, func(m *model) {
			m.finishing = true
			m.notice = "the run is being ended where it can be carried on"
		}},
		"80x24-clusters": {80, 24, func(m *model) {
			for _, n := range []Node{{Cluster: "prod", Name: "db-1", State: "Maintenance"}, {Cluster: "prod", Name: "db-2", State: "Ready"}} {
				m.fleet.Set(n)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := twelve()
			m.resize(tc.width, tc.height)
			m.view(noon)
			if tc.ready != nil {
				tc.ready(m)
			}
			got := m.view(noon) + "\n"
			file := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the view differs (-want +got), see go test -update:\n%s", diff)
			}
			lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
			if len(lines) != tc.height {
				t.Errorf("%d lines on a screen of %d", len(lines), tc.height)
			}
		})
	}
}
