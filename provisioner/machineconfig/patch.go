package machineconfig

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/config/configpatcher"
	"gopkg.in/yaml.v3"

	"github.com/talos-provision/provision/inventory"
)

// patch is one patch of a node: a strategic one or one of JSON 6902, as talosctl
// takes them.
type patch struct {
	file  string
	patch configpatcher.Patch
}

// patches reads the patches of a node in their order.
func (s Source) patches(n inventory.Node) ([]patch, error) {
	patches := make([]patch, 0, len(n.ConfigPatches))
	for _, written := range n.ConfigPatches {
		file, err := s.path(n, "configPatches", written)
		if err != nil {
			return nil, err
		}
		data, err := s.content(n, "configPatches", file)
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(data)) == 0 {
			return nil, problem(n, "configPatches", inventory.RuleConfigPatch, "write the patch, or remove its path", "%s is empty", file)
		}
		loaded, err := configpatcher.LoadPatch(data)
		if err != nil {
			return nil, problem(n, "configPatches", inventory.RuleConfigPatch, patchHint(err), "%s is no patch of a machine config: %w", file, redacted(err))
		}
		patches = append(patches, patch{file, loaded})
	}
	return patches, nil
}

// patch applies patches to the documents that this program knows. Documents of
// other kinds, of a newer Talos, stay as they are.
func (c Config) patch(n inventory.Node, patches []patch) (Config, error) {
	documents, err := documentsOf(c.Data())
	if err != nil {
		return Config{}, err
	}
	var known, foreign []document
	for _, d := range documents {
		if isKnown(d) {
			known = append(known, d)
		} else {
			foreign = append(foreign, d)
		}
	}
	data := join(known)
	for _, p := range patches {
		output, err := configpatcher.Apply(configpatcher.WithBytes(data), []configpatcher.Patch{p.patch})
		if err == nil {
			data, err = output.Bytes()
		}
		if err != nil {
			return Config{}, problem(n, "configPatches", inventory.RuleConfigPatch, patchHint(err), "%s cannot be applied to the machine config: %w", p.file, redacted(err))
		}
	}
	if len(foreign) > 0 {
		data = slices.Concat(bytes.TrimRight(data, "\n"), []byte("\n---\n"), join(foreign))
	}
	return Parse(data)
}

func join(documents []document) []byte {
	parts := make([][]byte, 0, len(documents))
	for _, d := range documents {
		parts = append(parts, append(bytes.TrimRight(bytes.Clone(d.content), "\n"), '\n'))
	}
	return bytes.Join(parts, []byte("---\n"))
}

// isKnown asks the library whether it has the kind: nothing else tells.
func isKnown(d document) bool {
	_, err := configpatcher.WithBytes(d.content).Config()
	return err == nil || !isUnknownKind(err)
}

func isUnknownKind(err error) bool { return strings.Contains(err.Error(), "not registered") }

func patchHint(err error) string {
	if isUnknownKind(err) {
		return "this program knows the kinds up to Talos 1.13: put the document into the file of machineConfig, where it is passed on unchanged"
	}
	return "try it with talosctl machineconfig patch"
}

// redacted is an error of the library without the values that it repeats: an
// unknown key is told with everything below it.
func redacted(err error) error {
	message := err.Error()
	if _, listing, unknownKeys := strings.Cut(message, "unknown keys found during decoding:\n"); unknownKeys {
		return fmt.Errorf("unknown keys: %s", strings.Join(keyPaths(listing), ", "))
	}
	if m := wrongType.FindStringSubmatch(message); m != nil {
		return fmt.Errorf("the value in line %s has the wrong type", m[1])
	}
	return errors.New(withoutValues(message))
}

var wrongType = regexp.MustCompile(`line (\d+): cannot (?:unmarshal|construct)`)

// keyPaths are the dotted paths of the keys in a YAML text, without values.
func keyPaths(listing string) []string {
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(listing), &root); err != nil || len(root.Content) == 0 {
		return []string{"…"}
	}
	var paths []string
	var walk func(node *yaml.Node, path string)
	walk = func(node *yaml.Node, path string) {
		switch {
		case node.Kind == yaml.MappingNode && len(node.Content) > 0:
			for i := 0; i+1 < len(node.Content); i += 2 {
				walk(node.Content[i+1], strings.TrimPrefix(path+"."+node.Content[i].Value, "."))
			}
		case node.Kind == yaml.SequenceNode && len(node.Content) > 0:
			for _, item := range node.Content {
				walk(item, path+"[]")
			}
		default:
			paths = append(paths, path)
		}
	}
	walk(root.Content[0], "")
	return paths
}
