package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/provisioner/upgrade"
)

// Every reason that a plan can have is explained, and no other.
func TestEveryReasonOfAnUpgradeIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## What an upgrade says")
	section, _, _ = strings.Cut(section, "A node that fails stops the run")
	rows := regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (?:the run|the node|nothing) \\| [^|\n]{10,} \\| [^|\n]{3,} \\|$").FindAllStringSubmatch(section, -1)
	documented := make([]string, 0, len(rows))
	for _, row := range rows {
		documented = append(documented, row[1])
	}
	codes := append(upgrade.Codes(), codeWrongMachine)
	known := make([]string, 0, len(codes))
	for _, code := range codes {
		known = append(known, string(code))
	}
	slices.Sort(known)
	slices.Sort(documented)
	if diff := cmp.Diff(known, documented); diff != "" {
		t.Errorf("docs/troubleshooting.md (-codes +docs):\n%s", diff)
	}
}
