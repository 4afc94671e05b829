package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/talos-provision/provision/provisioner/web"
)

// calmly is how often what a screen reader speaks by itself may change.
const calmly = 10 * time.Second

// alert is something that a person should know of.
type alert struct {
	Level string // bad, warn, or note
	Word  string // the level in a word
	Text  string
	URL   string // where there is more
	More  string // the link's text
	// Items are examples, at most as many as fit; Rest is how many more there are.
	Items []alertItem
	Rest  int
}

type alertItem struct{ Name, URL, Text string }

// clusterRow is a cluster of the overview.
type clusterRow struct {
	Name    string
	Bar     bar
	Install int // nodes that are marked install: true
	Running int // runs under way
	Frozen  int
}

func (c clusterRow) rowID() string { return elementID("c", c.Name) }

// Key is the id of the row's element.
func (c clusterRow) Key() string { return c.rowID() }

type overviewData struct {
	Bar      bar
	Alerts   []alert
	Running  []runRow
	Clusters []clusterRow
	Health   []web.Check
	Now      time.Time
}

func (s *site) overview(r *http.Request, _ Viewer) (view, error) {
	p, err := s.fleet.get(r.Context())
	if err != nil {
		return view{}, err
	}
	d := overviewData{Bar: barOfNodes(p.nodes), Alerts: alertsOf(p), Clusters: clustersOf(p), Health: p.health, Now: s.opts.Now()}
	for _, run := range runRows(p) {
		if run.Active() {
			d.Running = append(d.Running, run)
		}
	}
	rows := make([]row, 0, len(d.Clusters))
	for _, c := range d.Clusters {
		rows = append(rows, c)
	}
	return view{title: "Fleet", section: "fleet", name: "overview", data: d, pieces: []piece{
		{template: "fleet-bar", data: d.Bar},
		{template: "fleet-counts", data: d.Bar, every: calmly},
		{template: "alerts", data: d.Alerts},
		{template: "running", data: d.Running},
		{template: "health", data: d.Health},
		{template: "cluster-rows", data: d.Clusters, row: "cluster-row", rows: rows},
	}}, nil
}

func clustersOf(p *picture) []clusterRow {
	list := make([]clusterRow, 0, len(p.clusters))
	at := 0
	for _, name := range p.clusters {
		c := clusterRow{Name: name}
		from := at
		for ; at < len(p.nodes) && p.nodes[at].Cluster == name; at++ {
			if n := p.nodes[at]; n.Inventory != nil && n.Inventory.Install {
				c.Install++
			}
			if p.nodes[at].Frozen {
				c.Frozen++
			}
		}
		c.Bar = barOfNodes(p.nodes[from:at])
		for _, r := range p.runs {
			if r.Cluster == name && r.Finished.IsZero() {
				c.Running++
			}
		}
		list = append(list, c)
	}
	return list
}

const maxItems = 5

// alertsOf are what a person should know of, the worst first.
func alertsOf(p *picture) []alert {
	var list []alert
	for _, c := range p.health {
		if !c.OK {
			list = append(list, alert{Level: "bad", Word: "Not well", Text: c.Name + ": " + c.What})
		}
	}
	if p.inventory != nil && p.inventory.Refused != nil {
		list = append(list, alert{Level: "bad", Word: "Refused", Text: "the newest inventory is not used; the last good one goes on", URL: "/inventory", More: "what is wrong in it"})
	}
	list = append(list, nodeAlerts(p, "bad", "Failed", "/nodes?show=failed", func(n nodeRow) bool { return groupOf(n.State()) == groupFailed })...)
	list = append(list, nodeAlerts(p, "warn", "Held", "/nodes?show=held", func(n nodeRow) bool { return groupOf(n.State()) == groupHeld })...)
	list = append(list, nodeAlerts(p, "warn", "In conflict", "/collisions", func(n nodeRow) bool { return n.Frozen })...)
	list = append(list, nodeAlerts(p, "note", "On hold", "/nodes?show=onhold", func(n nodeRow) bool { return n.Hold != nil })...)
	for _, u := range p.upgrades {
		if u.Stopped != "" {
			list = append(list, alert{Level: "warn", Word: "Upgrade stopped", Text: u.Cluster + ": " + u.Stopped, URL: runURL(u.ID), More: "the upgrade"})
		}
	}
	if n := len(p.unknown); n > 0 {
		text := "1 machine asked for a boot script and is no node of the inventory"
		if n > 1 {
			text = number(n) + " machines asked for a boot script and are no nodes of the inventory"
		}
		list = append(list, alert{Level: "note", Word: "Unknown", Text: text, URL: "/unknown", More: "as inventory files"})
	}
	return list
}

// nodeAlerts is one alert of all nodes that are so; none when none is.
func nodeAlerts(p *picture, level, word, url string, is func(nodeRow) bool) []alert {
	a := alert{Level: level, Word: word, URL: url}
	count := 0
	for _, n := range p.nodes {
		if !is(n) {
			continue
		}
		if count++; count > maxItems {
			continue
		}
		text := n.Message()
		if level == "note" && n.Hold != nil {
			text = n.Hold.Reason + " (" + n.Hold.By + ")"
		}
		if word == "In conflict" {
			text = "nothing tells it from another node"
		}
		a.Items = append(a.Items, alertItem{n.ID(), nodeURL(n.Cluster, n.Node), text})
	}
	switch count {
	case 0:
		return nil
	case 1:
		a.Text = "1 node"
	default:
		a.Text = number(count) + " nodes"
	}
	a.Rest, a.More = count-len(a.Items), "all of them"
	return []alert{a}
}

// navigation counts what the navigation shows; nothing where it cannot be known.
func (s *site) navigation(ctx context.Context) nav {
	p, err := s.fleet.get(ctx)
	if err != nil {
		return nav{}
	}
	n := nav{Unknown: len(p.unknown)}
	for _, c := range p.collisions {
		if len(c.Frozen) > 0 { // boards of one chassis share its serial, and that is as it should be
			n.Collisions++
		}
	}
	if p.inventory != nil && p.inventory.Refused != nil {
		n.Refused = 1
	}
	for _, r := range runRows(p) {
		if r.Active() {
			n.Running++
		}
	}
	return n
}

// navPieces are the counts of the navigation.
func (s *site) navPieces(ctx context.Context) []piece {
	n := s.navigation(ctx)
	return []piece{
		{template: "nav-running", data: n}, {template: "nav-unknown", data: n}, {template: "nav-collisions", data: n}, {template: "nav-refused", data: n},
	}
}

// summaryText is how many nodes a table shows, in words.
func summaryText(shown, all int, b bar) string {
	if shown == all {
		return fmt.Sprintf("%s nodes: %s", number(all), b.Text())
	}
	return strings.TrimSuffix(fmt.Sprintf("%s of %s nodes: %s", number(shown), number(all), b.Text()), ": ")
}
