package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"
)

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// json says whether machines read the output; any other value than table is an error.
func (a *app) json() (bool, error) {
	switch a.flags.output {
	case "table":
		return false, nil
	case "json":
		return true, nil
	}
	return false, usageError("-o %s: it can be table or json", a.flags.output)
}

// say writes text for a person. A terminal that went away is no reason to stop
// work on machines, so errors are let go.
func say(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format, args...)
}

func (a *app) printJSON(value any) error {
	encoder := json.NewEncoder(a.out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// table writes rows under a heading, aligned.
func table(w io.Writer, heading []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, row := range append([][]string{heading}, rows...) {
		if _, err := fmt.Fprintln(t, strings.TrimRight(strings.Join(row, "\t"), "\t")); err != nil {
			return err
		}
	}
	return t.Flush()
}

// logger writes to standard error, so that output stays clean for machines.
func (a *app) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.flags.logLevel)); err != nil {
		return nil, usageError("--log-level %s: it can be debug, info, warn or error", a.flags.logLevel)
	}
	return slog.New(slog.NewTextHandler(logLines{a}, &slog.HandlerOptions{Level: level})), nil
}
