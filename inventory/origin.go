package inventory

import "fmt"

// Origin is the place a value came from.
type Origin struct {
	File   string `json:"file"`             // relative to the root of the inventory
	Line   int    `json:"line,omitempty"`   // from 1; 0 means that the file's name or folder gave the value
	Column int    `json:"column,omitempty"` // from 1
}

// String is "file:line", the file alone, or "default" for a value that no file
// gave.
func (o Origin) String() string {
	switch {
	case o.File == "":
		return "default"
	case o.Line == 0:
		return o.File
	}
	return fmt.Sprintf("%s:%d", o.File, o.Line)
}

// Origin is where the effective value of a field came from. Fields are named
// as in the files, those of bmc and labels with a dot: "bmc.address". It is
// zero for a field that no file sets.
func (n Node) Origin(field string) Origin {
	if l := n.values.leaf(field); l != nil {
		return l.origin
	}
	if field == "macs" {
		return n.Origin("mac") // which is one of them
	}
	if field == "schematicID" {
		return n.Origin(schematicPath) // which it is computed from
	}
	if field == "name" || field == "cluster" && n.Cluster != "" {
		return Origin{File: n.File}
	}
	return Origin{}
}

// Origins gives the origin of each value that a file set, named as in the JSON
// form of the node.
func (n Node) Origins() map[string]Origin {
	origins := map[string]Origin{"name": n.Origin("name"), "cluster": n.Origin("cluster")}
	if n.values == nil {
		return origins
	}
	for _, l := range n.values.slots {
		switch {
		case l == nil:
		case l.path == "mac":
			origins["macs"] = n.Origin("macs")
		case l.path == schematicPath:
			origins[l.path], origins["schematicID"] = l.origin, n.Origin("schematicID")
		default:
			origins[l.path] = l.origin
		}
	}
	for _, l := range n.values.labels {
		origins[l.path] = l.origin
	}
	return origins
}
