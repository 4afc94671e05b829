package discovery

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/talos-provision/provision/inventory"
)

// names gives new nodes their hostnames.
type names struct {
	format string
	taken  map[string]bool
	last   int
}

var (
	nameFormat = regexp.MustCompile(`^([^%]*)%(0[1-9])?d([^%]*)$`)
	label      = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

// newNames continues behind the highest number that a node of the cluster has.
func newNames(format, cluster string, nodes []inventory.Node) (*names, error) {
	parts := nameFormat.FindStringSubmatch(format)
	if parts == nil || !label.MatchString(fmt.Sprintf(format, 1)) {
		return nil, fmt.Errorf("name format %q does not make hostnames: write it like node-%%02d, in lower case", format)
	}
	n := &names{format: format, taken: map[string]bool{}}
	for _, node := range nodes {
		if node.Cluster != cluster {
			continue
		}
		n.taken[node.Name] = true
		digits, fits := strings.CutPrefix(node.Name, parts[1])
		digits, ends := strings.CutSuffix(digits, parts[3])
		const highest = 1 << 20 // a number beyond it is no number of a node
		if number, err := strconv.Atoi(digits); fits && ends && err == nil && number <= highest {
			n.last = max(n.last, number)
		}
	}
	return n, nil
}

func (n *names) next() string {
	for {
		n.last++
		if name := fmt.Sprintf(n.format, n.last); !n.taken[name] {
			return name
		}
	}
}
