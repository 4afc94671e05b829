package source

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/google/go-cmp/cmp"
)

func TestTheWayToAFolder(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"rel": "real", "abs": filepath.Join(base, "real"), "up": "real/../rel", "round": "round", "gone": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(base, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(base, "real", "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct{ end, way string }{
		"real/in":  {"real/in", "real real/in"},
		"rel/in":   {"real/in", "rel real real/in"},
		"abs/in":   {"real/in", "abs real real/in"},
		"up/in":    {"real/in", "up rel real real/in"},
		"gone/in":  {"nowhere/in", "gone nowhere nowhere/in"},
		"round/in": {"round/in", strings.TrimSpace(strings.Repeat("round ", maxLinks+1))},
	} {
		way, end := wayTo(filepath.Join(base, path))
		var inside []string
		for _, p := range way {
			if rest, ok := strings.CutPrefix(p, base+"/"); ok && rest != "" {
				inside = append(inside, rest)
			}
		}
		if path == "abs/in" || path == "up/in" {
			inside = compact(inside)
		}
		if got := strings.Join(inside, " "); end != filepath.Join(base, want.end) || got != want.way {
			t.Errorf("%s: leads to %s by %q, want %s by %q", path, end, got, want.end, want.way)
		}
	}
}

// compact drops what is named twice.
func compact(names []string) (kept []string) {
	seen := map[string]bool{}
	for _, n := range names {
		if !seen[n] {
			kept = append(kept, n)
		}
		seen[n] = true
	}
	return kept
}

func TestADigestTellsTreesApart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := digester{maxBytes: 1 << 20}
	digest := func() string {
		t.Helper()
		id, err := d.digest(t.Context(), dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		fresh := digester{maxBytes: 1 << 20}
		if again, err := fresh.digest(t.Context(), dir, nil); err != nil || again != id {
			t.Fatalf("a fresh look gives %s, %v", again, err)
		}
		return id
	}
	put := func(name, content string) func() error {
		return func() error { return os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600) }
	}
	seen := map[string]int{digest(): -1}
	for i, change := range []func() error{
		put("a", "1"), put("a", "2"), put("b", ""), put("b", "1"),
		func() error { return os.Rename(filepath.Join(dir, "b"), filepath.Join(dir, "c")) },
		func() error { return os.Mkdir(filepath.Join(dir, "d"), 0o700) }, put("d/a", "1"),
		func() error { return os.Symlink("a", filepath.Join(dir, "e")) },
		put("a", "3"), // of the same size, within a tick of the clock
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		id := digest()
		if last, twice := seen[id]; twice {
			t.Errorf("after change %d it is as after %d", i, last)
		}
		seen[id] = i
	}
	before := digest()
	if err := put(".hidden", "x")(); err != nil {
		t.Fatal(err)
	}
	if digest() != before {
		t.Error("a name with a dot counts")
	}
	d.hidden = true
	if id, err := d.digest(t.Context(), dir, nil); err != nil || id == before {
		t.Errorf("with hidden files it is %s, %v", id, err)
	}
}

// A commit's trees may hold what git itself would never write.
func TestNamesThatNoCheckoutMayHaveAreRefused(t *testing.T) {
	t.Parallel()
	for name, entries := range map[string][]object.TreeEntry{
		"up":                {{Name: "..", Mode: filemode.Regular}},
		"path":              {{Name: "../x", Mode: filemode.Regular}},
		"slash":             {{Name: "/x", Mode: filemode.Regular}},
		"git":               {{Name: ".GIT", Mode: filemode.Regular}},
		"twice":             {{Name: "x", Mode: filemode.Regular}, {Name: "x", Mode: filemode.Regular}},
		"through":           {{Name: "x", Mode: filemode.Symlink}, {Name: "x", Mode: filemode.Regular}},
		"good, a submodule": {{Name: "x", Mode: filemode.Submodule}},
		"good":              {{Name: "x", Mode: filemode.Regular}},
	} {
		s, err := openStore(t.TempDir(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		blob := raw(t, s, plumbing.BlobObject, "../outside")
		var text strings.Builder
		for _, e := range entries {
			text.WriteString(strings.TrimLeft(e.Mode.String(), "0") + " " + e.Name + "\x00" + string(blob[:]))
		}
		tree := raw(t, s, plumbing.TreeObject, text.String())
		commit := raw(t, s, plumbing.CommitObject, "tree "+tree.String()+"\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n")
		out := t.TempDir()
		inside := filepath.Join(out, "in")
		if err := os.Mkdir(inside, 0o700); err != nil {
			t.Fatal(err)
		}
		c := checkout{store: s, maxBytes: 1000, what: "it"}
		err = c.into(context.Background(), commit.String(), inside)
		if (err == nil) != strings.HasPrefix(name, "good") {
			t.Errorf("%s: %v", name, err)
		}
		if all, err := os.ReadDir(out); err != nil || len(all) != 1 {
			t.Errorf("%s: written outside: %v, %v", name, all, err)
		}
	}
}

func raw(t *testing.T, s *store, kind plumbing.ObjectType, content string) plumbing.Hash {
	t.Helper()
	o := s.objects.NewEncodedObject()
	o.SetType(kind)
	w, err := o.Writer()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	hash, err := s.objects.SetEncodedObject(o)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func TestAddressesAreReadWithoutSecrets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://h.example/x/y.git":      "https://h.example/x/y.git",
		"ssh://git@h.example/x.git":      "ssh://git@h.example:22/x.git",
		"ssh://git@[::1]:2222/x.git":     "ssh://git@[::1]:2222/x.git",
		"git@h.example:x/y.git":          "ssh://git@h.example:22/x/y.git",
		"file:///srv/x":                  "file:///srv/x",
		"file://host/srv":                "",
		"ssh://h.example/x":              "",
		"ssh://git@-oProxyCommand=x/x":   "",
		"/srv/x":                         "",
		"git://h.example/x":              "",
		"https://":                       "",
		"https://h.example/x\nextra: x":  "",
		"https://h.example/x#fragment":   "",
		"ssh://git:password@h.example/x": "",
	} {
		got, err := parseAddress(text)
		if shown := got.String(); (err != nil) != (want == "") || err == nil && shown != want {
			t.Errorf("%q is %q, %v; want %q", text, shown, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "password@") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestTheWaitGrowsWithFailuresUpToABound(t *testing.T) {
	t.Parallel()
	g := &git{options: GitOptions{Poll: time.Minute}}
	counts := []int{0, 1, 2, 3, 4, 5, 100}
	waits := make([]string, 0, len(counts))
	for _, failures := range counts {
		waits = append(waits, g.delay(failures).String())
	}
	if diff := cmp.Diff("1m0s 1m0s 2m0s 4m0s 8m0s 10m0s 10m0s", strings.Join(waits, " ")); diff != "" {
		t.Error(diff)
	}
}

const someKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDF97PcYimxB8x+Cs8KihrpG6nqHCKwFCH+bkGEcBmQu"

func TestAllowedSigners(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"a@b " + someKey:       "one",
		someKey + " me":        "one",
		`"a b@c,d" ` + someKey: "one",
		`a@b valid-after="20200101",valid-before="20300101Z" ` + someKey: "one",
		`a@b namespaces="file, git" ` + someKey:                          "one",
		`a@b namespaces="file" ` + someKey:                               "no key for git",
		"a@b cert-authority " + someKey:                                  "not supported",
		`a@b valid-after="tomorrow" ` + someKey:                          "tomorrow",
		`"a@b ` + someKey:                                                "quotes",
		"a@b":                                                            "no line",
		"a@b ssh-ed25519 nonsense":                                       "no line",
		"# nothing":                                                      "no key for git",
		"-----BEGIN OPENSSH PRIVATE KEY-----":                            "private key",
		pgpBegin + "\n\nnonsense":                                        "no end",
		pgpBegin + "\n\nnonsense\n" + pgpEnd:                             "cannot be read",
	} {
		s, err := parseSigners("\n" + line + "\n")
		switch {
		case want == "one" && (err != nil || len(s.ssh) != 1):
			t.Errorf("%s: %d keys, %v", line, len(s.ssh), err)
		case want != "one" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

func FuzzSigners(f *testing.F) {
	f.Add("a@b " + someKey)
	f.Add(`"a" valid-after="20200101Z",namespaces="git" ` + someKey)
	f.Add(pgpBegin + "\n\nx\n" + pgpEnd)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSigners(text)
		if (err == nil) != (len(s.pgp)+len(s.ssh) > 0) && err == nil {
			t.Errorf("no key and no error")
		}
	})
}

// A commit comes from the network: whatever is in it, an unknown key signs nothing.
func FuzzSignedCommit(f *testing.F) {
	const head = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n"
	f.Add(head + "\nx\n")
	f.Add(head + "gpgsig -----BEGIN SSH SIGNATURE-----\n U1NIU0lH\n -----END SSH SIGNATURE-----\n\nx\n")
	f.Add(head + "gpgsig -----BEGIN PGP SIGNATURE-----\n \n iQ==\n -----END PGP SIGNATURE-----\n\nx\n")
	keys, err := parseSigners(someKey)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		commit, err := decodeCommit([]byte(raw))
		if err != nil {
			return
		}
		if key, err := keys.verify(commit); err == nil {
			t.Errorf("signed by %s", key)
		}
	})
}

func FuzzAddress(f *testing.F) {
	f.Add("https://user:hunter2@h.example/x")
	f.Add("git@h.example:x")
	f.Add("ssh://git@[::1]:22/x")
	f.Fuzz(func(t *testing.T, text string) {
		if a, err := parseAddress(text); err == nil && a.scheme == schemeSSH && a.user == "" {
			t.Errorf("%q has no user", text)
		}
	})
}

func TestAnErrorOfElsewhereIsMadeFitToBeShown(t *testing.T) {
	t.Parallel()
	got := clean("read tcp 10.0.0.1:34567->10.0.0.2:443:\x1b[31m hunter2 "+strings.Repeat("x", 400), []string{"hunter2"})
	if !strings.HasPrefix(got, "read tcp 10.0.0.1->10.0.0.2:443: [31m … xxx") || len(got) > 310 {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

// A pack of a few bytes may stand for more than the memory holds.
func TestAnObjectThatSwellsIsRefusedBeforeItIsRead(t *testing.T) {
	t.Parallel()
	from, err := openStore(t.TempDir(), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	small := raw(t, from, plumbing.BlobObject, strings.Repeat("a", 1000))
	large := raw(t, from, plumbing.BlobObject, strings.Repeat("a", 2_000_000))
	for _, c := range []struct {
		hash plumbing.Hash
		good bool
	}{{small, true}, {large, false}} {
		var pack bytes.Buffer
		if _, err := packfile.NewEncoder(&pack, from.objects, false).Encode([]plumbing.Hash{c.hash}, 0); err != nil {
			t.Fatal(err)
		}
		to, err := openStore(t.TempDir(), 10_000)
		if err != nil {
			t.Fatal(err)
		}
		var refusal *Refusal
		err = to.unpack(&pack)
		if pack.Len() > 10_000 || (err == nil) != c.good || to.has(c.hash.String()) != c.good || !c.good && (!errors.As(err, &refusal) || refusal.Reason != TooLarge) {
			t.Errorf("taken: %v, %v", to.has(c.hash.String()), err)
		}
	}
	// A delta says how large its object becomes: of 5 bytes, 2 MB.
	m := meter{left: 100}
	if _, err := m.Write([]byte{5, 0x80, 0x89, 0x7a, 0x90, 5}); err != nil || m.deltaSize() != 2_000_000 {
		t.Errorf("size %d, %v", m.deltaSize(), err)
	}
	m = meter{left: 2}
	if _, err := m.Write([]byte("abc")); err == nil {
		t.Error("longer than it says, and taken")
	}
}

func FuzzMeasure(f *testing.F) {
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"))
	f.Fuzz(func(_ *testing.T, pack []byte) { _ = measure(bytes.NewReader(pack), 1000) })
}
