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
		switch state := State(record.State); {
		case state == Failed:
			s.Failed = append(s.Failed, record)
		case state == Held:
			s.Held = append(s.Held, record)
		case n.goal.reached(state):
			s.Done = append(s.Done, record)
		default:
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
