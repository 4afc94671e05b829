package inventory_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/talos-provision/provision/inventory"
)

const clusters, nodes = 40, 250

// manyNodes writes 10,000 nodes in 40 clusters.
func manyNodes(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	write("_defaults.yaml", "schematicID: "+schematic+"\ntalosVersion: v1.9.5\nkernelArgs: "+referenceArgs+
		"\ndns0: 1.1.1.1\ndns1: 8.8.8.8\nntp: 10.255.255.1\ninstall: false\nbmc: {username: admin, passwordEnv: BMC_PASSWORD}\n")
	for c := range clusters {
		folder := fmt.Sprintf("k8s-%02d", c)
		if err := os.Mkdir(filepath.Join(dir, folder), 0o755); err != nil {
			b.Fatal(err)
		}
		write(folder+"/_defaults.yaml", fmt.Sprintf("netmask: 255.255.0.0\ngateway: 10.%d.255.254\nvlan: 1234\ninterface: ens1\n", c))
		for n := range nodes {
			id := c*nodes + n
			write(fmt.Sprintf("%s/node-%03d.yaml", folder, n), fmt.Sprintf(
				"serial: SYS%05d\nboardSerial: BRD%05d\nuuid: 00000000-0000-0000-0000-0cc47a%06x\nmac: 0c:c4:7a:%02x:%02x:%02x\n"+
					"ip: 10.%d.1.%d\ninstall: true\nbmc:\n  address: 10.%d.2.%d\nlabels: {rack: r%02d}\n",
				id, id, id+1, id>>16, id>>8&0xff, id&0xff, c, n+1, c, n+1, n/20))
		}
	}
	return dir
}

// BenchmarkLoad10000 loads and validates 10,000 nodes. The target is less than a
// second and 150 MB.
func BenchmarkLoad10000(b *testing.B) {
	dir := manyNodes(b)
	b.ReportAllocs()
	var peak uint64
	start := processorTime(b)
	for b.Loop() {
		runtime.GC()
		loaded, findings, err := inventory.Load(dir)
		if err != nil || len(findings) > 0 || len(loaded.Nodes) != clusters*nodes {
			b.Fatalf("%d nodes, %v, findings:\n%s", len(loaded.Nodes), err, findings)
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapInuse)
		runtime.GC()
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapAlloc)/1e6, "MB-kept")
		runtime.KeepAlive(loaded)
	}
	b.ReportMetric(float64(peak)/1e6, "MB-heap")
	b.ReportMetric((processorTime(b)-start).Seconds()/float64(b.N), "cpu-s/op")
}

// processorTime is what this process used of the processors, which a busy
// machine does not blur as it does the time on the clock.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
