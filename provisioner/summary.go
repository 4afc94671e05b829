package provisioner

import "github.com/talos-provision/provision/provisioner/store"

// Summary is how a run ended.
type Summary struct {
	Run string
	// Done, Failed and Held are the nodes by how they ended; Unfinished are those an interrupt left in between.
	Done, Failed, Held, Unfinished []store.Node
	// Skipped were not part of the run.
	Skipped []PlanNode
}

func summarise(run string, plan Plan, nodes []*node) Summary {
	s := Summary{Run: run}
	for _, n := range nodes {
		record := n.snapshot()
		switch State(record.State) {
		case Maintenance:
			s.Done = append(s.Done, record)
		case Failed:
			s.Failed = append(s.Failed, record)
		case Held:
			s.Held = append(s.Held, record)
		case Pending, Identified, Armed, PowerCycled, Booting:
			s.Unfinished = append(s.Unfinished, record)
		}
	}
	for _, p := range plan.Nodes {
		if p.Action == ActionSkip {
			s.Skipped = append(s.Skipped, p)
		}
	}
	return s
}
