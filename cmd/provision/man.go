package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func manCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages of all commands into a folder, for packages",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.writeManual(cmd.Root(), args[0])
		},
	}
}

func (a *app) writeManual(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of the manual: %w", err)
	}
	for _, c := range documented(root) {
		var text bytes.Buffer
		writeMan(&text, pageOf(c))
		file := filepath.Join(dir, fileName(c.CommandPath())+".1")
		if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil { //nolint:gosec // a manual is for everybody to read
			return fmt.Errorf("write a manual page: %w", err)
		}
	}
	return nil
}

// roff writes a page in the man macros of groff.
type roff struct{ w io.Writer }

// writeMan writes a page for man(1). Without a date: the same program writes the same page.
func writeMan(w io.Writer, p page) {
	r := roff{w}
	r.macro("TH", strings.ToUpper(fileName(p.name)), "1", "", "provision "+version, "User Commands")
	r.macro("SH", "NAME")
	r.text(fileName(p.name) + ` \- ` + escapeRoff(p.short))
	r.macro("SH", "SYNOPSIS")
	r.text(`\fB` + escapeRoff(p.name) + `\fR` + escapeRoff(strings.TrimPrefix(p.synopsis, p.name)))
	r.macro("SH", "DESCRIPTION")
	r.blocks(p)
	r.commands(p.commands)
	r.flags("OPTIONS", p.flags)
	r.flags("GLOBAL OPTIONS", p.global)
	if len(p.exit) > 0 {
		r.macro("SH", "EXIT STATUS")
		for _, e := range p.exit {
			r.item(escapeRoff(e.status), e.meaning)
		}
	}
	r.places("ENVIRONMENT", environment)
	r.places("FILES", files)
	if len(p.examples) > 0 {
		r.macro("SH", "EXAMPLES")
		r.verbatim(strings.Join(p.examples, "\n"))
	}
	if related := p.related(); len(related) > 0 {
		r.macro("SH", "SEE ALSO")
		for i, name := range related {
			comma := ","
			if i == len(related)-1 {
				comma = ""
			}
			r.text(`\fB` + escapeRoff(fileName(name)) + `\fR(1)` + comma)
		}
	}
}

func (r roff) blocks(p page) {
	if len(p.blocks) == 0 {
		r.text(escapeRoff(p.short) + ".")
	}
	for i, b := range p.blocks {
		if i > 0 {
			r.macro("PP")
		}
		if b.verbatim {
			r.verbatim(b.text)
		} else {
			r.text(escapeRoff(b.text))
		}
	}
}

func (r roff) commands(commands []*cobra.Command) {
	if len(commands) == 0 {
		return
	}
	r.macro("SH", "COMMANDS")
	for _, c := range commands {
		r.item(`\fB`+escapeRoff(fileName(c.CommandPath()))+`\fR(1)`, c.Short)
	}
}

func (r roff) flags(heading string, flags []*pflag.Flag) {
	if len(flags) == 0 {
		return
	}
	r.macro("SH", heading)
	for _, f := range flags {
		form, usage := flagForm(f)
		if value := defaultOf(f); value != "" {
			usage += " (default " + value + ")"
		}
		r.item(`\fB`+escapeRoff(form)+`\fR`, usage)
	}
}

func (r roff) places(heading string, places []where) {
	r.macro("SH", heading)
	for _, p := range places {
		r.item(`\fB`+escapeRoff(p.name)+`\fR`, p.meaning)
	}
}

// item is a tagged paragraph; the tag is roff already.
func (r roff) item(tag, text string) {
	r.macro("TP")
	r.text(tag)
	r.text(escapeRoff(text))
}

func (r roff) verbatim(text string) {
	r.macro("RS", "4")
	r.macro("nf")
	for line := range strings.SplitSeq(text, "\n") {
		r.text(escapeRoff(line))
	}
	r.macro("fi")
	r.macro("RE")
}

func (r roff) macro(name string, args ...string) {
	line := "." + name
	for _, arg := range args {
		line += ` "` + strings.ReplaceAll(escapeRoff(arg), `"`, `\(dq`) + `"`
	}
	say(r.w, "%s\n", line)
}

// text is a line that is no request, whatever it begins with.
func (r roff) text(line string) {
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	say(r.w, "%s\n", line)
}

// escapeRoff keeps text as it is: groff makes typographic signs of some, where a
// reader wants to copy what the shell takes.
func escapeRoff(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, "…", `\&...`).Replace(s)
}
