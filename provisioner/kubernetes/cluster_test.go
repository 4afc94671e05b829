package kubernetes_test

import (
	"testing"
)

// TestCluster runs what is to be shown of a Cluster against one real API server.
func TestCluster(t *testing.T) {
	t.Parallel()
	l := newLab(t, "127.72.0.1")
	for _, group := range [][]scenario{nodeScenarios, cordonScenarios, drainScenarios, checkScenarios, accessScenarios} {
		for _, s := range group {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				s.run(t, l)
			})
		}
	}
}

// scenario is one thing to be shown, with nodes and namespaces of its own.
type scenario struct {
	name string
	run  func(*testing.T, lab)
}
