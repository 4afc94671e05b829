package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner"
)

func markdownOf(t *testing.T, p provisioner.Plan) string {
	t.Helper()
	var out bytes.Buffer
	if err := planMarkdown(&out, p); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestAPlanInMarkdownHasCountsThenATableThenWhatToDo(t *testing.T) {
	t.Parallel()
	got := markdownOf(t, provisioner.Plan{Cluster: "k8s-prod", Resumes: "run-1", Nodes: []provisioner.PlanNode{
		{Node: "node-01", Action: provisioner.ActionInstall, Until: "ready", Power: "Off", IdentifiedBy: "serial", TalosVersion: "v1.13.9", Reason: "identified by serial", Reinstall: true},
		{Node: "node-02", Action: provisioner.ActionHold, Reason: "two nodes | one serial", Hint: "correct one", Cause: "IdentityConflict"},
		{Node: "node-03", Action: provisioner.ActionSkip, Reason: "install: false"},
		{Node: "node-04", Action: provisioner.ActionDone, Reason: "is up"},
	}})
	want := "### Plan of `k8s-prod`\n\n**1 held for safety**, **1 to install**, 1 done, 1 skipped\n\nRun run-1 was not finished; it goes on.\n\n" +
		"| node | action | until | power | identified by | Talos | why |\n| --- | --- | --- | --- | --- | --- | --- |\n" +
		"| node-02 | hold | - | - | - | - | IdentityConflict |\n" +
		"| node-01 | install, WIPED | ready | Off | serial | v1.13.9 | identified by serial |\n" +
		"| node-04 | done | - | - | - | - | is up |\n" +
		"\n**What stands in the way, and what to do**\n\n- **node-02**: two nodes \\| one serial\n  → correct one\n"
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if empty := markdownOf(t, provisioner.Plan{Cluster: "x"}); !strings.Contains(empty, "No node is selected.") || strings.Contains(empty, "|") {
		t.Errorf("an empty plan: %s", empty)
	}
}

// I9: a comment is read by more people than the inventory.
func TestI9APlanInMarkdownHasNoIdentityAndNoKernelArguments(t *testing.T) {
	t.Parallel()
	got := markdownOf(t, provisioner.Plan{Cluster: "x", Nodes: []provisioner.PlanNode{{
		Node: "node-01", Action: provisioner.ActionInstall, Reason: "r", Hint: "h", BMC: "https://canary-bmc", KernelArgs: "talos.config=https://canary-token@host",
		Facts: identity.Facts{Serial: "canary-serial", MACs: []string{"canary-mac"}},
	}}})
	if strings.Contains(got, "canary") {
		t.Errorf("the comment has what it must not have:\n%s", got)
	}
}

// What stands in an inventory, or was said by a BMC, makes no table, link, mention or HTML.
func TestWhatAPlanQuotesIsNoMarkdown(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a | b", "line\nbreak | x", "<script>x</script>", "@everybody", "[x](https://evil.example)", "![x](https://evil.example)", "`code`", "**bold**", "&lt;", "https://evil.example", "<!-- x"} {
		got := escapeMarkdown(text)
		for _, not := range []string{"\n", " | ", "<", "@", "](", "://"} {
			if strings.Contains(strings.ReplaceAll(strings.ReplaceAll(got, `\|`, ""), `\]`, ""), not) {
				t.Errorf("%q is written %q, with %q", text, got, not)
			}
		}
	}
}

// A comment has a limit; counts and what is urgent come first and are never cut off.
func TestAPlanInMarkdownFitsIntoAComment(t *testing.T) {
	t.Parallel()
	var nodes []provisioner.PlanNode
	for i := range 5000 {
		nodes = append(nodes, provisioner.PlanNode{Node: fmt.Sprintf("node-%04d", i), Action: provisioner.ActionInstall, Reason: strings.Repeat("é", 40)})
	}
	nodes = slices.Insert(nodes, 3000, provisioner.PlanNode{Node: "node-bad", Action: provisioner.ActionFail, Reason: "no BMC", Hint: "give it one"})
	got := markdownOf(t, provisioner.Plan{Cluster: "x", Nodes: nodes})
	if len(got) > 65_536 || !utf8.ValidString(got) {
		t.Errorf("%d bytes", len(got))
	}
	for _, want := range []string{"**1 that cannot be done**, **5000 to install**", "| node-bad | fail |", "**node-bad**: no BMC\n  → give it one", "more: `provision plan` shows them all"} {
		if !strings.Contains(got, want) {
			t.Errorf("the comment lacks %q: %s", want, got[:600])
		}
	}
}
