package docs

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// root is the repository, from this package.
const root = "../.."

// snippet is a piece of code of a page.
type snippet struct {
	page   string // from the repository's root
	line   int    // of its first line of code, from 1
	lang   string // of a fenced block, "" when it has no label
	text   string
	inline bool // `code` within a sentence
}

// pages are the pages for users: README.md and what is under docs/.
func pages(t *testing.T) []string {
	t.Helper()
	found := []string{"README.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".md") {
			name, _ := filepath.Rel(root, path)
			found = append(found, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// snippets are those of a page, in their order.
func snippets(t *testing.T, page string) []snippet {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	return parse(page, source, 0)
}

// parse finds the snippets of a Markdown text that begins after a number of lines.
func parse(page string, source []byte, before int) []snippet {
	var all []snippet
	line := func(offset int) int { return before + bytes.Count(source[:offset], []byte("\n")) + 1 }
	document := goldmark.DefaultParser().Parse(text.NewReader(source))
	_ = ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := node.(type) {
		case *ast.FencedCodeBlock:
			if n.Lines().Len() > 0 {
				lang, _, _ := strings.Cut(string(n.Language(source)), " ")
				all = append(all, snippet{page: page, line: line(n.Lines().At(0).Start), lang: lang, text: string(n.Lines().Value(source))})
			}
		case *ast.CodeBlock:
			// What is indented under a tab or an admonition is Markdown of its own.
			if inner := n.Lines().Value(source); bytes.Contains(inner, []byte("```")) {
				all = append(all, parse(page, inner, line(n.Lines().At(0).Start)-1)...)
			}
		case *ast.CodeSpan:
			if code, offset := span(n, source); code != "" {
				all = append(all, snippet{page: page, line: line(offset), text: code, inline: true})
			}
			return ast.WalkSkipChildren, nil
		}
		return ast.WalkContinue, nil
	})
	return all
}

// span is the code of an inline snippet on one line, and where it begins.
func span(n *ast.CodeSpan, source []byte) (code string, offset int) {
	var words []string
	for child := n.FirstChild(); child != nil; child = child.NextSibling() {
		if segment, ok := child.(*ast.Text); ok {
			if len(words) == 0 {
				offset = segment.Segment.Start
			}
			words = append(words, strings.TrimSuffix(string(segment.Value(source)), "\n"))
		}
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " "), offset
}
