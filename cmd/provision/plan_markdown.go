package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/talos-provision/provision/provisioner"
)

// maxMarkdown bounds a plan in Markdown, in bytes. A comment of GitHub holds 65,536
// characters, one of GitLab 1,000,000.
const maxMarkdown = 60_000

// markdownActions are the actions in the order in which a reviewer wants to see them, with
// what a count of them is called.
var markdownActions = []struct {
	action provisioner.Action
	count  string
	urgent bool
}{
	{provisioner.ActionFail, "that cannot be done", true},
	{provisioner.ActionHold, "held for safety", true},
	{provisioner.ActionInstall, "to install", true},
	{provisioner.ActionConfigure, "to configure", false},
	{provisioner.ActionResume, "to go on with", false},
	{provisioner.ActionFollow, "to wait for", false},
	{provisioner.ActionDone, "done", false},
	{provisioner.ActionSkip, "skipped", false},
}

// planMarkdown writes a plan as a comment of a merge request: counts, a table of the nodes
// that are part of the run, and below it what stands in the way. Kernel arguments and
// identities are left out: they are in the inventory, and a comment is read by more people.
func planMarkdown(w io.Writer, p provisioner.Plan) error {
	var text strings.Builder
	say(&text, "### Plan of `%s`\n\n%s\n", strings.ReplaceAll(p.Cluster, "`", ""), markdownCounts(p))
	if p.Resumes != "" {
		say(&text, "\nRun %s was not finished; it goes on.\n", escapeMarkdown(p.Resumes))
	}
	nodes := inMarkdownOrder(p.Nodes)
	rows, notes := make([]string, 0, len(nodes)), []string{}
	for _, n := range nodes {
		rows = append(rows, markdownRow(n))
		if n.Hint != "" {
			notes = append(notes, fmt.Sprintf("- **%s**: %s\n  → %s\n", escapeMarkdown(n.Node), escapeMarkdown(n.Reason), escapeMarkdown(n.Hint)))
		}
	}
	const heading = "\n| node | action | until | power | identified by | Talos | why |\n| --- | --- | --- | --- | --- | --- | --- |\n"
	// Half for the table, so that what stands in the way is not cut off by it.
	writeBounded(&text, heading, rows, maxMarkdown/2)
	writeBounded(&text, "\n**What stands in the way, and what to do**\n\n", notes, maxMarkdown)
	_, err := io.WriteString(w, text.String())
	return err
}

// writeBounded writes a list under its heading while the text is shorter than limit, and
// says how much of it is left out.
func writeBounded(text *strings.Builder, heading string, lines []string, limit int) {
	if len(lines) == 0 {
		return
	}
	say(text, "%s", heading)
	for i, line := range lines {
		if text.Len()+len(line) > limit {
			say(text, "\n… and %d more: `provision plan` shows them all.\n", len(lines)-i)
			return
		}
		say(text, "%s", line)
	}
}

func markdownCounts(p provisioner.Plan) string {
	var counts []string
	for _, a := range markdownActions {
		n := p.Count(a.action)
		switch {
		case n == 0:
		case a.urgent:
			counts = append(counts, fmt.Sprintf("**%d %s**", n, a.count))
		default:
			counts = append(counts, fmt.Sprintf("%d %s", n, a.count))
		}
	}
	if len(counts) == 0 {
		return "No node is selected."
	}
	return strings.Join(counts, ", ")
}

// inMarkdownOrder are the nodes that are part of the run, the urgent ones first.
func inMarkdownOrder(nodes []provisioner.PlanNode) []provisioner.PlanNode {
	rank := map[provisioner.Action]int{}
	for i, a := range markdownActions {
		rank[a.action] = i
	}
	worked := slices.DeleteFunc(slices.Clone(nodes), func(n provisioner.PlanNode) bool { return n.Action == provisioner.ActionSkip })
	slices.SortStableFunc(worked, func(a, b provisioner.PlanNode) int { return cmp.Compare(rank[a.Action], rank[b.Action]) })
	return worked
}

func markdownRow(n provisioner.PlanNode) string {
	action := string(n.Action)
	if n.Reinstall {
		action += ", WIPED"
	}
	cells := []string{n.Node, action, string(n.Until), n.Power, string(n.IdentifiedBy), n.TalosVersion, why(n)}
	for i, cell := range cells {
		cells[i] = escapeMarkdown(orDash(cell))
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// escapeMarkdown shows text as it is, on one line: no table, link, mention or HTML comes
// of what stands in an inventory or was said by a BMC.
func escapeMarkdown(s string) string {
	return strings.NewReplacer(
		"\r\n", " ", "\n", " ", "\r", " ", "\\", `\\`, "`", "\\`", "|", `\|`, "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "#", `\#`, "~", `\~`, "!", `\!`,
		"&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "&#64;", "://", "&#58;//",
	).Replace(s)
}
