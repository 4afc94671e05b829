package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// module is one whose code is linked, with the files that say under which terms.
type module struct {
	path, version string
	dir           string
	files         []file
}

// file is a licence or a notice.
type file struct {
	name string // from the module's root, with slashes
	text []byte
	// ids are the licences that the text is, by their SPDX names; none for a notice.
	ids    []string
	notice bool
}

// listed is what `go list` tells of a package: its folder, and its module's path, version and folder.
// A package of the standard library stands for the module "std".
const listed = `{{if .Standard}}{{if eq .ImportPath "runtime"}}{{.Dir}}|std||{{.Root}}{{end}}` +
	`{{else}}{{with .Module}}{{if not .Main}}{{$.Dir}}|{{.Path}}|{{.Version}}|{{.Dir}}{{end}}{{end}}{{end}}`

// linked are the modules of all packages that the patterns import, without the main module.
func linked(ctx context.Context, dir string, patterns []string) ([]module, error) {
	command := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "-f", listed}, patterns...)...)
	command.Dir = dir
	out, err := command.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("list what is linked in %s: %w", dir, err)
	}
	folders := map[string][]string{} // of a module's linked packages
	all := map[string]module{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if len(fields) != 4 {
			continue
		}
		all[fields[1]] = module{path: fields[1], version: fields[2], dir: fields[3]}
		folders[fields[1]] = append(folders[fields[1]], fields[0])
	}
	return collect(all, folders)
}

// collect reads the files of every module: those in its root, and on the way to each linked package.
func collect(all map[string]module, folders map[string][]string) ([]module, error) {
	modules := make([]module, 0, len(all))
	for _, m := range all {
		seen := map[string]bool{}
		for _, folder := range folders[m.path] {
			for ; !seen[folder] && within(m.dir, folder); folder = filepath.Dir(folder) {
				seen[folder] = true
				files, err := read(m.dir, folder)
				if err != nil {
					return nil, fmt.Errorf("read the licences of %s: %w", m.path, err)
				}
				m.files = append(m.files, files...)
			}
		}
		slices.SortFunc(m.files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
		modules = append(modules, m)
	}
	slices.SortFunc(modules, func(a, b module) int { return cmp.Compare(a.path, b.path) })
	return modules, nil
}

func within(root, folder string) bool {
	relative, err := filepath.Rel(root, folder)
	return err == nil && relative != ".." && !strings.HasPrefix(relative, ".."+string(filepath.Separator))
}

// read reads licences and notices of one folder.
func read(root, folder string) ([]file, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var files []file
	for _, entry := range entries {
		kind := kindOf(entry.Name())
		if entry.IsDir() || kind == other {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, err
		}
		name, err := filepath.Rel(root, filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: filepath.ToSlash(name), text: text, ids: identify(text), notice: kind == notice})
	}
	return files, nil
}
