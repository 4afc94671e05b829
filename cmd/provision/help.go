package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// help is what a command's help says beside its own words.
type help struct {
	// long stands for the long text of a command that has none.
	long string
	// exit is the exit statuses of a command whose long text does not tell them.
	exit string
	// example has command lines, the first of them the plainest.
	example string
}

// What many commands exit with.
const (
	exitOfReading = "0 done; 2 usage, configuration or inventory error."
	exitOfState   = "0 done; 1 the state or the daemon is not to be had; 2 usage, configuration or inventory error."
	exitOfBMC     = "0 done; 1 some BMC failed; 2 usage, configuration or inventory error; 130 interrupted."
	exitOfDriving = "0 done; 1 some BMC failed; 2 usage, configuration or inventory error; 3 refused: not confirmed, or the BMC is another node's; 130 interrupted."
)

// describe gives the commands below root the help that stands in helps.
func describe(root *cobra.Command) {
	eachCommand(root, func(c *cobra.Command) {
		h := helps[pathBelow(c)]
		if c.Long == "" && h.long != "" {
			c.Long = h.long
		}
		if h.exit != "" && !strings.Contains(c.Long, exitHeading) {
			if c.Long == "" {
				c.Long = c.Short + "."
			}
			c.Long += "\n\n" + wrap(exitHeading+" "+h.exit, helpWidth)
		}
		if c.Example == "" {
			c.Example = indent(h.example, "  ")
		}
	})
}

// exitHeading begins the paragraph of a long text that tells the exit statuses.
const exitHeading = "Exit status:"

// helpWidth is how wide the long texts are.
const helpWidth = 84

// wrap breaks a paragraph into lines.
func wrap(text string, width int) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return strings.Join(append(lines, line), "\n")
}

func indent(text, by string) string {
	if text == "" {
		return ""
	}
	lines := strings.Split(text, "\n")
	return by + strings.Join(lines, "\n"+by)
}
