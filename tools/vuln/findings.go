package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// finding is a vulnerability whose code can be reached from the module.
type finding struct {
	id, summary  string
	module       string
	fixed        string // the first version without it, "" when there is none
	called, from string // the vulnerable symbol, and ours that leads to it
}

// findings are what a scan brought up.
type findings struct {
	called   map[string]finding // by id
	imported map[string]bool    // ids of vulnerable modules whose vulnerable code is not called
	checked  int                // entries of the database that concern a module we require
}

// message is one of govulncheck's JSON documents; fields that it lacks stay nil.
type message struct {
	OSV *struct {
		ID      string `json:"id"`
		Summary string `json:"summary"`
	} `json:"osv"`
	Finding *struct {
		OSV          string  `json:"osv"`
		FixedVersion string  `json:"fixed_version"`
		Trace        []frame `json:"trace"`
	} `json:"finding"`
}

type frame struct {
	Module   string `json:"module"`
	Version  string `json:"version"`
	Package  string `json:"package"`
	Function string `json:"function"`
	Receiver string `json:"receiver"`
}

func (f frame) symbol() string {
	if f.Receiver != "" {
		return f.Package + "." + f.Receiver + "." + f.Function
	}
	return f.Package + "." + f.Function
}

// parseFindings reads govulncheck's JSON output.
func parseFindings(r io.Reader) (findings, error) {
	found := findings{called: map[string]finding{}, imported: map[string]bool{}}
	summaries := map[string]string{}
	for decoder := json.NewDecoder(r); ; {
		var m message
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return found, fmt.Errorf("read govulncheck's output: %w", err)
		}
		if m.OSV != nil {
			summaries[m.OSV.ID] = m.OSV.Summary
		}
		if m.Finding == nil || len(m.Finding.Trace) == 0 {
			continue
		}
		sink, source := m.Finding.Trace[0], m.Finding.Trace[len(m.Finding.Trace)-1]
		if sink.Function == "" {
			found.imported[m.Finding.OSV] = true
			continue
		}
		found.called[m.Finding.OSV] = finding{
			id: m.Finding.OSV, module: sink.Module + "@" + sink.Version, fixed: m.Finding.FixedVersion,
			called: sink.symbol(), from: source.symbol(),
		}
	}
	found.checked = len(summaries)
	for id, f := range found.called {
		f.summary = summaries[id]
		found.called[id] = f
		delete(found.imported, id)
	}
	return found, nil
}

// sorted are the called ones by id.
func (f findings) sorted() []finding {
	all := make([]finding, 0, len(f.called))
	for _, id := range slices.Sorted(maps.Keys(f.called)) {
		all = append(all, f.called[id])
	}
	return all
}
