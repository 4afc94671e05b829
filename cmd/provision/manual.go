package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// page is what a manual page tells of a command, however it is written.
type page struct {
	name     string // "provision inventory show"
	short    string
	synopsis string
	blocks   []block // the description
	exit     []exitCase
	flags    []*pflag.Flag // of the command and those below it
	global   []*pflag.Flag // of the commands above it
	commands []*cobra.Command
	examples []string
	parent   *cobra.Command
}

// block is a paragraph, or lines that are shown as they are.
type block struct {
	text     string
	verbatim bool
}

// exitCase is an exit status and what it means.
type exitCase struct{ status, meaning string }

// where is something that the program reads, and what for.
type where struct{ name, meaning string }

// environment are the variables that loadConfig and openState read.
var environment = []where{
	{"PROVISION_CONFIG", "the configuration file, as --config"},
	{"PROVISION_INVENTORY", "folder of the inventory, as --inventory"},
	{"PROVISION_STATE", "the state, as --state"},
	{"PROVISION_SERVER", "URL of a daemon, as --server"},
	{"PROVISION_TOKEN_FILE", "file of the token for it, as --token-file"},
	{"PROVISION_ADMIN_LISTEN", "where `provision serve` answers, as admin.listen"},
	{"PROVISION_IPXE_DIR", "folder of the iPXE binaries"},
	{"PROVISION_FACTORY", "URL of the Image Factory"},
	{"PROVISION_CACHE", "folder of the fetched boot files"},
	{"PROVISION_ETCD_USERNAME", "user of an etcd that holds the state"},
	{"PROVISION_ETCD_PASSWORD", "password of that user"},
}

// files are what the program reads and writes unless it is told otherwise.
var files = []where{
	{"./provision.yaml", "the configuration, where it is there"},
	{"./nodes/", "the inventory"},
	{"/var/lib/provision/", "the state: how far each node is, events, DHCP leases, the socket of a daemon"},
	{"/var/cache/provision/", "boot files of the Image Factory"},
	{"/usr/lib/ipxe/", "iPXE binaries that are served by TFTP"},
}

// pageOf collects what the manual tells of a command.
func pageOf(c *cobra.Command) page {
	c.InitDefaultHelpFlag()
	p := page{name: c.CommandPath(), short: c.Short, synopsis: c.UseLine(), parent: c.Parent()}
	description, exit, _ := strings.Cut(c.Long, exitHeading)
	p.blocks = blocksOf(description)
	if len(p.blocks) > 0 && p.blocks[0].text == c.Short+"." {
		p.blocks = p.blocks[1:] // told already
	}
	p.exit = exitCases(exit)
	p.flags = visible(c.LocalFlags())
	p.global = visible(c.InheritedFlags())
	for _, child := range c.Commands() {
		if isDocumented(child) {
			p.commands = append(p.commands, child)
		}
	}
	for line := range strings.Lines(c.Example) {
		p.examples = append(p.examples, strings.TrimSpace(line))
	}
	return p
}

func visible(set *pflag.FlagSet) []*pflag.Flag {
	var flags []*pflag.Flag
	set.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags = append(flags, f)
		}
	})
	return flags
}

// blocksOf splits a long text at its empty lines. Indented lines are verbatim.
func blocksOf(text string) []block {
	var blocks []block
	for part := range strings.SplitSeq(text, "\n\n") {
		part = strings.Trim(part, "\n")
		if strings.TrimSpace(part) == "" {
			continue
		}
		if verbatim := strings.HasPrefix(part, "  ") || strings.HasPrefix(part, "\t"); verbatim {
			lines := strings.Split(part, "\n")
			for i, line := range lines {
				lines[i] = strings.TrimSpace(line)
			}
			blocks = append(blocks, block{strings.Join(lines, "\n"), true})
			continue
		}
		part = strings.TrimSpace(strings.TrimLeft(part, "#"))
		blocks = append(blocks, block{strings.Join(strings.Fields(part), " "), false})
	}
	return blocks
}

// exitPattern begins a case: "0 done" or "130 interrupted".
var exitPattern = regexp.MustCompile(`^(\d+)\s*(.*)$`)

// exitCases reads "0 done; 1 some node failed."; what follows a case without a number
// of its own belongs to it.
func exitCases(text string) []exitCase {
	var cases []exitCase
	for part := range strings.SplitSeq(strings.TrimSuffix(strings.Join(strings.Fields(text), " "), "."), "; ") {
		if m := exitPattern.FindStringSubmatch(part); m != nil {
			meaning := m[2]
			if meaning == "" {
				meaning = "done"
			}
			cases = append(cases, exitCase{m[1], meaning})
		} else if len(cases) > 0 {
			cases[len(cases)-1].meaning += "; " + part
		}
	}
	return cases
}

// flagForm is how a flag is written: "-o, --output string", and its text without the
// quotes that name the value.
func flagForm(f *pflag.Flag) (form, usage string) {
	kind, usage := pflag.UnquoteUsage(f)
	form = "--" + f.Name
	if f.Shorthand != "" {
		form = "-" + f.Shorthand + ", " + form
	}
	if kind != "" {
		form += " " + kind
	}
	return form, usage
}

// defaultOf is a default that is worth telling, or "".
func defaultOf(f *pflag.Flag) string {
	if slices.Contains([]string{"", "false", "0", "0s", "[]"}, f.DefValue) {
		return ""
	}
	return f.DefValue
}

// related are the commands above and below one.
func (p page) related() []string {
	var names []string
	if p.parent != nil {
		names = append(names, p.parent.CommandPath())
	}
	for _, c := range p.commands {
		names = append(names, c.CommandPath())
	}
	return names
}

// fileName is a command's name in a file's: "provision-inventory-show".
func fileName(command string) string { return strings.ReplaceAll(command, " ", "-") }

// documented are the commands that a manual has pages of.
func documented(root *cobra.Command) []*cobra.Command {
	var commands []*cobra.Command
	eachCommand(root, func(c *cobra.Command) {
		if c == root || isDocumented(c) {
			commands = append(commands, c)
		}
	})
	return commands
}

// isDocumented leaves out what is hidden, and cobra's own help.
func isDocumented(c *cobra.Command) bool { return c.IsAvailableCommand() && c.Name() != "help" }
