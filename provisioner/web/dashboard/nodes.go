package dashboard

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/web"
)

// pageSize is how many rows a page has.
const pageSize = 100

// nodesData is a table of nodes.
type nodesData struct {
	Cluster string // "" for all
	Rows    []nodeRow
	Bar     bar // of all that match
	All     int // nodes before the filter
	Matched int
	Ask     ask
	States  []stateCount
	Columns []column
	Pages   pages
	Text    string
	Runs    []runRow // of this cluster, under way
}

// ask is what the address asks for.
type ask struct {
	Query, State, Show, Sort string
	Down                     bool
	Page                     int
}

// column is a column of the table, with the address that sorts by it.
type column struct {
	Key, Name string
	URL       string
	Sorted    string // ascending, descending, or "" for aria-sort
	Minor     bool   // left out where it is narrow
}

// pages leads to other pages of a table.
type pages struct {
	Number, Count, From, To int
	Before, Next            string // URLs; "" when there is none
}

// shows are the filters that are no state.
var shows = map[string]func(nodeRow) bool{
	"failed":   func(n nodeRow) bool { return groupOf(n.State()) == groupFailed },
	"held":     func(n nodeRow) bool { return groupOf(n.State()) == groupHeld },
	"busy":     func(n nodeRow) bool { return groupOf(n.State()) == groupBusy },
	"up":       func(n nodeRow) bool { return groupOf(n.State()) == groupUp },
	"done":     func(n nodeRow) bool { return groupOf(n.State()) == groupDone },
	"new":      func(n nodeRow) bool { return groupOf(n.State()) == groupNew },
	"onhold":   func(n nodeRow) bool { return n.Hold != nil },
	"conflict": func(n nodeRow) bool { return n.Frozen },
}

// sorts compare nodes by a column; equal ones stay in the order of their names.
var sorts = map[string]func(a, b nodeRow) int{
	"state": func(a, b nodeRow) int {
		return cmp.Or(cmp.Compare(groupRank(a), groupRank(b)), cmp.Compare(a.State(), b.State()))
	},
	"since":    func(a, b nodeRow) int { return a.Since().Compare(b.Since()) },
	"attempts": func(a, b nodeRow) int { return cmp.Compare(a.Attempts(), b.Attempts()) },
	"address":  func(a, b nodeRow) int { return cmp.Compare(a.Address(), b.Address()) },
	"message":  func(a, b nodeRow) int { return cmp.Compare(a.Message(), b.Message()) },
}

func groupRank(n nodeRow) int { return slices.Index(groups, groupOf(n.State())) }

// nodes is the table of a cluster's nodes, or of all.
func (s *site) nodes(r *http.Request, _ Viewer) (view, error) {
	p, err := s.fleet.get(r.Context())
	if err != nil {
		return view{}, err
	}
	d := nodesData{Cluster: r.PathValue("cluster"), Ask: readAsk(r.URL.Query())}
	v := view{title: "All nodes", section: "nodes", name: "nodes", cluster: d.Cluster}
	if d.Cluster != "" {
		v.title, v.section = d.Cluster, "fleet"
		if !slices.Contains(p.clusters, d.Cluster) {
			return view{}, web.NotFound("No cluster is called %s.", clip(d.Cluster, maxText))
		}
	}
	base := "/nodes"
	if d.Cluster != "" {
		base = clusterURL(d.Cluster)
	}
	d.fill(p, base)
	rows := make([]row, 0, len(d.Rows))
	for _, n := range d.Rows {
		rows = append(rows, n)
	}
	v.data = d
	v.pieces = []piece{
		{template: "nodes-bar", data: d}, {template: "nodes-counts", data: d.Text, every: calmly},
		{template: "node-rows", data: d.Rows, row: "node-row", rows: rows},
		{template: "pager", data: d.Pages}, {template: "nodes-runs", data: d.Runs},
	}
	return v, nil
}

func (n nodeRow) rowID() string { return elementID("n", n.Cluster, n.Node) }

// Key is the id of the row's element.
func (n nodeRow) Key() string { return n.rowID() }

// fill takes the nodes that are asked for, in the order that is asked for.
func (d *nodesData) fill(p *picture, base string) {
	var all, matched []nodeRow
	for _, n := range p.nodes {
		if d.Cluster == "" || n.Cluster == d.Cluster {
			n.Wide = d.Cluster == ""
			all = append(all, n)
		}
	}
	for _, n := range all {
		if d.Ask.matches(n) {
			matched = append(matched, n)
		}
	}
	d.All, d.Matched, d.Bar, d.States = len(all), len(matched), barOfNodes(matched), stateCounts(all)
	d.Text = summaryText(d.Matched, d.All, d.Bar)
	less := sorts[d.Ask.Sort]
	slices.SortStableFunc(matched, func(a, b nodeRow) int {
		order := 0
		if less != nil {
			order = less(a, b)
		} else if d.Ask.Down {
			order = strings.Compare(a.ID(), b.ID())
		}
		if d.Ask.Down {
			order = -order
		}
		return order
	})
	d.Pages, d.Rows = d.Ask.cut(base, matched)
	for _, c := range []column{
		{Key: "node", Name: "Node"}, {Key: "state", Name: "State"}, {Key: "since", Name: "Since (UTC)"},
		{Key: "attempts", Name: "Power cycles", Minor: true}, {Key: "address", Name: "Address", Minor: true}, {Key: "message", Name: "What it says"},
	} {
		next := d.Ask
		next.Page, next.Sort, next.Down = 1, c.Key, false
		if d.Ask.Sort == c.Key {
			c.Sorted = "ascending"
			if d.Ask.Down {
				c.Sorted = "descending"
			}
			next.Down = !d.Ask.Down
		}
		c.URL = next.url(base)
		d.Columns = append(d.Columns, c)
	}
	for _, run := range runRows(p) {
		if run.Active() && d.Cluster != "" && run.Cluster == d.Cluster {
			d.Runs = append(d.Runs, run)
		}
	}
}

// cut takes the rows of the page that is asked for.
func (a ask) cut(base string, all []nodeRow) (pages, []nodeRow) {
	pg := pages{Count: max(1, (len(all)+pageSize-1)/pageSize)}
	pg.Number = min(a.Page, pg.Count)
	from := (pg.Number - 1) * pageSize
	rows := all[from:min(from+pageSize, len(all))]
	pg.From, pg.To = from+1, from+len(rows)
	if pg.Number > 1 {
		before := a
		before.Page = pg.Number - 1
		pg.Before = before.url(base)
	}
	if pg.Number < pg.Count {
		next := a
		next.Page = pg.Number + 1
		pg.Next = next.url(base)
	}
	return pg, rows
}

// readAsk takes what it knows of an address, and leaves the rest.
func readAsk(q url.Values) ask {
	a := ask{Query: firstOf(strings.TrimSpace(q.Get("q")), maxText), State: firstOf(q.Get("state"), 40), Show: q.Get("show"), Sort: q.Get("sort"), Down: q.Get("dir") == "desc", Page: 1}
	if shows[a.Show] == nil {
		a.Show = ""
	}
	if sorts[a.Sort] == nil {
		a.Sort = "node"
	}
	if n, err := strconv.Atoi(q.Get("page")); err == nil && n > 1 {
		a.Page = n
	}
	return a
}

// url is the address that asks for this.
func (a ask) url(base string) string {
	q := url.Values{}
	set := func(key, value, usual string) {
		if value != usual {
			q.Set(key, value)
		}
	}
	set("q", a.Query, "")
	set("state", a.State, "")
	set("show", a.Show, "")
	set("sort", a.Sort, "node")
	if a.Down {
		q.Set("dir", "desc")
	}
	set("page", strconv.Itoa(a.Page), "1")
	if len(q) == 0 {
		return base
	}
	return base + "?" + q.Encode()
}

func (a ask) matches(n nodeRow) bool {
	if a.State != "" && n.State() != a.State {
		return false
	}
	if show := shows[a.Show]; show != nil && !show(n) {
		return false
	}
	return a.Query == "" || n.contains(strings.ToLower(a.Query))
}

// contains looks in all that names a node or tells of it, in lower case.
func (n nodeRow) contains(text string) bool {
	in := []string{n.ID(), n.State(), n.Message(), n.Address()}
	facts := func(f identity.Facts) {
		in = append(in, f.Serial, f.BoardSerial, f.ChassisSerial, f.UUID)
		in = append(in, f.MACs...)
	}
	if r := n.Record; r != nil {
		in = append(in, r.Vendor, r.Model, r.TalosVersion, r.Run)
		facts(r.Facts)
	}
	if i := n.Inventory; i != nil {
		in = append(in, i.BMC, i.IP, i.TalosVersion)
		for k, v := range i.Labels {
			in = append(in, k+"="+v)
		}
		facts(i.Facts)
	}
	return slices.ContainsFunc(in, func(s string) bool { return strings.Contains(strings.ToLower(s), text) })
}
