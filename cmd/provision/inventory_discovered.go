package main

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/discovery"
)

// discovered tells a person or a script what a discovery came to.
type discovered struct {
	*app
	dir     string
	report  discovery.Report
	stopped bool
	written []string
}

// conclude writes what may be written, tells it all, and gives the exit status.
func (d *discovered) conclude(write, asJSON bool) error {
	r := d.report
	answered := 0
	for _, p := range r.Proposals {
		if p.Status == discovery.Answered {
			answered++
		}
	}
	status := d.status(answered)
	if write && !d.stopped {
		if err := d.write(); err != nil {
			return err
		}
	}
	if asJSON {
		if err := d.json(); err != nil {
			return err
		}
	} else if err := d.text(write, answered); err != nil {
		return err
	}
	if status == nil {
		return nil
	}
	return status
}

// status is the exit status; nil for 0.
func (d *discovered) status(answered int) *statusError {
	refused := d.count(discovery.Refused)
	conflicts := d.report.Count(discovery.Conflict)
	switch {
	case d.stopped:
		return &statusError{exitFailed, "three BMCs in a row refused the user name or password: no other was asked, so that no account is locked, and nothing was written; check --username and the password"}
	case answered == 0:
		return &statusError{exitFailed, "no BMC answered: check --bmc, and the network to the BMCs"}
	case conflicts > 0:
		return &statusError{exitRefused, fmt.Sprintf("%d machines are in conflict, see above: nothing is written for them before a person decides", conflicts)}
	case refused > 0:
		return &statusError{exitFailed, fmt.Sprintf("%d BMCs refused the user name or password, see above", refused)}
	}
	return nil
}

func (d *discovered) count(s discovery.Status) int {
	count := 0
	for _, p := range d.report.Proposals {
		if p.Status == s {
			count++
		}
	}
	return count
}

// write writes the files, if the inventory would still be free of errors.
func (d *discovered) write() error {
	findings, err := discovery.Check(d.dir, d.report.Changes)
	if err != nil {
		return &statusError{exitFailed, err.Error()}
	}
	for _, f := range findings {
		say(d.errOut, "%s\n", f)
	}
	if findings.HasErrors() {
		return &statusError{exitRefused, "with these files the inventory would have the errors above: nothing was written"}
	}
	d.written, err = discovery.Write(d.dir, d.report.Changes)
	if err != nil {
		return &statusError{exitFailed, fmt.Sprintf("%v (%d files before it were written)", err, len(d.written))}
	}
	return nil
}

// text is the report for people.
func (d *discovered) text(write bool, answered int) error {
	var rows [][]string
	for _, p := range d.report.Proposals {
		if p.Status == discovery.Answered {
			facts := p.Identity.Facts
			row := []string{p.Address, p.Name, string(p.Action), facts.Serial, facts.BoardSerial, facts.UUID, p.Identity.Vendor + " " + p.Identity.Model}
			for i, cell := range row {
				row[i] = orNone(printable(cell))
			}
			rows = append(rows, row)
		}
	}
	if len(rows) > 0 {
		if err := table(d.out, []string{"BMC", "NODE", "ACTION", "SERIAL", "BOARD SERIAL", "UUID", "MACHINE"}, rows); err != nil {
			return err
		}
	}
	d.chassis()
	d.troubles()
	if !write {
		for _, c := range d.report.Changes {
			say(d.out, "\n%s", c.Diff())
		}
	}
	say(d.out, "\n%d BMCs answered of %d; new nodes: %d, added to: %d, unchanged: %d, conflicts: %d\n", answered, len(d.report.Proposals),
		d.report.Count(discovery.Add), d.report.Count(discovery.Patch), d.report.Count(discovery.Unchanged), d.report.Count(discovery.Conflict))
	switch {
	case len(d.written) > 0:
		say(d.out, "written below %s: %s\n", d.dir, strings.Join(d.written, ", "))
	case !write && len(d.report.Changes) > 0 && !d.stopped:
		say(d.out, "nothing was written: give --write to write these files below %s\n", d.dir)
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// printable takes out what would move the cursor or colour the screen: the text
// comes from a BMC.
func printable(s string) string {
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, s))
}

// chassis tells which machines share a serial, and what tells them apart.
func (d *discovered) chassis() {
	for _, c := range d.report.Chassis {
		say(d.out, "\n%s: shared by %s", c, strings.Join(c.Nodes, ", "))
		if c.ToldApartBy == "" {
			say(d.out, "; nothing tells them apart\n")
			continue
		}
		say(d.out, "; told apart by %s:\n", c.ToldApartBy)
		for i, node := range c.Nodes {
			say(d.out, "  %s  %s\n", node, c.Values[i])
		}
	}
}

// troubles tells conflicts, what was left out, and who did not answer.
func (d *discovered) troubles() {
	for _, p := range d.report.Proposals {
		if p.Action == discovery.Conflict {
			say(d.out, "\nconflict: BMC %s (%s): %s\n", p.Address, orNone(p.Name), p.Reason)
		}
		for _, note := range p.Notes {
			say(d.out, "\nnote: BMC %s (%s): %s\n", p.Address, orNone(p.Name), note)
		}
	}
	for _, p := range d.report.Proposals {
		if p.Status == discovery.Refused || p.Status == discovery.Failed {
			say(d.out, "\n%s: BMC %s: %v\n", p.Status, p.Address, p.Err)
		}
	}
	for _, s := range []discovery.Status{discovery.Unreachable, discovery.NotAsked} {
		if ranges := d.ranges(s); len(ranges) > 0 {
			say(d.out, "\n%s: %s\n", s, strings.Join(ranges, ", "))
		}
	}
}

// ranges lists the addresses with a status; neighbours in a scanned network
// become FIRST-LAST. An address that was reached but not trusted says why.
func (d *discovered) ranges(s discovery.Status) []string {
	var ranges []string
	var first, last netip.AddrPort
	flush := func() {
		switch {
		case !first.IsValid():
		case first == last:
			ranges = append(ranges, first.String())
		default:
			ranges = append(ranges, first.Addr().String()+"-"+last.String())
		}
		first = netip.AddrPort{}
	}
	for _, p := range d.report.Proposals {
		if p.Status != s {
			continue
		}
		endpoint, err := netip.ParseAddrPort(p.Endpoint)
		if err != nil {
			flush()
			ranges = append(ranges, p.Address)
			continue
		}
		if first.IsValid() && last.Port() == endpoint.Port() && last.Addr().Next() == endpoint.Addr() {
			last = endpoint
			continue
		}
		flush()
		first, last = endpoint, endpoint
	}
	flush()
	return ranges
}

// bmcJSON is one BMC in the JSON output, and part of its contract.
type bmcJSON struct {
	Address string            `json:"address"`
	Status  discovery.Status  `json:"status"`
	Error   string            `json:"error,omitempty"`
	Vendor  string            `json:"vendor,omitempty"`
	Model   string            `json:"model,omitempty"`
	Facts   identity.Facts    `json:"facts,omitzero"`
	Node    string            `json:"node,omitempty"`
	File    string            `json:"file,omitempty"`
	Action  discovery.Action  `json:"action,omitempty"`
	Fields  []discovery.Field `json:"fields,omitempty"`
	Reason  string            `json:"reason,omitempty"`
	Notes   []string          `json:"notes,omitempty"`
}

func (d *discovered) json() error {
	type fileJSON struct {
		File string `json:"file"`
		New  bool   `json:"new"`
		Diff string `json:"diff"`
	}
	document := struct {
		BMCs    []bmcJSON           `json:"bmcs"`
		Chassis []discovery.Chassis `json:"chassis"`
		Files   []fileJSON          `json:"files"`
		Written []string            `json:"written"`
		Stopped bool                `json:"stopped"`
	}{BMCs: []bmcJSON{}, Chassis: append([]discovery.Chassis{}, d.report.Chassis...), Files: []fileJSON{}, Written: append([]string{}, d.written...), Stopped: d.stopped}
	for _, p := range d.report.Proposals {
		b := bmcJSON{
			Address: p.Address, Status: p.Status, Vendor: p.Identity.Vendor, Model: p.Identity.Model, Facts: p.Identity.Facts,
			Node: p.Name, File: p.File, Action: p.Action, Fields: p.Fields, Reason: p.Reason, Notes: p.Notes,
		}
		if p.Err != nil {
			b.Error = p.Err.Error()
		}
		document.BMCs = append(document.BMCs, b)
	}
	for _, c := range d.report.Changes {
		document.Files = append(document.Files, fileJSON{c.File, c.IsNew(), c.Diff()})
	}
	return d.printJSON(document)
}
