package machineconfig

import (
	"errors"
	"fmt"

	"github.com/talos-provision/provision/inventory"
)

// Problem is what is wrong with the machine config of a node, as a finding at the
// place in the inventory that names the file. It repeats no value of the config.
type Problem struct {
	Node    string // "cluster/name"
	Finding inventory.Finding
	cause   error
}

// Error is "CLUSTER/NAME: machineConfig (FILE:LINE): message; hint".
func (p *Problem) Error() string {
	text := fmt.Sprintf("%s: %s (%s:%d): %s", p.Node, p.Finding.Field, p.Finding.File, p.Finding.Line, p.Finding.Message)
	if p.Finding.Hint != "" {
		text += "; " + p.Finding.Hint
	}
	return text
}

// Unwrap gives the cause.
func (p *Problem) Unwrap() error { return p.cause }

// problem makes an error at the place of a field.
func problem(n inventory.Node, field string, rule inventory.Rule, hint, format string, args ...any) *Problem {
	cause := fmt.Errorf(format, args...)
	f := findingAt(n, field, inventory.Error, rule, cause.Error(), hint)
	return &Problem{Node: n.ID(), Finding: f, cause: cause}
}

func findingAt(n inventory.Node, field string, severity inventory.Severity, rule inventory.Rule, message, hint string) inventory.Finding {
	o := n.Origin(field)
	if o.File == "" {
		o = inventory.Origin{File: n.File, Line: 1, Column: 1}
	}
	return inventory.Finding{
		Severity: severity, Rule: rule, File: o.File, Line: o.Line, Column: o.Column, Field: field, Message: message, Hint: hint,
	}
}

// filePlace is "file:line" for an error that knows its line, else the file.
func filePlace(file string, err error) string {
	var at atLine
	if errors.As(err, &at) {
		return fmt.Sprintf("%s:%d", file, at.line)
	}
	return file
}

// bare is the error without the line, which filePlace gives.
func bare(err error) error {
	var at atLine
	if errors.As(err, &at) {
		return errors.New(at.message)
	}
	return err
}

// hinted is an error that knows what to do.
type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }

func hintOf(err error) string {
	var h hinted
	if errors.As(err, &h) {
		return h.hint
	}
	return ""
}
