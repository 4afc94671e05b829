package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner/machineconfig"
)

type validateFlags struct {
	format string
	strict bool
}

func inventoryValidateCommand(a *app) *cobra.Command {
	var f validateFlags
	c := &cobra.Command{
		Use:   "validate",
		Short: "Check every file of the inventory; exits 2 on errors, 0 with warnings only",
		Long: `validate reads the whole inventory, whatever is selected, and tells everything
that is wrong in one pass, with file, line, column and what to do. The machine
configs that it names are read and checked too.

Exit status: 0 sound, or warnings only; 2 errors, or warnings with --strict.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.inventoryValidate(f) },
	}
	c.Flags().StringVar(&f.format, "format", "", "text, json, sarif (SARIF 2.1.0), github (annotations of GitHub Actions) or gitlab (code quality report); default that of -o, which takes the same")
	c.Flags().BoolVar(&f.strict, "strict", false, "warnings are errors")
	return c
}

// findingsWriters write what validate found, by format.
var findingsWriters = map[string]func(*app, *inventory.Tree, inventory.Findings, inventory.Report) error{
	"text": func(a *app, tree *inventory.Tree, findings inventory.Findings, _ inventory.Report) error {
		for _, f := range findings {
			say(a.out, "%s\n", f)
		}
		_, err := fmt.Fprintf(a.out, "nodes: %d, errors: %d, warnings: %d\n", len(tree.Nodes), findings.Count(inventory.Error), findings.Count(inventory.Warning))
		return err
	},
	"json": func(a *app, tree *inventory.Tree, findings inventory.Findings, _ inventory.Report) error {
		return a.printJSON(struct {
			Nodes    int                `json:"nodes"`
			Findings inventory.Findings `json:"findings"`
		}{len(tree.Nodes), append(inventory.Findings{}, findings...)})
	},
	"sarif": func(a *app, _ *inventory.Tree, findings inventory.Findings, report inventory.Report) error {
		return findings.WriteSARIF(a.out, report)
	},
	"github": func(a *app, _ *inventory.Tree, findings inventory.Findings, report inventory.Report) error {
		return findings.WriteAnnotations(a.out, report)
	},
	"gitlab": func(a *app, _ *inventory.Tree, findings inventory.Findings, report inventory.Report) error {
		return findings.WriteCodeQuality(a.out, report)
	},
}

func (a *app) inventoryValidate(f validateFlags) error {
	flag, format := "--format", f.format
	if format == "" {
		flag, format = "-o", a.flags.output
	}
	if format == "table" {
		format = "text"
	}
	write, known := findingsWriters[format]
	if !known {
		return usageError("%s %s: it can be text, json, sarif, github or gitlab", flag, format)
	}
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	tree, findings, err := inventory.Load(c.Inventory)
	if err != nil {
		return &statusError{exitUsage, err.Error()}
	}
	findings = findings.With(machineconfig.Source{Inventory: c.Inventory}.Check(tree.Nodes))
	if f.strict {
		findings = findings.Strict()
	}
	if err := write(a, tree, findings, inventory.Report{Tool: "provision", Version: version, Root: rootForReports(c.Inventory)}); err != nil {
		return err
	}
	if findings.HasErrors() {
		return &statusError{status: exitUsage}
	}
	return nil
}

// rootForReports is the folder of the inventory relative to where the program
// runs, which for a CI system is the root of the repository; absolute if it is
// elsewhere.
func rootForReports(dir string) string {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return filepath.ToSlash(dir)
	}
	here, err := os.Getwd()
	if err != nil {
		return filepath.ToSlash(absolute)
	}
	relative, err := filepath.Rel(here, absolute)
	if err != nil || relative == ".." || strings.HasPrefix(relative, ".."+string(filepath.Separator)) {
		return filepath.ToSlash(absolute)
	}
	return filepath.ToSlash(relative)
}
