package inventory

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// maxHosts bounds what one hostlist may expand to.
const maxHosts = 10_000

// ParseHostlist expands a list like "node-[01-06,09],db-*" into names:
// commas separate, brackets hold numbers and ranges of numbers and may occur
// several times, leading zeros are kept. "*" and "?" stay in the names, for
// Select to match. The order is kept and each name is given once.
func ParseHostlist(hosts string) ([]string, error) {
	items, err := splitOutside(hosts)
	if err != nil {
		return nil, err
	}
	var names []string
	seen := make(map[string]bool)
	for _, item := range items {
		expanded, err := expand(item)
		if err != nil {
			return nil, fmt.Errorf("host list %q: %w", clip(hosts), err)
		}
		if len(names)+len(expanded) > maxHosts {
			return nil, fmt.Errorf("host list %q gives more than %d names: use * or --cluster", clip(hosts), maxHosts)
		}
		for _, name := range expanded {
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("host list %q has no name: write it like node-[01-06,09]", clip(hosts))
	}
	return names, nil
}

// splitOutside splits at commas and white space that are not in brackets.
func splitOutside(hosts string) ([]string, error) {
	var items []string
	depth, start := 0, 0
	for i, r := range hosts {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case depth == 0 && (r == ',' || unicode.IsSpace(r)):
			items = append(items, hosts[start:i])
			start = i + len(string(r))
		}
		if depth < 0 || depth > 1 {
			return nil, fmt.Errorf("host list %q: the brackets do not match: write it like node-[01-06,09]", clip(hosts))
		}
	}
	if depth != 0 {
		return nil, fmt.Errorf("host list %q: a bracket is not closed: write it like node-[01-06,09]", clip(hosts))
	}
	items = append(items, hosts[start:])
	return slices.DeleteFunc(items, func(item string) bool { return item == "" }), nil
}

// expand gives the names of one item, brackets from left to right.
func expand(item string) ([]string, error) {
	names := []string{""}
	for rest := item; rest != ""; {
		text, inside, found := strings.Cut(rest, "[")
		if i := strings.IndexFunc(text, isNotName); i >= 0 {
			return nil, fmt.Errorf("%q cannot be in a node's name: write names like node-01, or a pattern like node-0*", text[i:i+1])
		}
		if names = suffixed(names, []string{text}); !found {
			break
		}
		var numbers string
		numbers, rest, _ = strings.Cut(inside, "]")
		alternatives, err := ranges(numbers)
		if err != nil {
			return nil, err
		}
		if len(names)*len(alternatives) > maxHosts {
			return nil, fmt.Errorf("%q gives more than %d names: use * or --cluster", clip(item), maxHosts)
		}
		names = suffixed(names, alternatives)
	}
	return names, nil
}

func suffixed(names, alternatives []string) []string {
	all := make([]string, 0, len(names)*len(alternatives))
	for _, name := range names {
		for _, a := range alternatives {
			all = append(all, name+a)
		}
	}
	return all
}

func isNotName(r rune) bool {
	isName := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./*?", r)
	return !isName
}

// ranges reads what is in brackets: "01-06,09".
func ranges(list string) ([]string, error) {
	var numbers []string
	for item := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(strings.TrimSpace(item), "-")
		if !isRange {
			high = low
		}
		first, err1 := number(low)
		last, err2 := number(high)
		switch {
		case err1 != nil || err2 != nil:
			return nil, fmt.Errorf("%q is not a number or a range like 01-06", clip(item))
		case last < first:
			return nil, fmt.Errorf("%q runs backwards: write %s-%s", item, high, low)
		case last-first+len(numbers) >= maxHosts:
			return nil, fmt.Errorf("%q gives more than %d names: use * or --cluster", item, maxHosts)
		}
		for n := first; n <= last; n++ {
			numbers = append(numbers, fmt.Sprintf("%0*d", len(low), n))
		}
	}
	return numbers, nil
}

// number reads digits only: no sign, and few enough to fit.
func number(digits string) (int, error) {
	const most = 9
	if len(digits) > most || strings.ContainsFunc(digits, func(r rune) bool { return r < '0' || r > '9' }) {
		return 0, fmt.Errorf("%q is not a number of at most %d digits", clip(digits), most)
	}
	return strconv.Atoi(digits)
}
