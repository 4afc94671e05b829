package machineconfig

import (
	"bytes"
	"errors"
	"fmt"

	"gopkg.in/yaml.v3"
)

// MergeKubeconfig adds the entries of a kubeconfig to another one: those of the
// same names are replaced, everything else stays. The current context becomes
// that of the added one. Errors repeat nothing of either (I9).
func MergeKubeconfig(existing, added []byte) ([]byte, error) {
	if len(bytes.TrimSpace(existing)) == 0 {
		return added, nil
	}
	base, err := parse(existing)
	if err != nil || base == nil {
		return nil, errors.New("it is no kubeconfig: write to another file")
	}
	fresh, err := parse(added)
	if err != nil || fresh == nil {
		return nil, errors.New("what the node gave is no kubeconfig: look at the node's version")
	}
	for _, list := range []string{"clusters", "users", "contexts"} {
		from, into := find(fresh, list), find(base, list)
		switch {
		case from == nil || from.Kind != yaml.SequenceNode:
			return nil, fmt.Errorf("what the node gave has no %s: look at the node's version", list)
		case into == nil || into.Kind != yaml.SequenceNode:
			set(base, list, from)
		default:
			mergeNamed(into, from)
		}
	}
	if current := find(fresh, "current-context"); current != nil {
		set(base, "current-context", current)
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	const indent = 2
	encoder.SetIndent(indent)
	if err := encoder.Encode(base); err != nil {
		return nil, errors.New("it cannot be written as YAML: write to another file")
	}
	return out.Bytes(), nil
}

// mergeNamed puts the items of a list into another one, by their names.
func mergeNamed(into, from *yaml.Node) {
	for _, item := range from.Content {
		replaced := false
		for i, old := range into.Content {
			if scalar(old, "name") == scalar(item, "name") {
				into.Content[i], replaced = item, true
			}
		}
		if !replaced {
			into.Content = append(into.Content, item)
		}
	}
}

// set gives a key of a mapping a value.
func set(mapping *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content[i+1] = value
			return
		}
	}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
}
