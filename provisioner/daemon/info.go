package daemon

import (
	"cmp"
	"context"
	"slices"

	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
)

// busy says which nodes the run has.
func (j *job) busy() web.Busy {
	b := web.Busy{Run: j.id, Cluster: j.cluster}
	for _, n := range j.plan.Nodes {
		if n.Action != provisioner.ActionSkip {
			b.Nodes = append(b.Nodes, n.Node)
		}
	}
	return b
}

// Runs are the runs of the site, the newest first: those that go on, and the
// newest of each cluster that has ended, also of the daemon before this one.
func (d *Daemon) Runs(context.Context) ([]web.RunInfo, error) {
	d.mu.Lock()
	jobs := make([]*job, 0, len(d.jobs)+len(d.ended))
	for _, j := range d.jobs {
		jobs = append(jobs, j)
	}
	for _, j := range d.ended {
		jobs = append(jobs, j)
	}
	d.mu.Unlock()
	stored, err := d.opts.Store.Runs()
	if err != nil {
		return nil, err
	}
	infos := make([]web.RunInfo, 0, len(jobs)+len(stored))
	for _, j := range jobs {
		info, err := d.info(j)
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	for _, r := range stored {
		at := slices.IndexFunc(infos, func(i web.RunInfo) bool { return i.ID == r.ID })
		if at >= 0 {
			infos[at].Until, infos[at].MaxFailures = r.Until, r.MaxFailures
			continue
		}
		if !r.Daemon || r.Site != d.opts.Site {
			continue
		}
		info, err := d.storedInfo(r)
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b web.RunInfo) int { return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(a.ID, b.ID)) })
	return infos, nil
}

// storedInfo is a run of another process as the store tells it: of a daemon that died,
// or of the one that leads.
func (d *Daemon) storedInfo(r store.Run) (web.RunInfo, error) {
	info := web.RunInfo{
		ID: r.ID, Cluster: r.Cluster, Started: r.Started, Finished: r.Finished, Site: r.Site, Until: r.Until, MaxFailures: r.MaxFailures,
		Stopped: r.Stopped, Nodes: len(r.Nodes), States: map[string]int{},
	}
	records, err := d.opts.Store.Nodes(r.Cluster)
	if err != nil {
		return info, err
	}
	ended := r.Started
	j := job{id: r.ID}
	for _, n := range records {
		if n.Run != r.ID {
			continue
		}
		info.States[n.State]++
		switch state := provisioner.State(n.State); {
		case state == provisioner.Failed:
			j.summary.Failed = append(j.summary.Failed, n)
		case state == provisioner.Held:
			j.summary.Held = append(j.summary.Held, n)
		case r.Finished.IsZero():
			j.summary.Unfinished = append(j.summary.Unfinished, n)
		default:
			j.summary.Done = append(j.summary.Done, n)
		}
		if n.Since.After(ended) {
			ended = n.Since
		}
	}
	if r.Stopped && r.Finished.IsZero() {
		info.Finished = ended // nobody goes on with it
	}
	if !info.Finished.IsZero() {
		info.Summary = summaryOf(&j)
	}
	return info, nil
}

// info is a run as it is told.
func (d *Daemon) info(j *job) (web.RunInfo, error) {
	info := web.RunInfo{
		ID: j.id, Cluster: j.cluster, Started: j.started, Site: d.opts.Site, By: j.by, After: j.after,
		Nodes: len(j.busy().Nodes), States: map[string]int{},
	}
	select {
	case <-j.ended:
		d.mu.Lock()
		defer d.mu.Unlock()
		info.Finished, info.Stopped, info.Summary = j.finished, j.stopped, summaryOf(j)
		if j.err != nil {
			info.Error = j.err.Error()
		}
		for _, list := range [][]store.Node{j.summary.Done, j.summary.Failed, j.summary.Held, j.summary.Unfinished} {
			count(info.States, list)
		}
		return info, nil
	default:
	}
	records, err := d.opts.Store.Nodes(j.cluster)
	if err != nil {
		return info, err
	}
	count(info.States, slices.DeleteFunc(records, func(n store.Node) bool { return n.Run != j.id }))
	return info, nil
}

func count(states map[string]int, nodes []store.Node) {
	for _, n := range nodes {
		states[n.State]++
	}
}

func summaryOf(j *job) *web.RunSummary {
	list := func(nodes []store.Node) []store.Node { return append([]store.Node{}, nodes...) }
	return &web.RunSummary{
		Run: j.id, Done: list(j.summary.Done), Failed: list(j.summary.Failed), Held: list(j.summary.Held),
		Unfinished: list(j.summary.Unfinished), Skipped: append([]provisioner.PlanNode{}, j.summary.Skipped...),
	}
}

// Inventory says which generation is in use, and which was refused.
func (d *Daemon) Inventory(context.Context) (web.InventoryInfo, error) {
	d.mu.Lock()
	g, src := d.generation, d.src
	d.mu.Unlock()
	if src == nil || g.Tree == nil {
		return web.InventoryInfo{}, web.NotFound("no inventory was loaded yet")
	}
	info := web.InventoryInfo{
		Source: src.Name(), Generation: g.ID, Loaded: g.Loaded, Clusters: len(g.Tree.Clusters()), Nodes: len(g.Tree.Nodes),
	}
	for _, n := range g.Tree.Nodes {
		if n.Install {
			info.Install++
		}
	}
	if c := g.Commit; c != nil {
		info.Commit = &web.Commit{Hash: c.Hash, Author: c.Author, Subject: c.Subject, Time: c.Time, VerifiedBy: c.Key}
	}
	if r := src.Status().Refusal; r != nil {
		info.Refused = &web.Refusal{Generation: r.ID, Time: r.Time, Error: r.Error(), Findings: r.Findings}
	}
	return info, nil
}
