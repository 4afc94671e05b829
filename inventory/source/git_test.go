package source_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/source"
)

func TestANewCommitIsANewGeneration(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	hash := u.commit(t, map[string]string{"nodes/a/n1.yaml": "serial: S1\nmachineConfig: ../../configs/n1.yaml\n", "configs/n1.yaml": "one"})
	s, w := following(t, u, func(o *source.GitOptions) { o.Path, o.Poll = "nodes", 20*time.Millisecond })
	first := load(t, s)
	if c := first.Commit; first.ID != hash || c == nil || c.Hash != hash || c.Author != "Ann <ann@example.com>" || c.Subject != "change it" || c.Key != "" || c.Time.IsZero() {
		t.Errorf("generation %+v of %+v", first, first.Commit)
	}
	config := func(g source.Generation) string {
		content, err := os.ReadFile(filepath.Join(g.Folder, "../configs/n1.yaml"))
		must(t, err)
		return string(content)
	}
	if serials(first) != "n1=S1" || config(first) != "one" {
		t.Errorf("loaded %s with the config %s", serials(first), config(first))
	}
	start(t, s)
	hash = u.commit(t, map[string]string{"nodes/a/n1.yaml": "serial: S2\n", "configs/n1.yaml": "two"})
	second := w.generation(t)
	if second.ID != hash || serials(second) != "n1=S2" || config(second) != "two" {
		t.Errorf("generation %s: %s", second.ID, serials(second))
	}
	if config(first) != "one" {
		t.Error("the files of the last generation are not its own any more")
	}
	hash = u.commit(t, map[string]string{"README": "x"})
	if third := w.generation(t); third.ID != hash || serials(third) != "n1=S2" {
		t.Errorf("generation %s: %s", third.ID, serials(third))
	}
	if _, err := os.Stat(first.Folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the first of three generations is still there: %v", err)
	}
	if _, err := os.Stat(second.Folder); err != nil {
		t.Errorf("the last but one is gone: %v", err)
	}
	if len(w.generations) > 0 {
		t.Errorf("a generation too many: %s", (<-w.generations).ID)
	}
}

func TestManyCommitsKeepTheCopySmall(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	u.commit(t, map[string]string{"a/n1.yaml": "serial: S1\n"})
	work := filepath.Join(t.TempDir(), "work")
	s, _ := following(t, u, func(o *source.GitOptions) { o.Folder = work })
	load(t, s)
	for i := range 25 {
		hash := u.commit(t, map[string]string{"a/n1.yaml": fmt.Sprintf("serial: S1%d\n", i)})
		if g := load(t, s); g.ID != hash || serials(g) != fmt.Sprintf("n1=S1%d", i) {
			t.Fatalf("loaded %s: %s", g.ID, serials(g))
		}
	}
	packs, err := filepath.Glob(filepath.Join(work, "store/objects/pack/*.pack"))
	if err != nil || len(packs) == 0 || len(packs) > 9 {
		t.Errorf("%d packs, %v", len(packs), err)
	}
	if all, err := os.ReadDir(filepath.Join(work, "generations")); err != nil || len(all) != 2 {
		t.Errorf("generations %v, %v", all, err)
	}
}

func TestAnInvalidCommitIsRefusedAndTheLastGoodOneGoesOn(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	good := u.commit(t, map[string]string{"a/n1.yaml": "serial: S1\n", "a/n2.yaml": "serial: S2\n"})
	s, w := following(t, u, nil)
	load(t, s)
	start(t, s)
	bad := u.commit(t, map[string]string{"a/n1.yaml": "serial: S9\n", "a/n2.yaml": "{"})
	looked(t, s)
	if r := w.refusal(t, source.Invalid, "a/n2.yaml:2"); r.ID != bad || !r.Findings.HasErrors() {
		t.Errorf("refusal %+v", r)
	}
	if g := s.Status().Good; g.ID != good || serials(g) != "n1=S1 n2=S2" {
		t.Errorf("in use is %s: %s", g.ID, serials(g))
	}
	looked(t, s)
	w.nothing(t)
	fixed := u.commit(t, map[string]string{"a/n2.yaml": "serial: S3\n"})
	s.Reload()
	if g := w.generation(t); g.ID != fixed || serials(g) != "n1=S9 n2=S3" {
		t.Errorf("generation %s: %s", g.ID, serials(g))
	}
}

// What is refused is not read again at each poll, but at a Reload, since files
// outside the repository may have been corrected.
func TestARefusedCommitIsJudgedAgainWhenAsked(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	u.commit(t, map[string]string{"a/n1.yaml": "serial: S1\n"})
	judged, bad := make(chan bool, 1000), make(chan bool, 1)
	s, w := following(t, u, func(o *source.GitOptions) {
		o.Poll = 5 * time.Millisecond
		o.Check = func(string, []inventory.Node) inventory.Findings {
			judged <- true
			select {
			case <-bad:
				return inventory.Findings{{File: "a/n1.yaml", Message: "not now"}}
			default:
				return nil
			}
		}
	})
	bad <- true
	start(t, s)
	w.refusal(t, source.Invalid, "not now")
	eventually(t, "some polls", func() bool { return s.Status().Failures > 3 })
	if len(judged) != 1 {
		t.Errorf("judged %d times", len(judged))
	}
	s.Reload()
	w.until(t, "the commit", has("n1=S1"))
}

func TestARewrittenHistoryIsRefusedUnlessAllowed(t *testing.T) {
	t.Parallel()
	eachRemote(t, func(t *testing.T, u *upstream, reach func(*source.GitOptions)) {
		root := u.commit(t, map[string]string{"a/n1.yaml": "serial: S1\n"})
		u.commit(t, map[string]string{"a/n1.yaml": "serial: S2\n"})
		strict, w := following(t, u, reach)
		lax, lw := following(t, u, func(o *source.GitOptions) { reach(o); o.AllowRewind = true })
		inUse := load(t, strict)
		load(t, lax)
		start(t, strict)
		start(t, lax)

		u.reset(t, root) // back
		looked(t, strict)
		looked(t, lax)
		if r := w.refusal(t, source.Rewound, "does not follow"); r.ID != root || !strings.Contains(r.Error(), inUse.ID[:12]) {
			t.Errorf("refusal %+v", r)
		}
		lw.until(t, "the commit before", has("n1=S1"))

		other := u.commit(t, map[string]string{"a/n1.yaml": "serial: S3\n"}) // and another way
		looked(t, strict)
		looked(t, lax)
		if r := w.refusal(t, source.Rewound, "does not follow"); r.ID != other || strict.Status().Good.ID != inUse.ID {
			t.Errorf("refusal %+v", r)
		}
		lw.until(t, "the other commit", has("n1=S3"))

		u.reset(t, inUse.ID) // taken back
		looked(t, strict)
		if st := strict.Status(); st.Refusal != nil || st.Good.ID != inUse.ID {
			t.Errorf("status %+v", st)
		}
		u.commit(t, map[string]string{"a/n1.yaml": "serial: S4\n"})
		u.commit(t, map[string]string{"a/n1.yaml": "serial: S5\n"}) // several at once
		looked(t, strict)
		w.until(t, "what follows", has("n1=S5"))
	})
}

func TestARefusedCommitMayBeTakenBack(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	good := u.commit(t, map[string]string{"a/n1.yaml": "serial: S1\n"})
	s, w := following(t, u, nil)
	load(t, s)
	start(t, s)
	u.commit(t, map[string]string{"a/n1.yaml": "{"})
	looked(t, s)
	w.refusal(t, source.Invalid, "a/n1.yaml")
	u.reset(t, good)
	u.commit(t, map[string]string{"a/n1.yaml": "serial: S2\n"}) // instead of the bad one
	looked(t, s)
	w.until(t, "the commit instead", has("n1=S2"))
}

func TestARemoteThatIsGoneAndComesBack(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	u.commit(t, map[string]string{"a/n1.yaml": "serial: S1\n"})
	s, w := following(t, u, func(o *source.GitOptions) { o.Poll, o.Jitter = 20*time.Millisecond, time.Millisecond })
	first := load(t, s)
	start(t, s)
	away := u.dir + ".away"
	must(t, os.Rename(u.dir, away))
	w.refusal(t, source.Unreachable, u.dir)
	eventually(t, "more failures", func() bool { return s.Status().Failures >= 4 })
	if st := s.Status(); st.Good.ID != first.ID || st.Refusal == nil || st.Next.Sub(st.Looked) < 100*time.Millisecond {
		t.Errorf("status %+v: want the last good one and a longer wait", st)
	}
	w.nothing(t) // it is told once
	must(t, os.Rename(away, u.dir))
	eventually(t, "the remote again", func() bool { return s.Status().Refusal == nil })
	w.nothing(t) // nothing is new there
	u.commit(t, map[string]string{"a/n1.yaml": "serial: S2\n"})
	w.until(t, "a commit after that", has("n1=S2"))
}

func TestARestartWithoutTheRemoteGoesOnWithTheLastGoodCommit(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	good := u.commit(t, map[string]string{"nodes/a/n1.yaml": "serial: S1\n"})
	work := filepath.Join(t.TempDir(), "work")
	in := func(o *source.GitOptions) { o.Folder, o.Path, o.Jitter = work, "nodes", time.Millisecond }
	s, _ := following(t, u, in)
	load(t, s)
	must(t, os.Rename(u.dir, u.dir+".away"))

	s, w := following(t, u, in)
	g := load(t, s)
	if g.ID != good || !g.Restored || serials(g) != "n1=S1" || g.Commit.Author != "Ann <ann@example.com>" {
		t.Errorf("loaded %+v", g)
	}
	if r := s.Status().Refusal; r == nil || r.Reason != source.Unreachable {
		t.Errorf("refusal %+v", r)
	}
	start(t, s)
	w.refusal(t, source.Unreachable, u.dir) // Run tells it too
	must(t, os.Rename(u.dir+".away", u.dir))
	looked(t, s)
	if st := s.Status(); st.Refusal != nil || st.Good.Restored {
		t.Errorf("status %+v", st)
	}
	// The history before the restart counts.
	u.commit(t, map[string]string{"nodes/a/n1.yaml": "serial: S2\n"})
	looked(t, s)
	w.until(t, "the next commit", has("n1=S2"))

	// An invalid commit is there when the process starts: the last good one goes on.
	u.commit(t, map[string]string{"nodes/a/n1.yaml": "{"})
	s, _ = following(t, u, in)
	if g := load(t, s); serials(g) != "n1=S2" || !g.Restored || s.Status().Refusal == nil || s.Status().Refusal.Reason != source.Invalid {
		t.Errorf("loaded %+v", g)
	}
}

// After a crash of the host a file may be there without its content.
func TestADamagedCheckoutIsNotUsed(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	u.commit(t, map[string]string{"a/n1.yaml": "serial: S1\n", "a/n2.yaml": "serial: S2\n"})
	work := filepath.Join(t.TempDir(), "work")
	in := func(o *source.GitOptions) { o.Folder = work }
	s, _ := following(t, u, in)
	g := load(t, s)
	must(t, os.Truncate(filepath.Join(g.Folder, "a/n2.yaml"), 0))
	must(t, os.RemoveAll(filepath.Join(work, "store")))
	must(t, os.Rename(u.dir, u.dir+".away"))
	s, _ = following(t, u, in)
	if g, err := s.Load(t.Context()); err == nil {
		t.Errorf("loaded %s", serials(g))
	}
	must(t, os.Rename(u.dir+".away", u.dir))
	if g := load(t, s); serials(g) != "n1=S1 n2=S2" || g.Restored {
		t.Errorf("loaded %s", serials(g))
	}
}

// The checkouts of one remote say nothing of another.
func TestAnotherRemoteBeginsAnew(t *testing.T) {
	t.Parallel()
	one, two := newUpstream(t), newUpstream(t)
	one.commit(t, map[string]string{"a/n1.yaml": "serial: S1\n"})
	two.commit(t, map[string]string{"b/n2.yaml": "serial: S2\n"})
	work := filepath.Join(t.TempDir(), "work")
	in := func(o *source.GitOptions) { o.Folder = work }
	s, _ := following(t, one, in)
	load(t, s)
	s, _ = following(t, two, in)
	if g := load(t, s); serials(g) != "n2=S2" {
		t.Errorf("loaded %s", serials(g))
	}
	must(t, os.Rename(two.dir, two.dir+".away"))
	s, _ = following(t, one, func(o *source.GitOptions) { in(o); o.Branch = "other" })
	if g, err := s.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "no branch other") {
		t.Errorf("loaded %s, %v", serials(g), err)
	}
}

func TestWhatACommitMustNotHoldIsRefused(t *testing.T) {
	t.Parallel()
	link := func(target, name string) func(*testing.T, *upstream) {
		return func(t *testing.T, u *upstream) { must(t, os.Symlink(target, filepath.Join(u.dir, name))) }
	}
	for _, c := range []struct {
		name   string
		change func(*testing.T, *upstream)
		reason source.Reason
		text   string
	}{
		{"a link to elsewhere", link("/etc/hostname", "x"), source.Unsafe, "/etc/hostname"},
		{"a link to nowhere elsewhere", link("/nonexistent", "x"), source.Unsafe, "/nonexistent"},
		{"a link upwards", link("../../outside", "x"), source.Unsafe, "../../outside"},
		{"a link by way of another", func(t *testing.T, u *upstream) {
			link("a", "d")(t, u)
			link("d/../../outside", "x")(t, u)
		}, source.Unsafe, "d/../../outside"},
		{"links in a circle", func(t *testing.T, u *upstream) { link("x", "y")(t, u); link("y", "x")(t, u) }, source.Unsafe, "circles"},
		{"a link to a file of it", link("a/n1.yaml", "x"), "", ""},
		{"a link that leads nowhere", link("a/n9.yaml", "x"), "", ""},
		{"much", func(t *testing.T, u *upstream) { write(t, u.dir, map[string]string{"big": strings.Repeat("x", 3000)}) }, source.TooLarge, "2000 bytes"},
		{"no folder of the inventory", func(t *testing.T, u *upstream) { must(t, os.RemoveAll(filepath.Join(u.dir, "a"))) }, source.Unreadable, `no folder "a"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t)
			u.commit(t, map[string]string{"a/n1.yaml": "cluster: k\nserial: S1\n"})
			work := filepath.Join(t.TempDir(), "work")
			s, w := following(t, u, func(o *source.GitOptions) { o.Path, o.MaxBytes, o.Folder = "a", 2000, work })
			load(t, s)
			start(t, s)
			c.change(t, u)
			hash := u.commit(t, map[string]string{"README": "x"})
			looked(t, s)
			if c.reason == "" {
				if g := w.generation(t); g.ID != hash {
					t.Errorf("generation %s", g.ID)
				}
				return
			}
			w.refusal(t, c.reason, c.text)
			if all, err := os.ReadDir(filepath.Join(work, "generations")); err != nil || len(all) != 1 {
				t.Errorf("what was refused is still there: %v, %v", all, err)
			}
		})
	}
}

func TestOptionsOfAGitSourceAreChecked(t *testing.T) {
	t.Parallel()
	good := func() source.GitOptions {
		return source.GitOptions{URL: "https://h.example/x.git", Folder: t.TempDir()}
	}
	ssh := func() source.GitOptions {
		o := good()
		o.URL, o.KeyFile, o.KnownHosts = "git@h.example:x.git", "/key", "/known"
		return o
	}
	for name, c := range map[string]struct {
		options source.GitOptions
		change  func(*source.GitOptions)
		want    string
	}{
		"https":                {good(), func(*source.GitOptions) {}, ""},
		"ssh":                  {ssh(), func(*source.GitOptions) {}, ""},
		"no folder":            {good(), func(o *source.GitOptions) { o.Folder = "" }, "folder"},
		"a path out":           {good(), func(o *source.GitOptions) { o.Path = "../x" }, "leads out"},
		"an absolute path":     {good(), func(o *source.GitOptions) { o.Path = "/x" }, "leads out"},
		"a bad branch":         {good(), func(o *source.GitOptions) { o.Branch = "refs/heads/x" }, "branch"},
		"a negative poll":      {good(), func(o *source.GitOptions) { o.Poll = -1 }, "poll"},
		"too much jitter":      {good(), func(o *source.GitOptions) { o.Poll, o.Jitter = 1, 2 }, "jitter"},
		"a key for https":      {good(), func(o *source.GitOptions) { o.KeyFile = "/x" }, "ssh only"},
		"no known hosts":       {ssh(), func(o *source.GitOptions) { o.KnownHosts = "" }, "known_hosts"},
		"a token for ssh":      {ssh(), func(o *source.GitOptions) { o.TokenEnv = "X" }, "https only"},
		"no keys to verify":    {good(), func(o *source.GitOptions) { o.VerifyKeys = []string{"/nonexistent"} }, "/nonexistent"},
		"a password in it":     {good(), func(o *source.GitOptions) { o.URL = "https://u:hunter2@h.example/x" }, "remove it"},
		"a token in it":        {good(), func(o *source.GitOptions) { o.URL = "https://hunter2@h.example/x" }, "remove it"},
		"a password for ssh":   {ssh(), func(o *source.GitOptions) { o.URL = "ssh://u:hunter2@h.example/x" }, "remove it"},
		"a token in the query": {good(), func(o *source.GitOptions) { o.URL = "https://h.example/x?token=hunter2" }, "query"},
		"a URL that is none":   {good(), func(o *source.GitOptions) { o.URL = "https://u:hunter2@h.example:x/%zz" }, "cannot be parsed"},
		"http":                 {good(), func(o *source.GitOptions) { o.URL = "http://h.example/x" }, "TLS"},
		"a program":            {good(), func(o *source.GitOptions) { o.URL = "ext::sh -c hunter2" }, "another kind"},
	} {
		c.change(&c.options)
		_, err := source.NewGit(c.options)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error repeats a secret: %v", name, err)
		}
	}
}
