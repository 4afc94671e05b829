package storetest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/talos-provision/provision/provisioner/store"
)

// Dump returns every byte of a state, and of all that lies beside a state file, for
// a test that looks for what must not be there (I9). Of etcd it is every key and
// value, of whatever prefix.
func Dump(t testing.TB, location string) []byte {
	t.Helper()
	if store.IsEtcd(location) {
		return dumpEtcd(t, location)
	}
	beside, err := filepath.Glob(filepath.Join(filepath.Dir(location), "*"))
	if err != nil {
		t.Fatal(err)
	}
	hidden, err := filepath.Glob(filepath.Join(filepath.Dir(location), ".*"))
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, path := range append(beside, hidden...) {
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, content...)
	}
	return all
}

// Client connects to etcd past the store, for tests that look or interfere there.
func Client(t testing.TB, endpoint string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func dumpEtcd(t testing.TB, location string) []byte {
	t.Helper()
	_, rest, _ := strings.Cut(location, "://")
	hosts, _, _ := strings.Cut(rest, "/")
	client := Client(t, strings.Split(hosts, ",")[0])
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var all []byte
	for start := "\x00"; ; {
		page, err := client.Get(ctx, start, clientv3.WithFromKey(), clientv3.WithLimit(500))
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range page.Kvs {
			all = append(append(all, kv.Key...), kv.Value...)
			start = string(kv.Key) + "\x00"
		}
		if !page.More {
			return all
		}
	}
}
