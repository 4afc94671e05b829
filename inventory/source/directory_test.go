package source_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/source"
)

// watching makes a source of a folder that looks at events only, since the next scan
// is far away.
func watching(t *testing.T, dir string, change func(*source.DirectoryOptions)) (*source.Source, told) {
	t.Helper()
	o := source.DirectoryOptions{Path: dir, Quiet: 20 * time.Millisecond, MaxQuiet: time.Second, Rescan: time.Hour}
	w := listen(t, &o.Options)
	if change != nil {
		change(&o)
	}
	s, err := source.NewDirectory(o)
	return made(t, s, err), w
}

func TestAChangeOfAFolderIsANewGeneration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"a/n1.yaml": "serial: S1\n"})
	s, w := watching(t, dir, nil)
	first := load(t, s)
	if serials(first) != "n1=S1" || !strings.HasPrefix(first.ID, "sha256:") || first.Folder != dir || first.Commit != nil {
		t.Fatalf("loaded %s: %+v", serials(first), first)
	}
	start(t, s)
	w.nothing(t) // Load gave it already

	write(t, dir, map[string]string{"a/n1.yaml": "serial: S2\n"})
	if g := w.until(t, "the change", has("n1=S2")); g.ID == first.ID {
		t.Error("the ID is still the same")
	}
	write(t, dir, map[string]string{"b/c/n2.yaml": "serial: S3\n"}) // in folders that are new
	w.until(t, "the new node", has("n1=S2 n2=S3"))
	write(t, dir, map[string]string{"b/c/n2.yaml": "serial: S4\n"})
	w.until(t, "the change in the new folder", has("n1=S2 n2=S4"))

	// As editors write: beside it, then renamed over it.
	write(t, dir, map[string]string{"b/c/.n2.yaml.swp": "serial: S5\n"})
	must(t, os.Rename(filepath.Join(dir, "b/c/.n2.yaml.swp"), filepath.Join(dir, "b/c/n2.yaml")))
	w.until(t, "the renamed file", has("n2=S5"))
	must(t, os.RemoveAll(filepath.Join(dir, "b")))
	if g := w.until(t, "no second node", func(g source.Generation) bool { return serials(g) == "n1=S2" }); s.Status().Good.ID != g.ID || s.Status().Refusal != nil {
		t.Errorf("status %+v", s.Status())
	}
}

// Files that nodes refer to are part of what a generation is.
func TestAMachineConfigInTheFolderMakesANewGeneration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"a/n1.yaml": "serial: S1\n", "_configs/n1.yaml": "machine: {}\n"})
	s, w := watching(t, dir, nil)
	first := load(t, s)
	start(t, s)
	write(t, dir, map[string]string{"_configs/n1.yaml": "machine: {type: worker}\n"})
	if g := w.generation(t); g.ID == first.ID || serials(g) != "n1=S1" {
		t.Errorf("generation %s: %s", g.ID, serials(g))
	}
}

func TestAnInvalidChangeIsRefusedAsAWholeAndCorrected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"a/n1.yaml": "serial: S1\n", "a/n2.yaml": "serial: S2\n"})
	s, w := watching(t, dir, nil)
	first := load(t, s)
	start(t, s)
	// One file is changed well, the other is wrong: neither counts.
	write(t, dir, map[string]string{"a/n1.yaml": "serial: S9\n", "a/n2.yaml": "ip: nonsense\n"})
	r := w.refusal(t, source.Invalid, "a/n2.yaml:1")
	if !r.Findings.HasErrors() || r.ID == "" || r.ID == first.ID {
		t.Errorf("refusal %+v", r)
	}
	if st := s.Status(); st.Good.ID != first.ID || serials(st.Good) != "n1=S1 n2=S2" || st.Refusal == nil || st.Failures < 1 {
		t.Errorf("status %+v", st)
	}
	if g, err := s.Load(t.Context()); err != nil || g.ID != first.ID {
		t.Errorf("Load gave %s, %v: want the last good one", g.ID, err)
	}
	looked(t, s)
	w.nothing(t) // it is told once
	write(t, dir, map[string]string{"a/n2.yaml": "serial: S3\n"})
	w.until(t, "the correction", has("n1=S9 n2=S3"))
	if st := s.Status(); st.Refusal != nil || st.Failures != 0 {
		t.Errorf("status %+v", st)
	}
	// What is taken back is no new generation, and no refusal stays.
	write(t, dir, map[string]string{"a/n2.yaml": "{"})
	w.refusal(t, source.Invalid, "a/n2.yaml")
	write(t, dir, map[string]string{"a/n2.yaml": "serial: S3\n"})
	eventually(t, "the end of the refusal", func() bool { return s.Status().Refusal == nil })
	w.nothing(t)
}

func TestWithoutAnyGoodGenerationLoadFails(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "nodes")
	s, w := watching(t, dir, nil)
	var r *source.Refusal
	if _, err := s.Load(t.Context()); !errors.As(err, &r) || r.Reason != source.Unreadable || !strings.Contains(err.Error(), dir) {
		t.Fatalf("Load gave %v", err)
	}
	start(t, s)
	w.refusal(t, source.Unreadable, dir)
	write(t, dir, map[string]string{"a/n1.yaml": "serial: S1\n"})
	w.until(t, "the folder that came", has("n1=S1"))
}

func TestChecksAndStrictnessRefuseToo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"a/n1.yaml": "serial: S1\n", "a/_default.yaml": "ntp: x\n"}) // a warning
	bad := inventory.Findings{{File: "a/n1.yaml", Message: "the config is bad"}}
	for _, c := range []struct {
		name   string
		change func(*source.DirectoryOptions)
		want   string
	}{
		{"warnings are no errors", func(*source.DirectoryOptions) {}, ""},
		{"strict", func(o *source.DirectoryOptions) { o.Strict = true }, "_default.yaml"},
		{"a check", func(o *source.DirectoryOptions) {
			o.Check = func(folder string, nodes []inventory.Node) inventory.Findings {
				if folder != dir || len(nodes) != 1 {
					t.Errorf("checked %s with %d nodes", folder, len(nodes))
				}
				return bad
			}
		}, "the config is bad"},
	} {
		s, _ := watching(t, dir, c.change)
		g, err := s.Load(t.Context())
		if c.want == "" && (err != nil || len(g.Warnings) != 1) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: warnings %v, error %v", c.name, g.Warnings, err)
		}
	}
}

func TestTouchWithoutAChangeYieldsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"a/n1.yaml": "serial: S1\n"})
	s, w := watching(t, dir, nil)
	load(t, s)
	start(t, s)
	file := filepath.Join(dir, "a", "n1.yaml")
	begin := s.Status().Looked
	must(t, os.Chtimes(file, time.Now(), time.Now().Add(time.Hour)))
	eventually(t, "a look after the touch", func() bool { return s.Status().Looked.After(begin) })
	write(t, dir, map[string]string{"a/n1.yaml": "serial: S1\n", "a/.swap": "x"}) // the same content
	looked(t, s)
	w.nothing(t)
}

// As Kubernetes mounts a ConfigMap: each file is a link through ..data, which is
// renamed over.
func TestAConfigMapThatIsExchanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"..v1/n1.yaml": "serial: S1\ncluster: a\n", "..v1/n2.yaml": "serial: S2\ncluster: a\n"})
	must(t, os.Symlink("..v1", filepath.Join(dir, "..data")))
	for _, name := range []string{"n1.yaml", "n2.yaml"} {
		must(t, os.Symlink("..data/"+name, filepath.Join(dir, name)))
	}
	s, w := watching(t, dir, nil)
	if g := load(t, s); serials(g) != "n1=S1 n2=S2" {
		t.Fatalf("loaded %s", serials(g))
	}
	start(t, s)
	for i := range 3 {
		next := fmt.Sprintf("..v%d", i+2)
		want := fmt.Sprintf("n1=T%d n2=U%d", i, i)
		write(t, dir, map[string]string{next + "/n1.yaml": fmt.Sprintf("serial: T%d\ncluster: a\n", i), next + "/n2.yaml": fmt.Sprintf("serial: U%d\ncluster: a\n", i)})
		exchange(t, next, filepath.Join(dir, "..data"))
		must(t, os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..v%d", i+1))))
		if g := w.generation(t); serials(g) != want {
			t.Errorf("generation with %s, want %s: never a mixture", serials(g), want)
		}
	}
}

// exchange makes a link lead elsewhere at once.
func exchange(t *testing.T, target, link string) {
	t.Helper()
	must(t, os.Symlink(target, link+".new"))
	must(t, os.Rename(link+".new", link))
}

// As git-sync does: a folder on the way to the inventory is a link.
func TestALinkOnTheWayThatIsExchanged(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	write(t, base, map[string]string{"worktrees/1/nodes/a/n1.yaml": "serial: S1\n", "worktrees/2/nodes/a/n1.yaml": "serial: S2\n"})
	must(t, os.Symlink("worktrees/1", filepath.Join(base, "current")))
	s, w := watching(t, filepath.Join(base, "current", "nodes"), nil)
	load(t, s)
	start(t, s)
	exchange(t, "worktrees/2", filepath.Join(base, "current"))
	w.until(t, "the new worktree", has("n1=S2"))
	write(t, base, map[string]string{"worktrees/2/nodes/a/n1.yaml": "serial: S3\n"})
	w.until(t, "a change in the new worktree", has("n1=S3"))
	must(t, os.Remove(filepath.Join(base, "current")))
	w.refusal(t, source.Unreadable, "current")
	must(t, os.Symlink(filepath.Join(base, "worktrees/1"), filepath.Join(base, "current")))
	w.until(t, "the old worktree", has("n1=S1"))
}

func TestAFolderThatIsDeletedAndMadeAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "x", "nodes")
	write(t, dir, map[string]string{"a/n1.yaml": "serial: S1\n"})
	s, w := watching(t, dir, nil)
	first := load(t, s)
	start(t, s)
	for i, gone := range []string{dir, filepath.Dir(dir)} {
		must(t, os.Rename(gone, filepath.Join(t.TempDir(), "away")))
		w.refusal(t, source.Unreadable, dir)
		if st := s.Status(); st.Good.ID == "" || i == 0 && st.Good.ID != first.ID {
			t.Errorf("status %+v: the last good one is to go on", st)
		}
		write(t, dir, map[string]string{"a/n1.yaml": fmt.Sprintf("serial: T%d\n", i)})
		w.until(t, "the new folder", has(fmt.Sprintf("n1=T%d", i)))
		write(t, dir, map[string]string{"a/n1.yaml": fmt.Sprintf("serial: U%d\n", i)})
		w.until(t, "a change in the new folder", has(fmt.Sprintf("n1=U%d", i)))
		for len(w.refusals) > 0 {
			<-w.refusals // of the moments in between
		}
	}
}

// An empty folder is what is left where nothing is mounted.
func TestAnInventoryThatIsEmptiedIsRefused(t *testing.T) {
	t.Parallel()
	for _, allowed := range []bool{false, true} {
		dir := t.TempDir()
		write(t, dir, map[string]string{"a/n1.yaml": "serial: S1\n"})
		s, w := watching(t, dir, func(o *source.DirectoryOptions) { o.AllowEmpty = allowed })
		first := load(t, s)
		start(t, s)
		must(t, os.RemoveAll(filepath.Join(dir, "a")))
		if allowed {
			w.until(t, "no node", func(g source.Generation) bool { return len(g.Tree.Nodes) == 0 })
			continue
		}
		w.refusal(t, source.Emptied, "had 1")
		if s.Status().Good.ID != first.ID {
			t.Error("the last good one is not in use any more")
		}
	}
}

func TestABurstOfWritesYieldsFewGenerations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"a/n.yaml": "serial: S0\n"})
	s, w := watching(t, dir, func(o *source.DirectoryOptions) { o.Quiet, o.MaxQuiet = 300*time.Millisecond, 5*time.Second })
	load(t, s)
	start(t, s)
	for i := range 200 {
		write(t, dir, map[string]string{fmt.Sprintf("a/m%03d.yaml", i): fmt.Sprintf("serial: M%03d\n", i)})
	}
	count := 0
	w.until(t, "all nodes", func(g source.Generation) bool { count++; return len(g.Tree.Nodes) == 201 })
	looked(t, s)
	w.nothing(t)
	if count > 3 {
		t.Errorf("%d generations for one burst", count)
	}
}

// Writes that never pause are looked at nevertheless.
func TestABusyFolderIsLookedAtWithinItsLongestWait(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"a/n.yaml": "serial: S0\n"})
	s, w := watching(t, dir, func(o *source.DirectoryOptions) { o.Quiet, o.MaxQuiet = time.Minute, 100*time.Millisecond })
	load(t, s)
	start(t, s)
	write(t, dir, map[string]string{"a/n.yaml": "serial: S2\n"})
	w.until(t, "the change", has("n=S2"))
}

// A generation is never made of files that changed while they were read.
func TestFilesThatChangeWhileTheyAreReadAreReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"a/n1.yaml": "serial: S1\n", "a/n2.yaml": "serial: S1b\n"})
	var once sync.Once
	s, w := watching(t, dir, func(o *source.DirectoryOptions) {
		o.Check = func(string, []inventory.Node) inventory.Findings {
			once.Do(func() { write(t, dir, map[string]string{"a/n1.yaml": "serial: S2\n", "a/n2.yaml": "serial: S2b\n"}) })
			return nil
		}
	})
	if g := load(t, s); serials(g) != "n1=S2 n2=S2b" {
		t.Errorf("loaded %s", serials(g))
	}
	w.nothing(t)
}

func TestScansFindWhatNoEventTells(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{".data/n1.yaml": "serial: S1\ncluster: a\n"})
	must(t, os.Symlink(".data/n1.yaml", filepath.Join(dir, "n1.yaml"))) // .data is not watched
	s, w := watching(t, dir, func(o *source.DirectoryOptions) { o.Rescan = 20 * time.Millisecond })
	load(t, s)
	start(t, s)
	write(t, dir, map[string]string{".data/n1.yaml": "serial: S2\ncluster: a\n"})
	w.until(t, "the change", has("n1=S2"))
}

func TestReloadLooksAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{".data/n1.yaml": "serial: S1\ncluster: a\n"})
	must(t, os.Symlink(".data/n1.yaml", filepath.Join(dir, "n1.yaml")))
	s, w := watching(t, dir, nil)
	load(t, s)
	start(t, s)
	write(t, dir, map[string]string{".data/n1.yaml": "serial: S2\ncluster: a\n"})
	s.Reload()
	w.until(t, "the change", has("n1=S2"))
}

func TestWhatIsTooLargeIsRefusedAndAPipeIsNotOpened(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"a/n1.yaml": "serial: S1\n"})
	must(t, syscall.Mkfifo(filepath.Join(dir, "a", "pipe"), 0o600))
	s, w := watching(t, dir, func(o *source.DirectoryOptions) { o.MaxBytes = 100 })
	load(t, s)
	start(t, s)
	write(t, dir, map[string]string{"a/big": strings.Repeat("x", 101)})
	w.refusal(t, source.TooLarge, "100 bytes")
	must(t, syscall.Mkfifo(filepath.Join(dir, "a", "n2.yaml"), 0o600))
	must(t, os.Remove(filepath.Join(dir, "a", "big")))
	w.refusal(t, source.Invalid, "not a regular file")
}

func TestOptionsOfAFolderAreChecked(t *testing.T) {
	t.Parallel()
	for _, o := range []source.DirectoryOptions{{}, {Path: "x", Rescan: -1}, {Path: "x", Options: source.Options{MaxBytes: -1}}} {
		if _, err := source.NewDirectory(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

func TestRunIsCalledOnce(t *testing.T) {
	t.Parallel()
	s, _ := watching(t, t.TempDir(), nil)
	start(t, s)
	if err := s.Run(t.Context()); err == nil {
		t.Error("a second Run is taken")
	}
}
