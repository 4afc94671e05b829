package provisioner

import (
	"fmt"
	"strconv"
	"strings"
)

// Limit is a number of nodes, or a share of them. The zero Limit is never reached.
type Limit struct {
	count   int
	percent bool
}

// ParseLimit reads "3" or "10%"; "" is no limit. A count is 1 or more, a share 1% to 100%.
func ParseLimit(text string) (Limit, error) {
	if text == "" {
		return Limit{}, nil
	}
	digits, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(digits)
	switch {
	case err != nil:
		return Limit{}, fmt.Errorf("%q is no number of nodes: write 3 or 10%%", text)
	case n < 1 || percent && n > 100:
		return Limit{}, fmt.Errorf("%q is out of range: 1 or more nodes, 1%% to 100%%", text)
	}
	return Limit{n, percent}, nil
}

// Reached says whether so many of all nodes are the limit or more.
func (l Limit) Reached(nodes, all int) bool {
	switch {
	case l.count == 0 || nodes == 0:
		return false
	case l.percent:
		return nodes*100 >= l.count*all
	}
	return nodes >= l.count
}

// String is the limit as it is written; "" for none.
func (l Limit) String() string {
	switch {
	case l.count == 0:
		return ""
	case l.percent:
		return strconv.Itoa(l.count) + "%"
	}
	return strconv.Itoa(l.count)
}
