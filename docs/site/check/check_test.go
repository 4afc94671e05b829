package main

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// goodSite has one of everything, and nothing wrong.
func goodSite() map[string]string {
	return map[string]string{
		"index.html": `<link rel="stylesheet" href="a.css"><link rel="canonical" href="https://example.com/">
			<a href="how/to.html#step">go</a> <a href="https://example.com/x#y">out</a> <a href="#top">up</a><h1 id="top">Hi</h1>`,
		"how/to.html": `<a href="../index.html">back</a><h2 id="step">Step</h2><img src="../shot.png" alt="a screen"><script src="/a.js"></script>`,
		"404.html":    `<a href="/index.html">home</a>`,
		"a.css":       `b { background: url("data:image/svg+xml;x") } @import "b.css";`,
		"b.css":       ``, "a.js": ``, "shot.png": ``,
	}
}

// Each thing that can be wrong with a site is told with its page, and alone.
func TestWhatIsWrongWithASiteIsTold(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file, add string // appended to a file, which may be new
		want      string // "" is nothing
	}{
		"nothing":                {"index.html", "", ""},
		"a link to no page":      {"index.html", `<a href="gone.html">x</a>`, "index.html: link gone.html: there is no gone.html"},
		"a link to no anchor":    {"index.html", `<a href="how/to.html#stop">x</a>`, "index.html: link how/to.html#stop: how/to.html has no anchor stop"},
		"an anchor of its own":   {"how/to.html", `<a href="#none">x</a>`, "how/to.html: link #none: how/to.html has no anchor none"},
		"a folder":               {"index.html", `<a href="how/">x</a>`, "index.html: link how/: there is no how/index.html"},
		"a page nobody links to": {"lost.html", `<a href="index.html">x</a>`, "lost.html: no page leads here: add it to nav in mkdocs.yml, or link to it"},
		"an image that lacks":    {"index.html", `<img src="no.png" alt="x">`, "index.html: it needs no.png, and there is no no.png"},
		"an image without text":  {"index.html", `<img src="shot.png" alt=" ">`, "index.html: the image shot.png has no text for those who do not see it"},
		"a script of others":     {"index.html", `<script src="https://cdn.example.com/x.js"></script>`, "index.html: it fetches https://cdn.example.com/x.js from elsewhere: put the file beside the page"},
		"a host without scheme":  {"index.html", `<script src="//cdn.example.com/x.js"></script>`, "index.html: it fetches //cdn.example.com/x.js from elsewhere: put the file beside the page"},
		"fonts of others":        {"a.css", `@font-face { src: url(https://fonts.example.com/a.woff) }`, "a.css: it fetches https://fonts.example.com/a.woff from elsewhere: put the file beside the page"},
		"a style that lacks":     {"b.css", `i { background: url(no.svg) }`, "b.css: it needs no.svg, and there is no no.svg"},
		"a preconnect":           {"index.html", `<link rel="preconnect" href="https://fonts.example.com">`, "index.html: it fetches https://fonts.example.com from elsewhere: put the file beside the page"},
		"a diagram":              {"index.html", `<pre class="x mermaid">a</pre>`, "index.html: the theme's script asks a host of programs because of an element in it"},
		"a repository":           {"index.html", `<a data-md-component="source" href="https://example.com/">x</a>`, "index.html: the theme's script asks the forge because of an element in it"},
		"the root":               {"index.html", `<a href="/.">x</a>`, ""},
		"an id twice":            {"index.html", `<p id="top">`, `index.html: two elements have the id "top"`},
		"an address as a link":   {"index.html", `<a href="http://192.168.42.10:8080/">x</a>`, `index.html: link http://192.168.42.10:8080/: "192.168.42.10:8080" is no host of the internet`},
		"a file of one's own":    {"index.html", `<a href="file:///etc/passwd">x</a>`, "index.html: link file:///etc/passwd: the scheme file is not for readers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := goodSite()
			files[tc.file] += tc.add
			s, err := load(filesystem(files))
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			if tc.want != "" {
				want = []string{tc.want}
			}
			if got := lines(s.check()); !slices.Equal(got, want) {
				t.Errorf("told %q, want %q", got, want)
			}
		})
	}
}

// What is linked elsewhere is counted by host.
func TestHostsAreListed(t *testing.T) {
	t.Parallel()
	s, err := load(filesystem(goodSite()))
	if err != nil {
		t.Fatal(err)
	}
	s.check()
	if got := s.hosts(); !slices.Equal(got, []string{"example.com"}) || s.external != 1 {
		t.Errorf("%d links to %q, want one to example.com", s.external, got)
	}
}

// A folder that is no site is not taken for a sound one.
func TestAFolderWithoutAFirstPageIsNoSite(t *testing.T) {
	t.Parallel()
	if _, err := load(filesystem(map[string]string{"a.html": ""})); err == nil || !strings.Contains(err.Error(), "index.html") {
		t.Errorf("error %v, want one about index.html", err)
	}
}

// Markdown is read where it lies, too: links go to files, anchors to headings.
func TestLinksOfMarkdownLeadSomewhere(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"README.md": "[a](docs/a.md#the-first-step) [b](docs/a.md#again-1) [c](bmc) [d](https://example.com)\n" +
			"[e](docs/none.md) [f](docs/a.md#nowhere) ![g](docs/none.png) [h](bmc/x.go#L1)\n\n```\n[no](link.md)\n```\n",
		"CONTRIBUTING.md": "", "CHANGELOG.md": "", "SECURITY.md": "",
		"docs/a.md": "# The `first` step!\n## Again\n## Again\n[up](../README.md)\n",
		"bmc/x.go":  "package bmc",
	}
	n, found, err := checkMarkdown(filesystem(files))
	if err != nil || n != 5 {
		t.Fatalf("%d files, error %v", n, err)
	}
	want := []string{
		"README.md: image docs/none.png: there is no docs/none.png",
		"README.md: link bmc/x.go#L1: bmc/x.go is no Markdown, and has no anchors",
		"README.md: link docs/a.md#nowhere: docs/a.md has no heading nowhere",
		"README.md: link docs/none.md: there is no docs/none.md",
	}
	if got := lines(found); !slices.Equal(got, want) {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// filesystem holds files by path.
func filesystem(files map[string]string) fstest.MapFS {
	dir := fstest.MapFS{}
	for name, text := range files {
		dir[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return dir
}

func lines(problems []problem) (told []string) {
	slices.SortFunc(problems, problem.compare)
	for _, p := range problems {
		told = append(told, p.String())
	}
	return told
}
