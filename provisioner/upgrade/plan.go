package upgrade

import (
	"slices"
)

// Action is what a run would do to a node.
type Action string

// The actions.
const (
	ActionUpgrade Action = "upgrade"
	ActionResume  Action = "resume"  // an unfinished run has touched it: it is brought to its end first
	ActionDone    Action = "done"    // it runs the target already
	ActionHold    Action = "hold"    // its findings speak against it
	ActionExclude Action = "exclude" // it is left out
)

// PlanNode is what a run would do to one node, and why.
type PlanNode struct {
	Node    string  `json:"node"`
	Host    string  `json:"host"`
	Role    string  `json:"role"`
	Action  Action  `json:"action"`
	Version Version `json:"version"`
	// Stops are the versions that it goes through; the last is the target.
	Stops []Version `json:"stops"`
	// Schematic is the one that runs, TargetSchematic the one that will.
	Schematic       string `json:"schematic"`
	TargetSchematic string `json:"targetSchematic"`
	SecureBoot      bool   `json:"secureBoot"`
	// Image is the installer of the first stop.
	Image     string `json:"image"`
	API       API    `json:"api"`
	APIReason string `json:"apiReason"`
	// Position is where in the order the node comes and Batch with whom, both from 1; 0 is nowhere.
	Position int `json:"position"`
	Batch    int `json:"batch"`
	// Leader: its etcd member leads.
	Leader   bool      `json:"leader"`
	Findings []Finding `json:"findings"`

	machine Machine
}

// next is the stop that comes first.
func (n PlanNode) next() Version { return n.Stops[0] }

// Plan is what a run would do. Its JSON is stable.
type Plan struct {
	Cluster string  `json:"cluster"`
	Target  Version `json:"target"`
	// Stops are the versions that the cluster goes through.
	Stops []Version `json:"stops"`
	// Continues is the unfinished run that there is, if any.
	Continues string     `json:"continues,omitempty"`
	Nodes     []PlanNode `json:"nodes"`
	// Findings are those of the cluster; each node has its own.
	Findings []Finding `json:"findings"`

	batches [][]string // of the first stop
}

// All are the findings of the cluster and of each node.
func (p Plan) All() []Finding {
	found := slices.Clone(p.Findings)
	for _, n := range p.Nodes {
		found = append(found, n.Findings...)
	}
	return found
}

// Blocked are the findings for which nothing may begin.
func (p Plan) Blocked() []Finding { return blocking(p.All(), ScopeRun) }

// with returns the nodes that have an action.
func (p Plan) with(action Action) []PlanNode {
	var nodes []PlanNode
	for _, n := range p.Nodes {
		if n.Action == action {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func (p Plan) node(name string) (PlanNode, bool) {
	i := slices.IndexFunc(p.Nodes, func(n PlanNode) bool { return n.Node == name })
	if i < 0 {
		return PlanNode{}, false
	}
	return p.Nodes[i], true
}

// planner makes a plan of a survey. It is pure.
type planner struct {
	Options
	Survey
	// inFlight are the nodes that an unfinished run has touched: they may be away, and that is no finding.
	inFlight map[string]bool
}

// MakePlan says what a run would do with a cluster as it was surveyed.
func MakePlan(o Options, s Survey) Plan {
	return planner{Options: o.orDefaults(), Survey: s}.plan()
}

func (p planner) plan() Plan {
	if len(p.Releases) == 0 {
		p.Releases = knownReleases
	}
	plan := Plan{Cluster: p.Cluster, Target: p.Target, Nodes: make([]PlanNode, 0, len(p.Machines)), Findings: []Finding{}}
	for _, m := range p.Machines {
		n := p.planNode(m)
		if len(n.Stops) > len(plan.Stops) && n.Action != ActionExclude {
			plan.Stops = n.Stops
		}
		plan.Nodes = append(plan.Nodes, n)
	}
	plan.Findings = append(plan.Findings, p.clusterFindings(plan)...)
	p.number(&plan)
	return plan
}

// planNode decides on one node.
func (p planner) planNode(m Machine) PlanNode {
	n := PlanNode{
		Node: m.Name, Host: m.Host, Role: m.Running.Role, Schematic: m.Running.Schematic, SecureBoot: m.SecureBoot,
		TargetSchematic: m.Schematic, Leader: p.Etcd.Leader() == m.Name, Stops: []Version{}, Findings: []Finding{}, machine: m,
	}
	if n.TargetSchematic == "" {
		n.TargetSchematic = m.Running.Schematic
	}
	n.Version, _ = m.version()
	switch {
	case slices.Contains(p.Exclude, m.Name):
		n.Action = ActionExclude
		return n
	case p.inFlight[m.Name]:
		n.Action = ActionResume
		return n
	}
	n.Action = ActionUpgrade
	for _, check := range nodeChecks {
		n.Findings = append(n.Findings, check(p, m, &n)...)
	}
	switch {
	case len(blocking(n.Findings, ScopeNode)) > 0:
		n.Action = ActionHold
	case len(n.Stops) == 0 && len(blocking(n.Findings, ScopeRun)) == 0:
		n.Action = ActionDone
	}
	return n
}

// number puts the nodes into order. All nodes go to the same stop before any
// goes on to the next; the numbers are those of the first.
func (p planner) number(plan *Plan) {
	var stop Version
	for _, n := range plan.with(ActionUpgrade) {
		if len(n.Stops) > 0 && (stop == Version{} || n.next().Compare(stop) < 0) {
			stop = n.next()
		}
	}
	var turns []Turn
	for _, n := range plan.with(ActionUpgrade) {
		if len(n.Stops) > 0 && n.next() == stop {
			turns = append(turns, Turn{
				Node: n.Node, ControlPlane: n.Role == ControlPlane, Leader: n.Leader, ServesAPI: n.machine.ServesAPI,
				Chassis: n.machine.Chassis, Label: n.machine.Labels[p.OrderLabel],
			})
		}
	}
	workers := 0
	for _, n := range plan.Nodes {
		if n.Role == Worker {
			workers++
		}
	}
	plan.batches = Order(turns, p.Canary, p.MaxUnavailable.Of(workers))
	position := 0
	for b, batch := range plan.batches {
		for _, name := range batch {
			position++
			for i := range plan.Nodes {
				if plan.Nodes[i].Node == name {
					plan.Nodes[i].Position, plan.Nodes[i].Batch = position, b+1
				}
			}
		}
	}
}
