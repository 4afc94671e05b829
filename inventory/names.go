package inventory

import (
	"bytes"
	"cmp"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Name is a node as the places of its files tell it: enough to complete a word
// with, or to say what a mistyped one means.
type Name struct {
	Cluster, Node string
}

// Names lists the nodes below a folder without reading what the files say of
// them, sorted by cluster and name. Of a file's content only the key `cluster`
// counts. The files may be broken; the error says that the folder cannot be read.
func Names(dir string) ([]Name, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	files, err := nodeFiles(root)
	if err != nil {
		return nil, err
	}
	said := clustersSaid(root, files)
	names := make([]Name, 0, len(files))
	for _, f := range files {
		if stem(f) != "_defaults" {
			names = append(names, Name{cmp.Or(clusterOf(f, said), folder(f)), stem(f)})
		}
	}
	slices.SortFunc(names, func(a, b Name) int { return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Node, b.Node)) })
	return slices.Compact(names), nil
}

// nodeFiles are the files of nodes and their defaults, as walk finds them, for
// the price of listing the folders.
func nodeFiles(root *os.Root) ([]string, error) {
	var files []string
	err := fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		hidden := name != "." && strings.HasPrefix(path.Base(name), ".")
		left := strings.HasPrefix(path.Base(name), "_") && stem(name) != "_defaults"
		switch {
		case err != nil && name == ".":
			return err
		case err != nil:
			return nil //nolint:nilerr // told by whoever loads the inventory
		case entry.IsDir() && (hidden || strings.HasPrefix(path.Base(name), "_")):
			return fs.SkipDir
		case entry.IsDir() || hidden || left || !isYAML(name):
			return nil
		}
		files = append(files, name)
		return nil
	})
	return files, err
}

// clustersSaid is the key `cluster` of the files that have it, by path.
func clustersSaid(root *os.Root, files []string) map[string]string {
	said := map[string]string{}
	var mu sync.Mutex
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(files)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(files)); i = next.Add(1) - 1 {
				if info, err := root.Stat(files[i]); err != nil || !info.Mode().IsRegular() || info.Size() > maxFile {
					continue
				}
				content, err := root.ReadFile(files[i])
				if cluster := clusterLine(content); err == nil && cluster != "" {
					mu.Lock()
					said[files[i]] = cluster
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	return said
}

// clusterLine is the value of a line `cluster: NAME`, or "".
func clusterLine(content []byte) string {
	const key = "cluster:"
	for len(content) > 0 {
		if value, found := bytes.CutPrefix(content, []byte(key)); found {
			value, _, _ = bytes.Cut(value, []byte("\n"))
			value, _, _ = bytes.Cut(value, []byte(" #"))
			return strings.Trim(strings.TrimSpace(string(value)), `"'`)
		}
		at := bytes.Index(content, []byte("\n"+key))
		if at < 0 {
			return ""
		}
		content = content[at+1:]
	}
	return ""
}

// clusterOf is what a file says, or the nearest defaults above it.
func clusterOf(file string, said map[string]string) string {
	if cluster := said[file]; cluster != "" {
		return cluster
	}
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		for _, ext := range []string{".yaml", ".yml"} {
			if cluster := said[path.Join(dir, "_defaults"+ext)]; cluster != "" {
				return cluster
			}
		}
		if dir == "." {
			return ""
		}
	}
}
