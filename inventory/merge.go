package inventory

import (
	"maps"
	"path"
	"strings"
)

// values is the result of merging layers: the leaf in effect for each field
// and label.
type values struct {
	slots   []*leaf          // by slot, nil where unset
	labels  map[string]*leaf // by the label's own key
	damaged bool
}

// over lays a file over the values of the folders above it: maps merge, lists
// and scalars replace, null unsets. The values below are not changed.
func (l *layer) over(below *values) *values {
	merged := &values{slots: make([]*leaf, len(fields)), damaged: l.damaged}
	if below != nil {
		copy(merged.slots, below.slots)
		merged.labels = below.labels
		merged.damaged = merged.damaged || below.damaged
	}
	copied := false
	for i := range l.leaves {
		leaf := &l.leaves[i]
		switch {
		case fields[leaf.slot].kind == free:
			if !copied {
				merged.labels, copied = maps.Clone(merged.labels), true
			}
			merged.setLabel(leaf)
		case leaf.null:
			merged.unset(leaf.path)
		default:
			merged.slots[leaf.slot] = leaf
		}
	}
	return merged
}

func (v *values) setLabel(l *leaf) {
	key, single := strings.CutPrefix(l.path, labelsPath+".")
	switch {
	case !single:
		v.labels = nil // "labels: null"
	case l.null:
		delete(v.labels, key)
	default:
		if v.labels == nil {
			v.labels = make(map[string]*leaf)
		}
		v.labels[key] = l
	}
}

// unset clears a field and, for a section, everything in it.
func (v *values) unset(path string) {
	for slot := range v.slots {
		if fields[slot].path == path || strings.HasPrefix(fields[slot].path, path+".") {
			v.slots[slot] = nil
		}
	}
}

// leaf finds the value in effect for a field's path.
func (v *values) leaf(path string) *leaf {
	if v == nil {
		return nil
	}
	if key, isLabel := strings.CutPrefix(path, labelsPath+"."); isLabel {
		return v.labels[key]
	}
	slot, known := slotOf[path]
	if !known {
		return nil
	}
	return v.slots[slot]
}

// node makes the node of a file from its effective values.
func (v *values) node(file string) Node {
	n := Node{Name: stem(file), Cluster: folder(file), File: file, Arch: "amd64", values: v}
	for slot, leaf := range v.slots {
		if leaf != nil && fields[slot].set != nil {
			fields[slot].set(&n, leaf.value)
		}
	}
	if len(v.labels) > 0 {
		n.Labels = make(map[string]string, len(v.labels))
		for key, leaf := range v.labels {
			n.Labels[key] = leaf.value.text
		}
	}
	return n
}

// stem is a file's name without its extension.
func stem(file string) string {
	base := path.Base(file)
	return strings.TrimSuffix(base, path.Ext(base))
}

// folder is the first folder of a path, "" for a file at the root.
func folder(file string) string {
	first, _, inside := strings.Cut(file, "/")
	if !inside {
		return ""
	}
	return first
}
