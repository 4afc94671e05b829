// Package render writes an inventory as the static files of a boot server that
// is not this program: a dnsmasq.conf and an iPXE script. It is pure: nodes in,
// text out, no I/O.
//
// A static script can compare, but it cannot judge as the identity package
// does: it has no BMC to ask and no state, so it boots an install: true node
// whenever that node asks. What it cannot tell apart it sends to its own disk.
package render

import (
	"fmt"
	"strings"
)

// Problem is a node that a static script cannot boot, and what to do about it.
type Problem struct {
	// Node is "cluster/name".
	Node string `json:"node"`
	// File is the node's own file in the inventory.
	File    string `json:"file,omitempty"`
	Message string `json:"message"`
}

// String gives the problem in one line.
func (p Problem) String() string {
	where := p.File
	if where == "" {
		where = p.Node
	}
	return fmt.Sprintf("%s: %s boots its own disk: %s", where, p.Node, p.Message)
}

// comment makes text safe for a comment: one line of printable ASCII.
func comment(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, s)
}
