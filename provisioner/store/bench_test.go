package store_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/talos-provision/provision/provisioner/store"
)

// Records of 64 nodes at once: what a fleet that moves costs. The etcd of these tests
// does not wait for its disk; what is measured is the store.
func BenchmarkRecord(b *testing.B) {
	for name, location := range map[string]func() string{
		"bbolt": func() string { return filepath.Join(b.TempDir(), "state.db") },
		"etcd":  func() string { return etcdLocation(b) },
	} {
		b.Run(name, func(b *testing.B) {
			s := connect(b, location(), store.Options{})
			b.ResetTimer()
			together(b, b.N, 64, func(i int) error {
				node := fmt.Sprint("n", i%1000)
				return s.Record(store.Node{Cluster: "a", Name: node, State: "Booting", Message: "the kernel was fetched"}, store.Event{Cluster: "a", Node: node, State: "Booting"})
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
