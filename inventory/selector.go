package inventory

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Selector is a set of conditions on labels, all of which must hold.
type Selector []condition

// condition is one of a selector's.
type condition struct {
	key string
	// values are those of which the label must have one; nil asks only whether
	// the label is there.
	values []string
	// negated turns the condition round. A node without the label fulfils it, as
	// in Kubernetes.
	negated bool
}

// selectorPattern splits a condition into "!", key, operator and values.
var selectorPattern = regexp.MustCompile(`^(!)?\s*([^\s=!(),]+)\s*(?:(==|=|!=)\s*([^\s=!(),]*)|\s(in|notin)\s*\(([^()]*)\))?$`)

const selectorForm = "write it like role=worker,zone!=b,rack in (r1,r2),!spare"

// ParseSelector reads a label selector as kubectl writes it: conditions
// separated by commas, each "key=value", "key==value", "key!=value", "key",
// "!key", "key in (a,b)" or "key notin (a,b)".
func ParseSelector(text string) (Selector, error) {
	parts, err := splitConditions(text)
	if err != nil {
		return nil, err
	}
	var selector Selector
	for _, part := range parts {
		c, err := parseCondition(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("selector %q: %w", clip(text), err)
		}
		selector = append(selector, c)
	}
	return selector, nil
}

// splitConditions splits at the commas that are not in parentheses.
func splitConditions(text string) ([]string, error) {
	var parts []string
	depth, start := 0, 0
	for i, r := range text {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth == 0:
			parts = append(parts, text[start:i])
			start = i + 1
		}
		if depth < 0 || depth > 1 {
			return nil, fmt.Errorf("selector %q: the parentheses do not match: %s", clip(text), selectorForm)
		}
	}
	if depth != 0 {
		return nil, fmt.Errorf("selector %q: a parenthesis is not closed: %s", clip(text), selectorForm)
	}
	return append(parts, text[start:]), nil
}

func parseCondition(text string) (condition, error) {
	m := selectorPattern.FindStringSubmatch(text)
	if m == nil {
		return condition{}, fmt.Errorf("%q is not a condition: %s", clip(text), selectorForm)
	}
	bang, key, operator, value, set, list := m[1], m[2], m[3], m[4], m[5], m[6]
	c := condition{key: key, negated: bang != ""}
	switch {
	case bang != "" && operator+set != "":
		return condition{}, fmt.Errorf("%q is not a condition: write %s!=%s or !%s", clip(text), key, value, key)
	case operator != "":
		c.values, c.negated = []string{value}, operator == "!="
	case set != "":
		for item := range strings.SplitSeq(list, ",") {
			c.values = append(c.values, strings.TrimSpace(item))
		}
		c.negated = set == "notin"
	}
	return c, nil
}

// Matches tells whether the labels fulfil every condition.
func (s Selector) Matches(labels map[string]string) bool {
	return !slices.ContainsFunc(s, func(c condition) bool { return !c.holds(labels) })
}

func (c condition) holds(labels map[string]string) bool {
	value, has := labels[c.key]
	if c.values != nil {
		has = has && slices.Contains(c.values, value)
	}
	return has != c.negated
}

// unknownKey is a key that no node has as a label, or "".
func (s Selector) unknownKey(nodes []Node) string {
	for _, c := range s {
		if !slices.ContainsFunc(nodes, func(n Node) bool { _, has := n.Labels[c.key]; return has }) {
			return c.key
		}
	}
	return ""
}

// labelKeys are the keys of all labels, sorted.
func labelKeys(nodes []Node) []string {
	seen := make(map[string]bool)
	var keys []string
	for _, n := range nodes {
		for key := range n.Labels {
			if !seen[key] {
				seen[key] = true
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return keys
}
