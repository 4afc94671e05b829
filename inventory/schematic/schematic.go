// Package schematic computes the id of an Image Factory schematic without asking
// the factory: the SHA-256 of its text in one canonical form.
package schematic

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxText bounds what is parsed, in bytes. An embedded machine configuration of
// 200 kB is large.
const maxText = 1 << 20

// Schematic is what an image is made of beside its Talos version. The order of
// the fields and their tags are the canonical form (image-factory
// pkg/schematic/schematic.go): to change one changes every id.
type Schematic struct {
	// Owner is set by factories with accounts.
	Owner string `yaml:"owner,omitempty"`
	// Overlay is the board support of single-board computers.
	Overlay Overlay `yaml:"overlay,omitempty"`
	// Customization is written even when it is empty.
	Customization Customization `yaml:"customization"`
}

// Overlay names the image and the kind of board.
type Overlay struct {
	Image   string         `yaml:"image"`
	Name    string         `yaml:"name"`
	Options map[string]any `yaml:"options,omitempty"`
}

// Customization is what is added to a plain Talos. The order of its lists counts.
type Customization struct {
	EmbeddedMachineConfiguration string           `yaml:"embeddedMachineConfiguration,omitempty"`
	ExtraKernelArgs              []string         `yaml:"extraKernelArgs,omitempty"`
	Meta                         []Meta           `yaml:"meta,omitempty"`
	SystemExtensions             SystemExtensions `yaml:"systemExtensions,omitempty"`
	Bootloader                   string           `yaml:"bootloader,omitempty"` // dual-boot, sd-boot or grub
	SecureBoot                   SecureBoot       `yaml:"secureboot,omitempty"`
	DiskImage                    DiskImage        `yaml:"diskImage,omitempty"`
}

// Meta is one value of Talos' META partition; key 0x0a is the network configuration.
type Meta struct {
	Key   uint8  `yaml:"key"`
	Value string `yaml:"value"`
}

// SystemExtensions are drivers and tools, such as siderolabs/intel-ucode.
type SystemExtensions struct {
	OfficialExtensions []string `yaml:"officialExtensions,omitempty"`
}

// SecureBoot says how the signed image enrols its keys.
type SecureBoot struct {
	EnrollKeys                   string `yaml:"enrollKeys,omitempty"`
	IncludeWellKnownCertificates bool   `yaml:"includeWellKnownCertificates,omitempty"`
}

// DiskImage is the form of raw images, which are not booted from the network.
type DiskImage struct {
	SectorSize uint `yaml:"sectorSize,omitempty"`
}

// bootloaders are the values of customization.bootloader; "none" is its zero
// value and left out of the canonical form.
var bootloaders = []string{"", "dual-boot", "sd-boot", "grub"}

// Parse reads the YAML, or JSON, of one schematic. A key that it does not know
// is an error: left out, it would give the id of another image.
func Parse(text []byte) (Schematic, error) {
	var s Schematic
	if len(text) > maxText {
		return s, fmt.Errorf("read the schematic: it has %d bytes, at most %d make sense", len(text), maxText)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&s); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty; a plain Talos is written \"customization: {}\"")
		}
		return Schematic{}, fmt.Errorf("read the schematic: %w", err)
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return Schematic{}, errors.New("read the schematic: it has more than one document; give one")
	}
	if s.Customization.Bootloader == "none" {
		s.Customization.Bootloader = ""
	}
	if !slices.Contains(bootloaders, s.Customization.Bootloader) {
		return Schematic{}, fmt.Errorf("read the schematic: customization.bootloader %q is none of%s and none", s.Customization.Bootloader, strings.Join(bootloaders, " "))
	}
	return s, nil
}

// From reads a schematic that stands inside another YAML document, at node. Its
// scalars keep the text that was written, as when the factory reads them: 1e3
// and 2026-01-01 are kernel arguments like any other.
func From(node *yaml.Node) (Schematic, error) {
	budget := maxNodes
	text, err := marshal(expand(node, &budget))
	if err != nil {
		return Schematic{}, fmt.Errorf("read the schematic: %w", err)
	}
	if budget <= 0 {
		return Schematic{}, errors.New("read the schematic: its aliases repeat its values too often; write them out")
	}
	return Parse(text)
}

// maxNodes bounds what aliases can grow to.
const maxNodes = 10_000

// expand copies a node with every alias replaced by what it stands for: an
// anchor may lie outside of the schematic.
func expand(node *yaml.Node, budget *int) *yaml.Node {
	if node.Kind == yaml.AliasNode && node.Alias != nil {
		node = node.Alias
	}
	plain := *node
	plain.Anchor, plain.Content = "", nil
	plain.HeadComment, plain.LineComment, plain.FootComment = "", "", ""
	for _, child := range node.Content {
		if *budget--; *budget <= 0 {
			break
		}
		plain.Content = append(plain.Content, expand(child, budget))
	}
	return &plain
}

// Text is the canonical form, which is also what the factory is sent.
func (s Schematic) Text() ([]byte, error) {
	text, err := marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write the schematic: %w", err)
	}
	// The YAML library writes some strings, such as a lone newline, in a form that
	// it reads differently. The factory would make another image of them.
	var back Schematic
	err = yaml.Unmarshal(text, &back)
	again, errAgain := marshal(back)
	if err != nil || errAgain != nil || !bytes.Equal(text, again) {
		return nil, errors.New("write the schematic: a value in it does not survive as YAML; take line breaks away from the beginning of its strings")
	}
	return text, nil
}

// marshal turns the panics of the YAML encoder on odd values into errors.
func marshal(value any) (text []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it cannot be written as YAML: %v", r)
		}
	}()
	return yaml.Marshal(value) // indented by 4, as the factory does
}

// ID is 64 lower-case hex digits.
func (s Schematic) ID() (string, error) {
	text, err := s.Text()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// Check says whether id, given beside the schematic, is its id; an empty one is
// right. It returns the id to use.
func (s Schematic) Check(id string) (string, error) {
	computed, err := s.ID()
	if err != nil {
		return "", err
	}
	if id != "" && id != computed {
		return "", fmt.Errorf("schematicID is %s, but the schematic beside it has the id %s; remove one of them", id, computed)
	}
	return computed, nil
}
