package dashboard

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
)

// runRow is a run, or a rolling upgrade, in a table.
type runRow struct {
	ID, Cluster       string
	Kind              string // installation or upgrade
	Target            string // what it goes for
	Started, Finished time.Time
	Halted            string // why it ended early; "" when it did not
	By, Site          string
	Bar               bar
	// Stoppable: the daemon works on it.
	Stoppable bool
}

func (r runRow) rowID() string { return elementID("r", r.Cluster, r.ID) }

// Key is the id of the row's element.
func (r runRow) Key() string { return r.rowID() }

// Active says that it is under way.
func (r runRow) Active() bool { return r.Finished.IsZero() && r.Halted == "" }

// Word is how it stands.
func (r runRow) Word() string {
	switch {
	case r.Active():
		return "under way"
	case r.Halted != "":
		return "stopped"
	}
	return "ended"
}

// runRows are all runs that are known, the newest first.
func runRows(p *picture) []runRow {
	list := make([]runRow, 0, len(p.runs)+len(p.upgrades))
	for _, r := range p.runs {
		list = append(list, runRowOf(r))
	}
	for _, u := range p.upgrades {
		states := map[string]int{}
		for _, n := range u.Nodes {
			states[n.State]++
		}
		list = append(list, runRow{
			ID: u.ID, Cluster: u.Cluster, Kind: "upgrade", Target: u.Target, Started: u.Started, Finished: u.Finished, Halted: u.Stopped, By: u.By, Bar: barOf(states),
			Stoppable: u.Active,
		})
	}
	slices.SortStableFunc(list, func(a, b runRow) int { return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(a.Cluster, b.Cluster)) })
	return list
}

func runRowOf(r web.RunInfo) runRow {
	row := runRow{
		ID: r.ID, Cluster: r.Cluster, Kind: "installation", Target: r.Until, Started: r.Started, Finished: r.Finished, By: r.By, Site: r.Site, Bar: barOf(r.States),
	}
	switch {
	case r.Error != "":
		row.Halted = r.Error
	case r.Stopped && !r.Finished.IsZero():
		row.Halted = "somebody stopped it"
	}
	row.Stoppable = row.Active()
	return row
}

func (s *site) runs(r *http.Request, _ Viewer) (view, error) {
	p, err := s.fleet.get(r.Context())
	if err != nil {
		return view{}, err
	}
	list := runRows(p)
	rows := make([]row, 0, len(list))
	for _, r := range list {
		rows = append(rows, r)
	}
	return view{title: "Runs", section: "runs", name: "runs", data: list, pieces: []piece{{template: "run-rows", data: list, row: "run-row", rows: rows}}}, nil
}

// runData is the page of a run.
type runData struct {
	runRow
	Total       int // nodes that it works on
	MaxFailures string
	Nodes       []nodeRow // at most a page of them, those that need a person first
	More        int
	Skipped     []provisioner.PlanNode
	Upgrade     []web.UpgradeNode
	Viewer      Viewer
	// Numbers are of the bar, for a screen reader.
	Text string
}

func (s *site) run(r *http.Request, v Viewer) (view, error) {
	p, err := s.fleet.get(r.Context())
	if err != nil {
		return view{}, err
	}
	id := r.PathValue("id")
	d := runData{Viewer: v}
	switch run, upgrade := findRun(p, id); {
	case run != nil:
		d.runRow, d.Total, d.MaxFailures = runRowOf(*run), run.Nodes, run.MaxFailures
		d.fill(p, run)
	case upgrade != nil:
		for _, row := range runRows(p) {
			if row.ID == id && row.Kind == "upgrade" {
				d.runRow = row
			}
		}
		d.Upgrade, d.Total = upgrade.Nodes, len(upgrade.Nodes)
	default:
		return view{}, web.NotFound("No run %s is known. The newest of each cluster are kept.", clip(id, maxText))
	}
	d.Text = d.Bar.Text()
	rows := make([]row, 0, len(d.Nodes))
	for _, n := range d.Nodes {
		rows = append(rows, n)
	}
	pieces := []piece{{template: "run-state", data: d}, {template: "run-counts", data: d, every: calmly}, {template: "run-skipped", data: d}}
	if d.Kind == "upgrade" {
		pieces = append(pieces, piece{template: "upgrade-rows", data: d.Upgrade})
	} else {
		pieces = append(pieces, piece{template: "node-rows", data: d.Nodes, row: "node-row", rows: rows}, piece{template: "run-more", data: d})
	}
	return view{title: "Run " + d.ID, section: "runs", name: "run", data: d, cluster: d.Cluster, pieces: pieces}, nil
}

func findRun(p *picture, id string) (*web.RunInfo, *web.UpgradeInfo) {
	for i := range p.runs {
		if p.runs[i].ID == id {
			return &p.runs[i], nil
		}
	}
	for i := range p.upgrades {
		if p.upgrades[i].ID == id {
			return nil, &p.upgrades[i]
		}
	}
	return nil, nil
}

// fill takes the nodes of a run: as it ended, or as they are now.
func (d *runData) fill(p *picture, run *web.RunInfo) {
	ended := map[string]store.Node{}
	if run.Summary != nil {
		d.Skipped = run.Summary.Skipped
		for _, list := range [][]store.Node{run.Summary.Done, run.Summary.Failed, run.Summary.Held, run.Summary.Unfinished} {
			for _, n := range list {
				ended[n.Cluster+"/"+n.Name] = n
			}
		}
	}
	for _, n := range p.nodes {
		if was, found := ended[n.ID()]; found {
			n.Record = &was
		} else if n.Record == nil || n.Record.Run != run.ID {
			continue
		}
		d.Nodes = append(d.Nodes, n)
	}
	slices.SortStableFunc(d.Nodes, func(a, b nodeRow) int { return cmp.Compare(groupRank(a), groupRank(b)) })
	if len(d.Nodes) > pageSize {
		d.More, d.Nodes = len(d.Nodes)-pageSize, d.Nodes[:pageSize]
	}
}
