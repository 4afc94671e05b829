package talos

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// scalar is one value of a machine config.
type scalar struct {
	text string
	// harmless: it stands where Talos has no secrets, and may be shown.
	harmless bool
}

// shown are the keys of a machine config whose values hold no secret in any
// version, and which an operator needs to see in an error. Any other value is hidden.
var shown = setOf(`apiVersion kind type version clusterName hostname endpoint dnsDomain
	image imageRepository disk device deviceSelector interface mtu address addresses network gateway
	subnet subnets podSubnets serviceSubnets nameservers servers certSANs provider size minSize maxSize
	model serial wwid busPath wipe enabled disabled dhcp mode permissions op path mountpoint filesystem
	port effect match grubUseUKICmdline`)

// private are the keys below which nothing is shown, whatever it is called.
var private = setOf(`auth registries env environment content contents files inlineManifests extraArgs
	annotations labels encryption systemDiskEncryption kms wireguard peers secrets secret token ca
	serviceAccount acceptedCAs aggregatorCA`)

func setOf(words string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

// scalarsOf are the values of a config. A config that is no YAML is read line by
// line, and then only what looks harmless is: where it stands is not known.
func scalarsOf(config []byte) []scalar {
	var list []scalar
	decoder := yaml.NewDecoder(bytes.NewReader(config))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			return append(list, scalarsOfLines(string(config))...)
		}
		collect(&document, place{}, &list)
	}
}

// place is where in a config a node stands.
type place struct {
	key     string
	private bool
}

// collect walks a document. An alias is met where its anchor is.
func collect(n *yaml.Node, at place, list *[]scalar) {
	if n.Anchor != "" {
		*list = append(*list, scalar{text: n.Anchor})
	}
	switch n.Kind {
	case yaml.ScalarNode:
		*list = append(*list, scalar{text: n.Value, harmless: shown[at.key] && !at.private})
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			collect(n.Content[i+1], place{key: key, private: at.private || private[key]}, list)
		}
	case yaml.DocumentNode, yaml.SequenceNode:
		for _, child := range n.Content {
			collect(child, at, list)
		}
	case yaml.AliasNode:
	}
	if comments := n.HeadComment + n.LineComment + n.FootComment; comments != "" {
		*list = append(*list, scalar{text: comments})
	}
}

// innocent is what a version, an IP address, a device or a small number looks like.
var innocent = regexp.MustCompile(`^(v?\d+\.\d+\.\d+|v1alpha\d|(\d+\.){3}\d+(/\d+)?|/dev/[a-z0-9/]+|\d{1,3}|true|false|controlplane|worker)$`)

// scalarsOfLines reads each line as "key: value", "- value" or a bare value.
func scalarsOfLines(config string) []scalar {
	var list []scalar
	for line := range strings.Lines(config) {
		line = strings.TrimLeft(strings.TrimSpace(line), "- ")
		value := line
		if _, after, ok := strings.Cut(line, ": "); ok {
			value = after
		}
		for _, form := range []string{line, value, strings.Trim(value, `"' `), strings.Trim(value, `*&!|>"'{}[] `)} {
			if form != "" {
				list = append(list, scalar{text: form, harmless: innocent.MatchString(form)})
			}
		}
		for word := range strings.FieldsSeq(value) {
			word = strings.Trim(word, `"'{}[],;`)
			if len(word) > 7 {
				list = append(list, scalar{text: word, harmless: innocent.MatchString(word)})
			}
		}
	}
	return list
}
