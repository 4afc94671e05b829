package inventory

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// Tree is a loaded inventory.
type Tree struct {
	// Nodes are sorted by cluster, name and file.
	Nodes []Node
}

// maxFile bounds a file in bytes: an inventory file is a screen of text.
const maxFile = 1 << 20

// Load reads the inventory below a folder: each .yaml or .yml file that does not
// begin with "_" or "." is a node, and _defaults.yaml applies to all nodes of
// its folder and below. Folders whose names begin so are not looked into. What
// is wrong in the files is in the findings, and everything that can be read is in
// the tree even then. The error says only that the folder itself cannot be read.
func Load(dir string) (*Tree, Findings, error) {
	tree, findings, _, err := NewLoader(dir).Reload()
	return tree, findings, err
}

// read gives the content of a regular file inside the root. A symbolic link
// may lead to another file of the inventory, but not out of it.
//
// The stamp is that of the open file, so that it belongs to the content.
func read(root *os.Root, name string, settling time.Duration) ([]byte, stamp, *Finding) {
	f, err := root.Open(name)
	if err != nil {
		finding := unreadable(name, err)
		return nil, stamp{}, &finding
	}
	defer func() { _ = f.Close() }()
	before := time.Now()
	info, err := f.Stat()
	if err != nil {
		finding := unreadable(name, err)
		return nil, stamp{}, &finding
	}
	s := stampOf(info)
	s.settled = s.olderThan(before.Add(-settling))
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		finding := unreadable(name, err)
		return nil, stamp{}, &finding
	case len(content) > maxFile:
		return nil, s, &Finding{Rule: RuleTooLarge, File: name, Message: "the file is larger than 1 MiB", Hint: "a node needs a few lines; remove the rest"}
	}
	return content, s, nil
}

func unreadable(name string, err error) Finding {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		err = pathError.Err // the finding names the file already
	}
	hint := "check that it exists and may be read"
	if strings.Contains(err.Error(), "escapes") {
		return Finding{Rule: RuleLinkOutside, File: name, Message: "the symbolic link leads out of the inventory", Hint: "copy the file into the inventory"}
	}
	return Finding{Rule: RuleUnreadable, File: name, Message: fmt.Sprintf("cannot be read: %v", err), Hint: hint}
}
