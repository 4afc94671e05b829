package inventory_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory"
)

// reload asks a loader and compares with what a fresh look gives.
func reload(t testing.TB, l *inventory.Loader, dir string) (loaded *inventory.Tree, changed []string) {
	t.Helper()
	loaded, findings, changed, err := l.Reload()
	if err != nil {
		t.Fatal(err)
	}
	fresh, freshFindings := load(t, dir)
	equal := func(a, b inventory.Node) bool { return a.Equal(b) && cmp.Equal(a.Origins(), b.Origins()) }
	if diff := cmp.Diff(fresh.Nodes, loaded.Nodes, cmp.Comparer(equal)); diff != "" {
		t.Errorf("nodes differ from a fresh look (-fresh +reloaded):\n%s", diff)
	}
	if diff := cmp.Diff(freshFindings, findings); diff != "" {
		t.Errorf("findings differ from a fresh look (-fresh +reloaded):\n%s", diff)
	}
	return loaded, changed
}

// write changes a file and waits until the file system's clock has passed the
// change, so that another one can be told from it.
func write(t testing.TB, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	settle(t, dir)
}

// settle waits for the next tick of the file system's clock.
func settle(t testing.TB, dir string) {
	t.Helper()
	stamp := func() time.Time {
		probe := filepath.Join(dir, ".probe")
		if err := os.WriteFile(probe, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(probe)
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	for begin := stamp(); !stamp().After(begin); {
		time.Sleep(time.Millisecond)
	}
}

func TestReloadReadsOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"_defaults.yaml": "dns0: 1.1.1.1\n", "a/_defaults.yaml": "dns1: 8.8.8.8\n",
		"a/n1.yaml": "serial: S1\n", "a/n2.yaml": "serial: S2\n", "b/n3.yaml": "serial: S3\n",
	})
	settle(t, dir)
	l := inventory.NewLoader(dir)
	l.SettleAtOnce()
	step := func(what string, want ...string) *inventory.Tree {
		t.Helper()
		loaded, changed := reload(t, l, dir)
		if diff := cmp.Diff(strings.Join(want, " "), strings.Join(changed, " ")); diff != "" {
			t.Errorf("%s: files read (-want +got):\n%s", what, diff)
		}
		return loaded
	}
	step("the first time", "_defaults.yaml", "a/_defaults.yaml", "a/n1.yaml", "a/n2.yaml", "b/n3.yaml")
	step("nothing changed")

	write(t, dir, "a/n1.yaml", "serial: S9\n") // of the same size
	if got := node(t, step("a node changed", "a/n1.yaml"), "n1").Serial; got != "S9" {
		t.Errorf("n1 has serial %s", got)
	}
	write(t, dir, "_defaults.yaml", "dns0: 9.9.9.9\n")
	if got := node(t, step("the defaults of all changed", "_defaults.yaml"), "n3").DNS0; got != "9.9.9.9" {
		t.Errorf("n3 has dns0 %s", got)
	}
	write(t, dir, "b/n4.yaml", "serial: S9\n")
	step("a node came whose serial is another's", "b/n4.yaml")
	if err := os.Remove(filepath.Join(dir, "b", "n4.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "a", "_defaults.yaml")); err != nil {
		t.Fatal(err)
	}
	if got := node(t, step("files went", "a/_defaults.yaml", "b/n4.yaml"), "n2").DNS1; got != "" {
		t.Errorf("n2 keeps dns1 %s", got)
	}

	// The same size and the same time: what a tool leaves that sets times back.
	info, err := os.Stat(filepath.Join(dir, "a", "n2.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "a/n2.yaml", "serial: S8\n")
	if err := os.Chtimes(filepath.Join(dir, "a", "n2.yaml"), info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	settle(t, dir)
	if got := node(t, step("a change that hides its time", "a/n2.yaml"), "n2").Serial; got != "S8" {
		t.Errorf("n2 has serial %s", got)
	}
}

// A file that was written just now may be written again within the same tick of
// the clock, so it is read again.
func TestReloadDoesNotTrustAFileThatIsStillWarm(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"a/n1.yaml": "serial: S1\n"})
	l := inventory.NewLoader(dir)
	reload(t, l, dir)
	if _, changed := reload(t, l, dir); len(changed) != 1 {
		t.Errorf("read %v, want the file that is younger than 2 s", changed)
	}
}

// Whatever happens to the files, a reload gives what a fresh look gives.
func TestReloadEqualsLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := inventory.NewLoader(dir)
	l.SettleAtOnce()
	g := rand.New(rand.NewPCG(1, 2))
	names := []string{"_defaults.yaml", "a/_defaults.yaml", "a/n1.yaml", "a/n2.yaml", "a/b/_defaults.yaml", "a/b/n3.yaml", "c/n4.yaml", "c/_defaults.yml"}
	contents := []string{"", "serial: S1\n", "ip: 10.0.0.1\nnetmask: 24\n", "serial: null\nlabels: {a: b}\n", "serail: x\n", "{", "ntp: pool\nip: 10.0.0.2\n"}
	for range 60 {
		name := names[g.IntN(len(names))]
		if g.IntN(4) == 0 {
			_ = os.Remove(filepath.Join(dir, name))
			settle(t, dir)
		} else {
			write(t, dir, name, contents[g.IntN(len(contents))])
		}
		reload(t, l, dir)
		if t.Failed() {
			t.Fatalf("after a change of %s", name)
		}
	}
}

func BenchmarkReload10000(b *testing.B) {
	dir := manyNodes(b)
	settle(b, dir)
	l := inventory.NewLoader(dir)
	l.SettleAtOnce()
	if _, _, _, err := l.Reload(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		write(b, dir, "k8s-07/node-123.yaml", fmt.Sprintf("serial: OTHER%d\nip: 10.7.1.124\n", i))
		b.StartTimer()
		loaded, findings, changed, err := l.Reload()
		if err != nil || len(findings) > 0 || len(changed) != 1 || len(loaded.Nodes) != 10_000 {
			b.Fatalf("%d nodes, changed %v, %v, findings:\n%s", len(loaded.Nodes), changed, err, findings)
		}
	}
}
