package source

import (
	"context"
	"fmt"
	"time"

	"github.com/talos-provision/provision/inventory"
)

// judge makes a generation of a candidate, or says why not.
func (s *Source) judge(ctx context.Context, c *candidate) (Generation, error) {
	files, err := c.open(ctx)
	if err != nil {
		return Generation{}, err
	}
	generation, err := s.load(files)
	if files.confirm != nil {
		if changed := files.confirm(ctx); changed != nil {
			err = changed // whatever was found is not what is there now
		}
	}
	if err == nil && files.keep != nil {
		err = files.keep()
	}
	if err != nil {
		if files.drop != nil {
			files.drop()
		}
		return Generation{}, err
	}
	generation.ID = c.id
	return generation, nil
}

func (s *Source) load(files opened) (Generation, error) {
	tree, findings, err := files.load()
	if err != nil {
		return Generation{}, &Refusal{Reason: Unreadable, Err: err}
	}
	if s.options.Check != nil {
		findings = findings.With(s.options.Check(files.folder, tree.Nodes))
	}
	if s.options.Strict {
		findings = findings.Strict()
	}
	if findings.HasErrors() {
		return Generation{}, &Refusal{Reason: Invalid, Findings: findings, Err: fmt.Errorf("the inventory of %s has %d errors: %s%s",
			s.name, findings.Count(inventory.Error), firstError(findings), more(findings.Count(inventory.Error)))}
	}
	if last := s.Status().Good.Tree; len(tree.Nodes) == 0 && last != nil && len(last.Nodes) > 0 && !s.options.AllowEmpty {
		return Generation{}, &Refusal{Reason: Emptied, Findings: findings, Err: fmt.Errorf(
			"the inventory of %s has no node any more, and had %d: see whether its folder is mounted, or allow an empty inventory", s.name, len(last.Nodes))}
	}
	return Generation{Tree: tree, Folder: files.folder, Warnings: findings, Loaded: time.Now(), Commit: files.commit}, nil
}

func firstError(findings inventory.Findings) string {
	for _, f := range findings {
		if f.Severity == inventory.Error {
			return f.String()
		}
	}
	return ""
}

func more(errors int) string {
	if errors < 2 {
		return ""
	}
	return fmt.Sprintf("; and %d more", errors-1)
}
