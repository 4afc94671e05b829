package discovery

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/talos-provision/provision/inventory"
)

// loadChanged loads the inventory as it would be with some files changed or
// added (names relative to dir): what is written must load without errors.
// Files for which keep says no are left out.
func loadChanged(dir string, changed map[string][]byte, keep func(name string) bool) (tree *inventory.Tree, findings inventory.Findings, err error) {
	copied, err := os.MkdirTemp("", "provision-discover-")
	if err != nil {
		return nil, nil, fmt.Errorf("try the changed inventory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(copied)) }()
	put := func(name string, content []byte) error {
		target := filepath.Join(copied, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o600)
	}
	if err := eachFile(dir, func(name string, content []byte) error {
		if _, replaced := changed[name]; replaced || !keep(name) {
			return nil
		}
		return put(name, content)
	}); err != nil {
		return nil, nil, fmt.Errorf("try the changed inventory: %w", err)
	}
	for name, content := range changed {
		if err := put(name, content); err != nil {
			return nil, nil, fmt.Errorf("try the changed inventory: %w", err)
		}
	}
	return inventory.Load(copied)
}

// eachFile visits the YAML files of an inventory. A folder that does not exist
// has none.
func eachFile(dir string, visit func(name string, content []byte) error) error {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != "." && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir() || !isYAML(name):
			return nil
		}
		content, err := root.ReadFile(name)
		if err != nil {
			return err
		}
		return visit(name, content)
	})
}

func isYAML(name string) bool { return path.Ext(name) == ".yaml" || path.Ext(name) == ".yml" }

// Defaults gives what the files of defaults say of the BMC of a new node of a
// cluster.
func Defaults(dir, cluster string) (inventory.BMC, error) {
	probe := path.Join(cluster, "probe.yaml")
	tree, _, err := loadChanged(dir, map[string][]byte{probe: nil}, func(name string) bool {
		base := path.Base(name)
		return strings.TrimSuffix(base, path.Ext(base)) == "_defaults"
	})
	if err != nil {
		return inventory.BMC{}, err
	}
	for _, n := range tree.Nodes {
		if n.File == probe {
			return n.BMC, nil
		}
	}
	return inventory.BMC{}, fmt.Errorf("read the defaults of cluster %s: they cannot be told; run `provision inventory validate`", cluster)
}
