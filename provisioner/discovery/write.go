package discovery

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/talos-provision/provision/inventory"
)

// Change is a file to be written.
type Change struct {
	// File is relative to the inventory, with slashes.
	File string
	// Before is empty for a new file.
	Before, After []byte
}

// IsNew tells whether the file does not exist yet.
func (c Change) IsNew() bool { return c.Before == nil }

// Diff shows the change in the form of diff -u.
func (c Change) Diff() string { return Diff(c.File, c.Before, c.After) }

// changes makes the text of every file that is to be written. A file that
// cannot be added to is a conflict of its own.
func (d *decider) changes() ([]Change, error) {
	var changes []Change
	for i := range d.proposals {
		p := &d.proposals[i]
		switch p.Action {
		case Add:
			changes = append(changes, Change{File: p.File, After: newFile(p)})
		case Patch:
			before, err := os.ReadFile(filepath.Join(d.options.Inventory, filepath.FromSlash(p.File)))
			if err != nil {
				return nil, fmt.Errorf("read the file of %s: %w", p.Node.ID(), err)
			}
			after, err := addFields(before, p.Fields)
			if err != nil {
				p.conflict("%s cannot be added to: %v; add %s by hand", p.File, err, describe(p.Fields))
				continue
			}
			changes = append(changes, Change{File: p.File, Before: before, After: after})
		case Unchanged, Conflict:
		}
	}
	return changes, nil
}

func describe(fields []Field) string {
	texts := make([]string, len(fields))
	for i, f := range fields {
		texts[i] = f.Name + ": " + flow(f)
	}
	return strings.Join(texts, ", ")
}

// newFile is the text of a node's new file. It is never marked install: true: a
// machine that merely answered must not be installed by the next run.
func newFile(p *Proposal) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", comment("Found at "+p.Address+": "+strings.TrimSpace(p.Identity.Vendor+" "+p.Identity.Model)))
	var section []Field
	for _, f := range p.Fields {
		if strings.HasPrefix(f.Name, sectionBMC) {
			section = append(section, f)
			continue
		}
		b.WriteString(f.Name + ":" + block(f, "", "\n") + "\n")
	}
	b.WriteString("install: false # set ip first, then true\n")
	b.WriteString("bmc:\n")
	for _, f := range section {
		b.WriteString("  " + strings.TrimPrefix(f.Name, sectionBMC) + ": " + flow(f) + "\n")
	}
	return []byte(b.String())
}

// comment makes text from outside safe for a comment.
func comment(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c == '\u0085' || c == '\u2028' || c == '\u2029' {
			return ' '
		}
		return c
	}, text)
}

// Check loads the inventory as it would be after the changes, and gives the
// errors in it that are not there now.
func Check(dir string, changes []Change) (inventory.Findings, error) {
	changed := make(map[string][]byte, len(changes))
	for _, c := range changes {
		changed[c.File] = c.After
	}
	_, findings, err := loadChanged(dir, changed, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	var wrong inventory.Findings
	for _, f := range findings {
		if f.Severity == inventory.Error {
			wrong = append(wrong, f)
		}
	}
	return wrong, nil
}

// Write writes the changes, each file at once and whole. A file that is not as
// it was when the change was made is left alone, and the error names it; the
// files before it are written. It returns those.
func Write(dir string, changes []Change) (written []string, err error) {
	for _, c := range changes {
		if err := c.write(dir); err != nil {
			return written, fmt.Errorf("write %s: %w", c.File, err)
		}
		written = append(written, c.File)
	}
	return written, nil
}

func (c Change) write(dir string) error {
	target := filepath.Join(dir, filepath.FromSlash(c.File))
	if c.IsNew() {
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return create(target, c.After)
	}
	// A symbolic link to another file of the inventory stays one.
	target, err := filepath.EvalSymlinks(target)
	if err != nil {
		return err
	}
	now, err := os.ReadFile(target)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, c.Before) {
		return errors.New("it was changed meanwhile: run the command again")
	}
	info, err := os.Stat(target)
	if err != nil {
		return err
	}
	return replace(target, c.After, info.Mode().Perm())
}

// create makes a file that must not exist yet, at once with its content.
func create(target string, content []byte) error {
	temporary, err := writeBeside(target, content, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary) }()
	err = os.Link(temporary, target)
	if errors.Is(err, fs.ErrExist) {
		return errors.New("a file of that name exists: nothing was overwritten; choose other names with --name-format")
	}
	return err
}

func replace(target string, content []byte, mode fs.FileMode) error {
	temporary, err := writeBeside(target, content, mode)
	if err != nil {
		return err
	}
	if err := os.Rename(temporary, target); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return nil
}

// writeBeside writes a hidden file into the folder of the target, which the
// inventory's reader passes over, and brings it to the disk.
func writeBeside(target string, content []byte, mode fs.FileMode) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(target), ".discover-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}
