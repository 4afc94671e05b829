package inventory

import (
	"io/fs"
	"os"
	"path"
	"strings"
)

// file is one YAML file of the inventory.
type file struct {
	path     string // relative, with slashes
	defaults bool
	stamp    stamp
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
		case entry.IsDir() && strings.HasPrefix(entry.Name(), "_"): // machine configs and the like
			return fs.SkipDir
		case entry.IsDir():
			return nil
		case entry.Type() == fs.ModeSymlink:
			if info := w.follow(name); info != nil && isYAML(name) {
				w.file(name, info)
			}
			return nil
		case !isYAML(name):
			return nil
		case !entry.Type().IsRegular(): // opening a named pipe would wait for ever
			w.findings = append(w.findings, Finding{Rule: RuleNotAFile, File: name, Message: "is not a regular file", Hint: "remove it from the inventory"})
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			w.findings = append(w.findings, unreadable(name, err))
			return nil
		}
		w.file(name, info)
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

// follow looks where a symbolic link leads; nil if not to a regular file of the
// inventory. Such a link is reported whatever its name: a folder that is silently
// left out would look like a fleet without its nodes.
func (w *walker) follow(name string) fs.FileInfo {
	info, err := w.root.Stat(name)
	switch {
	case err != nil:
		w.findings = append(w.findings, unreadable(name, err))
	case info.IsDir():
		w.findings = append(w.findings, Finding{
			Rule: RuleNotAFile, File: name, Message: "a symbolic link to a folder is not followed", Hint: "move the folder here or link its files one by one",
		})
	case !info.Mode().IsRegular():
		w.findings = append(w.findings, Finding{Rule: RuleNotAFile, File: name, Message: "does not lead to a regular file", Hint: "remove it from the inventory"})
	default:
		return info
	}
	return nil
}

// file adds a YAML file unless its name says that it is not part of the
// inventory.
func (w *walker) file(name string, info fs.FileInfo) {
	isDefaults := stem(name) == "_defaults"
	switch other, twice := w.defaults[path.Dir(name)]; {
	case isDefaults && twice:
		w.findings = append(w.findings, Finding{Rule: RuleDefaultsTwice, File: name, Message: "the folder has two files of defaults", Hint: "move its values into " + other})
		return
	case isDefaults:
		w.defaults[path.Dir(name)] = name
	case strings.HasPrefix(path.Base(name), "_"):
		if Nearest(stem(name), []string{"_defaults"}) != "" {
			w.findings = append(w.findings, Finding{
				Severity: Warning, Rule: RuleIgnored, File: name, Message: "the file is ignored, because its name begins with _", Hint: "did you mean _defaults.yaml?",
			})
		}
		return
	}
	w.files = append(w.files, file{path: name, defaults: isDefaults, stamp: stampOf(info)})
}

func isYAML(name string) bool {
	ext := path.Ext(name)
	return ext == ".yaml" || ext == ".yml"
}
