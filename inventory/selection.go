package inventory

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Selection says which nodes are meant. Its conditions add up; an empty one
// selects all.
type Selection struct {
	Cluster string
	// Nodes are host lists, see ParseHostlist. A name may be "cluster/name".
	Nodes []string
	// Selector is an expression over labels, see ParseSelector; "" accepts all.
	Selector string
	// Exclude are host lists of nodes that are not meant after all.
	Exclude []string
}

// Select gives the selected nodes in the tree's order. A cluster, name, label or
// exclusion that fits nothing is an error: it is mistyped, and a run without it
// would look like a success, or touch what was to be left alone.
func (t *Tree) Select(sel Selection) ([]Node, error) {
	nodes, err := t.inCluster(sel.Cluster)
	if err != nil {
		return nil, err
	}
	chosen, err := chosenBy(sel.Nodes, nodes, len(sel.Nodes) == 0)
	if err != nil {
		return nil, err
	}
	excluded, err := t.excluded(sel.Exclude)
	if err != nil {
		return nil, err
	}
	selector, err := t.selector(sel.Selector)
	if err != nil {
		return nil, err
	}
	named, labelled, selected := false, false, []Node{}
	for i, n := range nodes {
		if !chosen[i] {
			continue
		}
		named = true
		if !selector.Matches(n.Labels) {
			continue
		}
		labelled = true
		if !excluded[n.File] {
			selected = append(selected, n)
		}
	}
	switch {
	case named && !labelled:
		return nil, fmt.Errorf("no node of the selection has labels that fit %s: `provision inventory list -o json` shows the labels", sel.Selector)
	case labelled && len(selected) == 0:
		return nil, fmt.Errorf("every selected node is excluded: correct the exclusion %s", strings.Join(sel.Exclude, ","))
	}
	return selected, nil
}

// inCluster are the nodes of a cluster, or all of them.
func (t *Tree) inCluster(cluster string) ([]Node, error) {
	if cluster == "" {
		return t.Nodes, nil
	}
	nodes := slices.DeleteFunc(slices.Clone(t.Nodes), func(n Node) bool { return n.Cluster != cluster })
	if len(nodes) == 0 {
		return nil, fmt.Errorf("no node is in cluster %s: %s", cluster, meant(cluster, "clusters", t.Clusters()))
	}
	return nodes, nil
}

// excluded are the files of the nodes that exclusions name. They are looked for
// in the whole tree: one that names a node of another cluster excludes nothing
// and is fine.
func (t *Tree) excluded(lists []string) (map[string]bool, error) {
	marks, err := chosenBy(lists, t.Nodes, false)
	if err != nil {
		return nil, fmt.Errorf("exclude: %w", err)
	}
	files := make(map[string]bool)
	for i, n := range t.Nodes {
		if marks[i] {
			files[n.File] = true
		}
	}
	return files, nil
}

// selector reads an expression and refuses one that asks for a label that no
// node has.
func (t *Tree) selector(text string) (Selector, error) {
	if text == "" {
		return nil, nil
	}
	selector, err := ParseSelector(text)
	if err != nil {
		return nil, err
	}
	if key := selector.unknownKey(t.Nodes); key != "" {
		return nil, fmt.Errorf("selector %q: no node has a label %s: %s", clip(text), key, meant(key, "labels", labelKeys(t.Nodes)))
	}
	return selector, nil
}

// chosenBy marks the nodes that host lists name; initial is the mark of the others.
func chosenBy(lists []string, nodes []Node, initial bool) ([]bool, error) {
	chosen := slices.Repeat([]bool{initial}, len(nodes))
	for _, hosts := range lists {
		patterns, err := ParseHostlist(hosts)
		if err != nil {
			return nil, err
		}
		if err := choose(nodes, patterns, chosen); err != nil {
			return nil, err
		}
	}
	return chosen, nil
}

// choose marks the nodes of each pattern.
func choose(nodes []Node, patterns []string, chosen []bool) error {
	byName := make(map[string][]int, len(nodes))
	for i, n := range nodes {
		byName[n.Name] = append(byName[n.Name], i)
		byName[n.ID()] = append(byName[n.ID()], i)
	}
	for _, pattern := range patterns {
		found := byName[pattern]
		if strings.ContainsAny(pattern, "*?") {
			found = glob(nodes, pattern)
		}
		if len(found) == 0 {
			return fmt.Errorf("no node is called %s: %s", pattern, meant(pattern, "nodes", names(nodes)))
		}
		for _, i := range found {
			chosen[i] = true
		}
	}
	return nil
}

func glob(nodes []Node, pattern string) []int {
	var found []int
	for i, n := range nodes {
		name := n.Name
		if strings.Contains(pattern, "/") {
			name = n.ID()
		}
		// A pattern has only * and ?, see isNotName, so it cannot be malformed.
		if ok, _ := path.Match(pattern, name); ok {
			found = append(found, i)
		}
	}
	return found
}

// Node finds one node by "name" or "cluster/name".
func (t *Tree) Node(name string) (Node, error) {
	var found []Node
	for _, n := range t.Nodes {
		if n.Name == name || n.ID() == name {
			found = append(found, n)
		}
	}
	switch len(found) {
	case 0:
		return Node{}, fmt.Errorf("no node is called %s: %s", name, meant(name, "nodes", names(t.Nodes)))
	case 1:
		return found[0], nil
	}
	ids := make([]string, 0, len(found))
	for _, n := range found {
		ids = append(ids, n.ID())
	}
	if ids = slices.Compact(ids); len(ids) == 1 {
		return Node{}, fmt.Errorf("%s is given by %s and %s: rename one", name, found[0].File, found[1].File)
	}
	return Node{}, fmt.Errorf("%s is a node of several clusters: say which with %s", name, strings.Join(ids, " or "))
}

// Clusters are the names of all clusters, sorted.
func (t *Tree) Clusters() []string {
	var clusters []string
	for _, n := range t.Nodes {
		if n.Cluster != "" {
			clusters = append(clusters, n.Cluster)
		}
	}
	slices.Sort(clusters)
	return slices.Compact(clusters)
}

func names(nodes []Node) []string {
	all := make([]string, 0, len(nodes))
	for _, n := range nodes {
		all = append(all, n.Name)
	}
	return all
}

// meant helps with a name that does not exist.
func meant(word, kind string, known []string) string {
	if len(known) == 0 {
		return "the inventory has no " + kind
	}
	if near := Nearest(word, known); near != "" {
		return "did you mean " + near + "?"
	}
	const shown = 8
	if len(known) > shown {
		return fmt.Sprintf("the %s are %s and %d more", kind, strings.Join(known[:shown], ", "), len(known)-shown)
	}
	return "the " + kind + " are " + strings.Join(known, ", ")
}
