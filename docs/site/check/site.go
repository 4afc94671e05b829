package main

import (
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// site is what was built: pages, and the other files beside them.
type site struct {
	pages    map[string]*page // by path below the site
	files    map[string]bool  // everything that is there
	styles   map[string]string
	external int // links to other hosts
	linked   map[string]bool
}

// page is one HTML file.
type page struct {
	ids      map[string]bool
	links    []string // of a, as they are written
	fetched  []string // what a browser loads by itself
	noText   []string // images without a text
	problems []string
}

// load reads every file of a site.
func load(dir fs.FS) (*site, error) {
	s := &site{pages: map[string]*page{}, files: map[string]bool{}, styles: map[string]string{}, linked: map[string]bool{}}
	err := fs.WalkDir(dir, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		s.files[name] = true
		switch path.Ext(name) {
		case ".html":
			return s.loadPage(dir, name)
		case ".css":
			text, err := fs.ReadFile(dir, name)
			s.styles[name] = string(text)
			return err
		}
		return nil
	})
	if err == nil && s.pages["index.html"] == nil {
		err = fmt.Errorf("there is no index.html: build the site by `make docs`")
	}
	return s, err
}

func (s *site) loadPage(dir fs.FS, name string) error {
	file, err := dir.Open(name)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // read only
	root, err := html.Parse(file)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p := &page{ids: map[string]bool{}}
	for node := range root.Descendants() {
		if node.Type == html.ElementNode {
			p.see(node)
		}
	}
	s.pages[name] = p
	return nil
}

// see takes what matters out of one element.
func (p *page) see(node *html.Node) {
	has := map[string]string{}
	for _, attribute := range node.Attr {
		has[attribute.Key] = attribute.Val
	}
	if id, found := has["id"]; found {
		if p.ids[id] && id != "" {
			p.problems = append(p.problems, fmt.Sprintf("two elements have the id %q", id))
		}
		p.ids[id] = true
	}
	if host := asks(has); host != "" {
		p.problems = append(p.problems, "the theme's script asks "+host+" because of an element in it")
	}
	switch node.Data {
	case "a":
		if target, found := has["href"]; found {
			p.links = append(p.links, target)
		}
	case "link":
		// A browser loads these; canonical and the like are only named.
		if slices.ContainsFunc(strings.Fields(has["rel"]), loadedRel) {
			p.fetched = append(p.fetched, has["href"])
		}
	case "img", "script", "iframe", "source", "video", "audio", "embed":
		if target, found := has["src"]; found {
			p.fetched = append(p.fetched, target)
		}
		if node.Data == "img" && strings.TrimSpace(has["alt"]) == "" {
			p.noText = append(p.noText, has["src"])
		}
	}
}

// asks says which host the theme's script asks when it meets an element: numbers
// of a repository, and a program for diagrams.
func asks(attributes map[string]string) string {
	switch {
	case attributes["data-md-component"] == "source":
		return "the forge"
	case slices.Contains(strings.Fields(attributes["class"]), "mermaid"):
		return "a host of programs"
	}
	return ""
}

func loadedRel(rel string) bool {
	switch rel {
	case "stylesheet", "icon", "preload", "prefetch", "preconnect", "modulepreload", "manifest":
		return true
	}
	return false
}

// resolve says which file and anchor of the site a link of a page means. Links
// to other hosts, and to mail addresses and the like, are outside.
func resolve(from, link string) (file, anchor string, outside bool, err error) {
	u, err := url.Parse(link)
	if err != nil {
		return "", "", false, err
	}
	if u.Scheme != "" || u.Host != "" {
		return "", "", true, checkOutside(u)
	}
	file = from
	if u.Path != "" {
		file = path.Join(path.Dir(from), u.Path)
		if strings.HasPrefix(u.Path, "/") {
			file = strings.TrimPrefix(path.Clean(u.Path), "/")
		}
	}
	if strings.HasSuffix(u.Path, "/") || file == "." || file == "" {
		file = path.Join(file, "index.html")
	}
	return file, u.Fragment, false, nil
}

// hostName is how a host of the internet is written; ports and addresses are
// for examples, which are no links.
var hostName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}$`)

// checkOutside looks at how a link to somewhere else is written.
func checkOutside(u *url.URL) error {
	switch u.Scheme {
	case "mailto", "data":
		return nil
	case "https", "http":
	case "":
		return fmt.Errorf("it has a host and no scheme")
	default:
		return fmt.Errorf("the scheme %s is not for readers", u.Scheme)
	}
	if !hostName.MatchString(u.Host) {
		return fmt.Errorf("%q is no host of the internet", u.Host)
	}
	return nil
}
