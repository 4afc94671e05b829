package machineconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/talos-provision/provision/inventory"
)

// Source reads the machine configs of an inventory's nodes.
type Source struct {
	// Inventory is the folder of the inventory: relative paths begin in the folder
	// of the file that states them.
	Inventory string
}

// Render makes the config of a node: its file is read, filled in when its name
// ends in .tmpl, and patched. ok is false for a node without machineConfig.
//
// The error is a *Problem, which says what is wrong and where. Each call reads
// the files anew; compare Digest to know whether they changed.
func (s Source) Render(n inventory.Node) (c Config, ok bool, err error) {
	if n.MachineConfig == "" {
		return Config{}, false, nil
	}
	file, err := s.path(n, "machineConfig", n.MachineConfig)
	if err != nil {
		return Config{}, false, err
	}
	data, err := s.content(n, "machineConfig", file)
	if err != nil {
		return Config{}, false, err
	}
	if c, err = Parse(data); err != nil {
		return Config{}, false, problem(n, "machineConfig", inventory.RuleConfigSyntax, "", "%s: %w", filePlace(file, err), bare(err))
	}
	patches, err := s.patches(n)
	if err == nil && len(patches) > 0 {
		c, err = c.patch(n, patches)
	}
	if err != nil {
		return Config{}, false, err
	}
	return c, true, nil
}

// Talosconfig is the path of the talosconfig of the node's cluster; ok is false
// for a node without one. The file is not looked at.
func (s Source) Talosconfig(n inventory.Node) (path string, ok bool, err error) {
	if n.Talosconfig == "" {
		return "", false, nil
	}
	path, err = s.path(n, "talosconfig", n.Talosconfig)
	return path, err == nil, err
}

// path resolves a path as it is written in a field.
func (s Source) path(n inventory.Node, field, written string) (string, error) {
	name := written
	if strings.Contains(written, "{{") {
		filled, err := fill(field, []byte(written), n)
		if err != nil {
			return "", problem(n, field, inventory.RuleConfigTemplate, hintOf(err), "the path: %w", bare(err))
		}
		name = string(filled)
	}
	if filepath.IsAbs(name) {
		return filepath.Clean(name), nil
	}
	return filepath.Join(s.Inventory, filepath.Dir(filepath.FromSlash(n.Origin(field).File)), filepath.FromSlash(name)), nil
}

// content is what a file says for a node.
func (s Source) content(n inventory.Node, field, file string) ([]byte, error) {
	data, err := readFile(file)
	if err != nil {
		return nil, problem(n, field, inventory.RuleConfigFile, missingHint(err), "%w", err)
	}
	if filepath.Ext(file) != ".tmpl" {
		return data, nil
	}
	filled, err := fill(filepath.Base(file), data, n)
	if err != nil {
		return nil, problem(n, field, inventory.RuleConfigTemplate, hintOf(err), "%s: %w", filePlace(file, err), bare(err))
	}
	return filled, nil
}

// readFile reads a regular file. Its errors name it.
func readFile(file string) ([]byte, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", file, withoutPath(err))
	case !info.Mode().IsRegular(): // opening a named pipe would wait for ever
		return nil, fmt.Errorf("read %s: it is not a regular file", file)
	case info.Size() > maxConfig:
		return nil, fmt.Errorf("read %s: it has %d bytes, and Talos takes %d: this is no machine config", file, info.Size(), maxConfig)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, withoutPath(err))
	}
	return data, nil
}

func withoutPath(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}

func missingHint(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "write the file, or correct the path: relative ones begin in the folder of the file that states them"
	}
	return "make it a file that this user may read"
}
