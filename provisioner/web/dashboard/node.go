package dashboard

import (
	"net/http"
	"slices"

	"github.com/talos-provision/provision/provisioner/web"
)

// nodeData is the page of a node.
type nodeData struct {
	web.NodeDetail
	Row    nodeRow
	Facts  []fact
	By     []identification
	Events []web.Event // newest first
	Viewer Viewer
}

func (s *site) node(r *http.Request, v Viewer) (view, error) {
	cluster, node := r.PathValue("cluster"), r.PathValue("node")
	detail, err := s.opts.Control.Detail(r.Context(), cluster, node)
	if err != nil {
		return view{}, err
	}
	d := nodeData{
		NodeDetail: detail, Facts: compare(detail), By: identifications(detail), Events: slices.Clone(detail.Events), Viewer: v,
		Row: nodeRow{Cluster: cluster, Node: node, Record: detail.Record, Inventory: detail.Inventory, Hold: detail.Hold, Frozen: detail.Conflict != ""},
	}
	slices.Reverse(d.Events)
	return view{
		title: node, section: "fleet", name: "node", data: d, cluster: cluster, node: node, heavy: true,
		pieces: []piece{
			{template: "node-state", data: d}, {template: "node-says", data: d.Row, every: calmly},
			{template: "node-facts", data: d}, {template: "node-events", data: d}, {template: "node-boot", data: d},
		},
	}, nil
}
