package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
// its folder and below. What is wrong in the files is in the findings, and
// everything that can be read is in the tree even then. The error says only
// that the folder itself cannot be read.
func Load(dir string) (*Tree, Findings, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("open inventory %s: %w; give the folder of the node files with --inventory", dir, err)
	}
	defer func() { _ = root.Close() }()

	files, findings, err := walk(root)
	if err != nil {
		return nil, nil, fmt.Errorf("read inventory %s: %w; give the folder of the node files with --inventory", dir, err)
	}
	layers, found := parseAll(root, files)
	findings = append(findings, found...)
	tree := &Tree{Nodes: assemble(files, layers)}
	findings = append(findings, validate(tree.Nodes)...)
	if len(tree.Nodes) == 0 && len(findings) == 0 {
		findings = append(findings, Finding{
			Severity: Warning, File: ".", Message: "the inventory has no node",
			Hint: "add a file like CLUSTER/node-01.yaml",
		})
	}
	return tree, findings.tidy(), nil
}

// file is one YAML file of the inventory.
type file struct {
	path     string // relative, with slashes
	defaults bool
}

// walk lists the files in lexical order. What the tree must not contain
// becomes a finding.
func walk(root *os.Root) ([]file, Findings, error) {
	w := walker{root: root, defaults: make(map[string]string)}
	err := fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && name == ".":
			return err
		case err != nil:
			w.findings = append(w.findings, unreadable(name, err))
			return nil
		case name == ".":
			return nil
		case strings.HasPrefix(entry.Name(), "."): // .git and the like
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			return nil
		case entry.Type() == fs.ModeSymlink && !w.followable(name), !isYAML(name):
			return nil
		case !entry.Type().IsRegular() && entry.Type() != fs.ModeSymlink: // opening a named pipe would wait for ever
			w.findings = append(w.findings, Finding{File: name, Message: "is not a regular file", Hint: "remove it from the inventory"})
			return nil
		}
		w.file(name)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return w.files, w.findings, nil
}

// walker collects what a walk meets.
type walker struct {
	root     *os.Root
	files    []file
	findings Findings
	defaults map[string]string // by folder
}

// followable tells whether a symbolic link leads to a file of the inventory.
// One that does not is reported whatever its name: a folder that is silently
// left out would look like a fleet without its nodes.
func (w *walker) followable(name string) bool {
	info, err := w.root.Stat(name)
	switch {
	case err != nil:
		w.findings = append(w.findings, unreadable(name, err))
	case info.IsDir():
		w.findings = append(w.findings, Finding{
			File: name, Message: "a symbolic link to a folder is not followed", Hint: "move the folder here or link its files one by one",
		})
	case !info.Mode().IsRegular():
		w.findings = append(w.findings, Finding{File: name, Message: "does not lead to a regular file", Hint: "remove it from the inventory"})
	}
	return err == nil && info.Mode().IsRegular()
}

// file adds a YAML file unless its name says that it is not part of the
// inventory.
func (w *walker) file(name string) {
	isDefaults := stem(name) == "_defaults"
	switch other, twice := w.defaults[path.Dir(name)]; {
	case isDefaults && twice:
		w.findings = append(w.findings, Finding{File: name, Message: "the folder has two files of defaults", Hint: "move its values into " + other})
		return
	case isDefaults:
		w.defaults[path.Dir(name)] = name
	case strings.HasPrefix(path.Base(name), "_"):
		if nearest(stem(name), []string{"_defaults"}) != "" {
			w.findings = append(w.findings, Finding{
				Severity: Warning, File: name, Message: "the file is ignored, because its name begins with _", Hint: "did you mean _defaults.yaml?",
			})
		}
		return
	}
	w.files = append(w.files, file{path: name, defaults: isDefaults})
}

func isYAML(name string) bool {
	ext := path.Ext(name)
	return ext == ".yaml" || ext == ".yml"
}

// parseAll reads and parses the files side by side. The results keep the order
// of the files.
func parseAll(root *os.Root, files []file) ([]layer, Findings) {
	layers := make([]layer, len(files))
	found := make([]Findings, len(files))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(files)); i = next.Add(1) - 1 {
				layers[i], found[i] = parseFile(root, files[i].path)
			}
		})
	}
	workers.Wait()
	return layers, slices.Concat(found...)
}

func parseFile(root *os.Root, name string) (layer, Findings) {
	content, finding := read(root, name)
	if finding != nil {
		return layer{damaged: true}, Findings{*finding}
	}
	return parse(name, content)
}

// read gives the content of a regular file inside the root. A symbolic link
// may lead to another file of the inventory, but not out of it.
func read(root *os.Root, name string) ([]byte, *Finding) {
	f, err := root.Open(name)
	if err != nil {
		finding := unreadable(name, err)
		return nil, &finding
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		finding := unreadable(name, err)
		return nil, &finding
	case len(content) > maxFile:
		return nil, &Finding{File: name, Message: "the file is larger than 1 MiB", Hint: "a node needs a few lines; remove the rest"}
	}
	return content, nil
}

func unreadable(name string, err error) Finding {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		err = pathError.Err // the finding names the file already
	}
	hint := "check that it exists and may be read"
	if strings.Contains(err.Error(), "escapes") {
		return Finding{File: name, Message: "the symbolic link leads out of the inventory", Hint: "copy the file into the inventory"}
	}
	return Finding{File: name, Message: fmt.Sprintf("cannot be read: %v", err), Hint: hint}
}

// assemble merges the layers of each node from the root down.
func assemble(files []file, layers []layer) []Node {
	own := make(map[string]*layer) // defaults by folder
	for i, f := range files {
		if f.defaults {
			own[path.Dir(f.path)] = &layers[i]
		}
	}
	merged := make(map[string]*values)
	var defaults func(folder string) *values
	defaults = func(folder string) *values {
		if v, done := merged[folder]; done {
			return v
		}
		var v *values
		if folder != "." {
			v = defaults(path.Dir(folder))
		}
		if l, has := own[folder]; has {
			v = l.over(v)
		}
		merged[folder] = v
		return v
	}
	nodes := make([]Node, 0, len(files))
	for i, f := range files {
		if !f.defaults {
			nodes = append(nodes, layers[i].over(defaults(path.Dir(f.path))).node(f.path))
		}
	}
	slices.SortFunc(nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Name, b.Name), cmp.Compare(a.File, b.File))
	})
	return nodes
}
