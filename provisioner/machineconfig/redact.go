package machineconfig

import (
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
)

// Label names the config in logs and events without anything of its content.
func (c Config) Label() string {
	if c.text == nil {
		return "no machine config"
	}
	kind := c.MachineType()
	if kind != "controlplane" && kind != "worker" {
		kind = "other" // the value could be anything
	}
	return fmt.Sprintf("machine config (%s, %d bytes, sha256 %.12s)", kind, len(c.text.data), c.text.digest)
}

// String is the label.
func (c Config) String() string { return c.Label() }

// Format writes the label, whatever the verb and its flags.
func (c Config) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, c.Label()) }

// LogValue is the label.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.Label()) }

// MarshalText is the label, for JSON and everything else that encodes.
func (c Config) MarshalText() ([]byte, error) { return []byte(c.Label()), nil }

// MarshalYAML is the label.
func (c Config) MarshalYAML() (any, error) { return c.Label(), nil }

var quoted = regexp.MustCompile("(?s)\"[^\"]*\"|`[^`]*`|'[^']*'|\"[^\"]*$|`[^`]*$")

// withoutValues is a library's message about a config, or about a template or a
// patch of one, without what it may repeat of them: what it quotes, and
// everything behind its first line (I9).
func withoutValues(message string) string {
	first, _, _ := strings.Cut(message, "\n")
	return quoted.ReplaceAllString(first, "…")
}
