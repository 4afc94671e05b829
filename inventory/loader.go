package inventory

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Loader loads one inventory again and again. From the second time on it reads
// only the files that changed, and judges only the nodes that they concern. It
// is not safe for concurrent use; the trees that it gave are.
type Loader struct {
	dir      string
	settling time.Duration
	files    map[string]*loaded // by path
	folders  map[string]folderValues
}

// loaded is what is remembered of a file.
type loaded struct {
	stamp    stamp
	layer    *layer // never changed: it is the mark by which a cached result is known to hold
	findings Findings

	// Of a node's file: what came of it, on top of the defaults below.
	below  *values
	node   Node
	judged Findings
}

// folderValues are the defaults in effect in a folder, and what they were made of.
type folderValues struct {
	own           *layer
	below, merged *values
}

// NewLoader makes a loader for the inventory below a folder.
func NewLoader(dir string) *Loader {
	return &Loader{dir: dir, settling: settling, files: map[string]*loaded{}, folders: map[string]folderValues{}}
}

// Reload gives the inventory as it is now, as Load does, and the paths of the
// files that were read for it or are gone, sorted. A file that changed within
// the last 2 s may be read again although it did not change since.
func (l *Loader) Reload() (tree *Tree, findings Findings, changed []string, err error) {
	root, err := os.OpenRoot(l.dir)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("open inventory %s: %w; give the folder of the node files with --inventory", l.dir, err)
	}
	defer func() { _ = root.Close() }()
	files, findings, err := walk(root)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("read inventory %s: %w; give the folder of the node files with --inventory", l.dir, err)
	}
	changed = l.read(root, files)
	tree = &Tree{Nodes: l.assemble(files)}
	for _, f := range files {
		findings = append(findings, l.files[f.path].findings...)
		findings = append(findings, l.files[f.path].judged...)
	}
	findings = append(once(findings), duplicates(tree.Nodes)...)
	if len(tree.Nodes) == 0 && len(findings) == 0 {
		findings = append(findings, Finding{
			Severity: Warning, Rule: RuleNoNodes, File: ".", Message: "the inventory has no node",
			Hint: "add a file like CLUSTER/node-01.yaml",
		})
	}
	return tree, findings.tidy(), changed, nil
}

// read parses what is new or changed and forgets what is gone.
func (l *Loader) read(root *os.Root, files []file) (changed []string) {
	kept := make(map[string]*loaded, len(files))
	var stale []string
	for _, f := range files {
		if known := l.files[f.path]; known != nil && known.stamp.same(f.stamp) {
			kept[f.path] = known
		} else {
			stale = append(stale, f.path)
		}
	}
	for i, fresh := range l.parseAll(root, stale) {
		kept[stale[i]] = fresh
	}
	changed = stale
	for path := range l.files {
		if kept[path] == nil {
			changed = append(changed, path)
		}
	}
	l.files = kept
	slices.Sort(changed)
	return changed
}

// parseAll reads and parses files side by side. The results keep the order of
// the files.
func (l *Loader) parseAll(root *os.Root, paths []string) []*loaded {
	results := make([]*loaded, len(paths))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(paths)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(paths)); i = next.Add(1) - 1 {
				results[i] = l.parseFile(root, paths[i])
			}
		})
	}
	workers.Wait()
	return results
}

func (l *Loader) parseFile(root *os.Root, name string) *loaded {
	content, stamp, finding := read(root, name, l.settling)
	if finding != nil {
		return &loaded{stamp: stamp, layer: &layer{damaged: true}, findings: Findings{*finding}}
	}
	layer, findings := parse(name, content)
	return &loaded{stamp: stamp, layer: &layer, findings: findings}
}

// assemble merges the layers of each node from the root down, and judges the
// nodes of which one changed.
func (l *Loader) assemble(files []file) []Node {
	own := make(map[string]*layer) // defaults by folder
	for _, f := range files {
		if f.defaults {
			own[path.Dir(f.path)] = l.files[f.path].layer
		}
	}
	folders := make(map[string]folderValues, len(l.folders))
	nodes := make([]Node, 0, len(files))
	for _, f := range files {
		if !f.defaults {
			nodes = append(nodes, l.files[f.path].over(f.path, l.defaults(path.Dir(f.path), own, folders)))
		}
	}
	l.folders = folders
	slices.SortFunc(nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Name, b.Name), cmp.Compare(a.File, b.File))
	})
	return nodes
}

// defaults are the values in effect in a folder. Those of the last time are
// given again, the same pointer, if nothing above changed.
func (l *Loader) defaults(folder string, own map[string]*layer, folders map[string]folderValues) *values {
	if v, done := folders[folder]; done {
		return v.merged
	}
	v := folderValues{own: own[folder]}
	if folder != "." {
		v.below = l.defaults(path.Dir(folder), own, folders)
	}
	switch last, known := l.folders[folder]; {
	case known && last.own == v.own && last.below == v.below:
		v = last
	case v.own == nil:
		v.merged = v.below
	default:
		v.merged = v.own.over(v.below)
	}
	folders[folder] = v
	return v.merged
}

// over makes the file's node on top of the defaults of its folder.
func (f *loaded) over(path string, below *values) Node {
	if f.node.values == nil || f.below != below {
		f.below = below
		f.node = f.layer.over(below).node(path)
		f.judged = judge(f.node)
	}
	return f.node
}
