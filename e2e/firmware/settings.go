package firmware

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// Bounds on what a script may make of its settings.
const (
	maxValue      = 16 << 10
	maxSettings   = 1000
	maxExpansions = 200
)

// settings are iPXE's ${name}: what the machine and its lease say, and what
// the script sets, which goes first.
type settings struct {
	set  map[string]string
	look func(name string) (string, bool)
}

// newSettings looks the built-in ones up when they are asked for: a script's
// dhcp changes them.
func newSettings(b *boot) *settings {
	return &settings{set: map[string]string{}, look: b.builtin}
}

// scopes are the prefixes that name a settings block; there is one interface.
var scopes = []string{"net0/", "netX/", "smbios/", "net0.dhcp/", "netX.dhcp/", "dhcp/"}

func (b *boot) builtin(name string) (string, bool) {
	m := b.machine
	l := b.lease
	value, ok := map[string]string{
		"serial":       m.Serial,
		"board-serial": m.BoardSerial,
		"asset":        m.Asset,
		"uuid":         strings.ToLower(m.UUID),
		"manufacturer": m.Manufacturer,
		"product":      m.Product,
		"mac":          b.mac.String(),
		"hwaddr":       b.mac.String(),
		"platform":     m.Platform,
		"buildarch":    b.profile.buildarch,
		"version":      "1.21.1+git20250501",
		"user-class":   "iPXE",
		"ip":           text(l.address),
		"netmask":      l.netmask,
		"gateway":      text(l.gateway),
		"dns":          text(l.dns),
		"dhcp-server":  text(l.server),
		"next-server":  text(l.next),
		"filename":     l.file,
		"hostname":     l.hostname,
	}[name]
	return value, ok
}

// text of an address; of none it is "".
func text(a interface {
	IsValid() bool
	String() string
}) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// splitName takes a setting's name apart: [scope/]name[:type].
func splitName(reference string) (name, kind string) {
	name, kind, _ = strings.Cut(reference, ":")
	for _, scope := range scopes {
		if rest, ok := strings.CutPrefix(name, scope); ok {
			return rest, kind
		}
	}
	return name, kind
}

// value is a setting by its reference, formatted; "" when it is not set.
func (s *settings) value(reference string) string {
	name, kind := splitName(reference)
	raw, ok := s.set[name]
	if !ok {
		raw, _ = s.look(name)
	}
	return format(raw, kind)
}

// store sets a value; the empty one removes it, as iPXE does.
func (s *settings) store(reference, value string) error {
	name, _ := splitName(reference)
	if name == "" {
		return fmt.Errorf("a setting needs a name")
	}
	if value == "" {
		delete(s.set, name)
		return nil
	}
	if len(value) > maxValue || len(s.set) >= maxSettings {
		return fmt.Errorf("setting %s: out of memory", name)
	}
	s.set[name] = value
	return nil
}

// format renders a value as one of iPXE's setting types. The raw bytes of a
// MAC are the address, not its text; an unknown type gives nothing.
func format(value, kind string) string {
	switch kind {
	case "", "string", "ipv4", "uuid", "guid", "int8", "int16", "int32", "uint8", "uint16", "uint32":
		return value
	case "uristring":
		// QueryEscape leaves what RFC 3986 2.3 calls unreserved, which is what iPXE does, except for the space.
		return strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
	case "hex":
		return hexWith(value, ":")
	case "hexhyp":
		return hexWith(value, "-")
	case "hexraw":
		return hexWith(value, "")
	default:
		return ""
	}
}

func hexWith(value, separator string) string {
	raw := []byte(value)
	if mac, err := net.ParseMAC(value); err == nil {
		raw = mac
	}
	parts := make([]string, len(raw))
	for i, b := range raw {
		parts[i] = hex.EncodeToString([]byte{b})
	}
	return strings.Join(parts, separator)
}

// expand replaces every ${reference}, innermost first, again in what came of
// it. A reference without an end stays; a value that never stops growing is cut.
func (s *settings) expand(token string) string {
	for range maxExpansions {
		start, end := innermost(token)
		if start < 0 || len(token) > maxValue {
			return token
		}
		token = token[:start] + s.value(token[start+2:end]) + token[end+1:]
	}
	return token
}

// innermost finds the first closing brace that has a "${" before it, and the
// last such "${"; -1 when there is none.
func innermost(token string) (start, end int) {
	start = -1
	for i := range len(token) {
		switch {
		case strings.HasPrefix(token[i:], "${"):
			start = i
		case token[i] == '}' && start >= 0:
			return start, i
		}
	}
	return -1, -1
}
