package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The Markdown of this repository can be read where it lies.
func TestTheRepositorysMarkdownLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	files, found, err := checkMarkdown(os.DirFS("../../.."))
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Errorf("only %d Markdown files were found", files)
	}
	if told := lines(found); len(told) > 0 {
		t.Errorf("links that lead nowhere:\n%s", strings.Join(told, "\n"))
	}
}

// Pages name tests as proof. A test that was renamed or taken away proves nothing.
func TestTestsThatPagesNameExist(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	declared := map[string]bool{}
	declaration := regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz|Benchmark)\w+)\(`)
	for _, file := range filesEndingIn(t, root, "_test.go") {
		for _, match := range declaration.FindAllStringSubmatch(read(t, file), -1) {
			declared[match[1]] = true
		}
	}
	if len(declared) < 500 {
		t.Fatalf("only %d tests were found", len(declared))
	}
	named := regexp.MustCompile("`(Test[A-Z0-9]\\w+)`")
	count := 0
	for _, file := range filesEndingIn(t, root+"/docs", ".md") {
		for _, match := range named.FindAllStringSubmatch(read(t, file), -1) {
			if count++; !declared[match[1]] {
				t.Errorf("%s names %s, and there is no such test", file, match[1])
			}
		}
	}
	if count < 100 {
		t.Errorf("only %d names of tests were found in the pages", count)
	}
}

// filesEndingIn are the files below a folder with this end of their name.
func filesEndingIn(t *testing.T, root, end string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && name != root {
			return fs.SkipDir
		}
		if err == nil && strings.HasSuffix(name, end) {
			found = append(found, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
