package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A test that the documentation names is there.
func TestTheTestsThatTheDocumentationNamesExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, dir := range []string{"../../pxe", "../../e2e", "../../cmd", "../../provisioner"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, found := range function.FindAllStringSubmatch(string(source), -1) {
				there[found[1]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(text), -1)
	if len(named) < 30 {
		t.Errorf("docs/architecture.md names %d tests only", len(named))
	}
	for _, name := range named {
		if !there[name[1]] {
			t.Errorf("docs/architecture.md names %s, which is not there", name[1])
		}
	}
}
