package main

import (
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// markdownRoots are where the Markdown for readers lies in the repository.
var markdownRoots = []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs"}

// document is one Markdown file: its anchors as the forges make them, and its links.
type document struct {
	anchors map[string]bool
	links   []string
	images  []string
}

// checkMarkdown says which links of the Markdown lead nowhere when it is read
// where it lies, in a forge or an editor. It returns how many files it read.
func checkMarkdown(repository fs.FS) (files int, found []problem, err error) {
	documents := map[string]*document{}
	for _, root := range markdownRoots {
		err := fs.WalkDir(repository, root, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || path.Ext(name) != ".md" {
				return err
			}
			source, err := fs.ReadFile(repository, name)
			documents[name] = parseMarkdown(source)
			return err
		})
		if err != nil {
			return 0, nil, err
		}
	}
	for name, d := range documents {
		for _, link := range d.links {
			if what := checkPlain(repository, documents, name, link); what != "" {
				found = append(found, problemf(name, "link %s: %s", link, what))
			}
		}
		for _, image := range d.images {
			if what := checkPlain(repository, documents, name, image); what != "" {
				found = append(found, problemf(name, "image %s: %s", image, what))
			}
		}
	}
	return len(documents), found, nil
}

// checkPlain says what is wrong with one link of a Markdown file, or nothing.
func checkPlain(repository fs.FS, documents map[string]*document, name, link string) string {
	file, anchor, outside, err := resolve(name, link)
	if err != nil {
		return err.Error()
	}
	if outside {
		return ""
	}
	file = strings.TrimSuffix(file, "/index.html")
	info, err := fs.Stat(repository, file)
	if err != nil {
		return "there is no " + file
	}
	if anchor == "" {
		return ""
	}
	target := documents[file]
	if info.IsDir() || target == nil {
		return file + " is no Markdown, and has no anchors"
	}
	if !target.anchors[anchor] {
		return fmt.Sprintf("%s has no heading %s", file, anchor)
	}
	return ""
}

func parseMarkdown(source []byte) *document {
	d := &document{anchors: map[string]bool{}}
	parsed := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	count := map[string]int{}
	// The walk fails only when its function does, and this one does not.
	_ = ast.Walk(parsed, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := node.(type) {
		case *ast.Heading:
			anchor := slug(plain(n, source))
			if count[anchor]++; count[anchor] > 1 {
				anchor = fmt.Sprintf("%s-%d", anchor, count[anchor]-1)
			}
			d.anchors[anchor] = true
		case *ast.Link:
			d.links = append(d.links, string(n.Destination))
		case *ast.Image:
			d.images = append(d.images, string(n.Destination))
		}
		return ast.WalkContinue, nil
	})
	return d
}

// plain is the text of a heading without its markup.
func plain(node ast.Node, source []byte) string {
	var b strings.Builder
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		switch n := child.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(source))
		case *ast.String:
			b.Write(n.Value)
		default:
			b.WriteString(plain(n, source))
		}
	}
	return b.String()
}

// slug is the anchor that the forges give to a heading.
func slug(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case unicode.IsLetter(r), unicode.IsNumber(r), r == '-', r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	return url.PathEscape(b.String())
}
