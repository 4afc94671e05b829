package identity

import (
	"encoding/hex"
	"strings"
	"unicode"
)

// maxSerial bounds a serial in bytes. SMBIOS strings of real machines stay
// below 64; something longer is not a serial and must not become a map key.
const maxSerial = 256

// NormalizeSerial gives the form in which serials are compared: upper case,
// without the spaces, NULs and control characters that firmware pads with
// (iPXE keeps trailing spaces), runs of inner space made one. It is empty when
// the value identifies nothing: blank, a placeholder, or longer than 256 bytes.
func NormalizeSerial(serial string) string {
	clean := cleanText(serial)
	if len(clean) > maxSerial || IsPlaceholder(clean) {
		return ""
	}
	return clean
}

// NormalizeUUID gives the form in which UUIDs are compared: lower case, with
// hyphens, the same for both byte orders of the first three fields, because
// BMC and BIOS versions disagree on the order (SMBIOS 2.6 section 7.2.1;
// go-hal#57). It accepts any case, braces, "urn:uuid:" and missing hyphens, and
// is empty for anything else and for UUIDs that vendors ship on every board.
func NormalizeUUID(uuid string) string {
	raw, ok := parseUUID(uuid)
	if !ok {
		return ""
	}
	canonical := canonicalUUID(raw)
	if placeholderUUIDs[canonical] || repeated(canonical) {
		return ""
	}
	return canonical
}

// NormalizeMAC gives the form in which MACs are compared: six lower-case
// octets with colons. It accepts colons, hyphens, dots and none, and is empty
// for anything else and for addresses that no single card has: all zeros, all
// ones and multicast.
func NormalizeMAC(mac string) string {
	raw, ok := parseMAC(strings.TrimFunc(mac, isPadding))
	if !ok {
		return ""
	}
	const multicast = 0x01
	if raw[0]&multicast != 0 || raw == [6]byte{} {
		return ""
	}
	return colons(raw)
}

// parseMAC reads twelve hex digits between any colons, hyphens and dots.
func parseMAC(s string) (raw [6]byte, ok bool) {
	digits := make([]byte, 0, 2*len(raw))
	for i := range len(s) {
		switch c := s[i]; {
		case c == ':' || c == '-' || c == '.':
		case len(digits) == cap(digits):
			return raw, false
		default:
			digits = append(digits, c)
		}
	}
	n, err := hex.Decode(raw[:], digits)
	return raw, err == nil && n == len(raw)
}

func isPadding(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || r == unicode.ReplacementChar || r == '\ufeff'
}

// cleanText trims what firmware pads strings with, joins inner white space and
// makes the text upper case.
func cleanText(s string) string {
	return strings.ToUpper(strings.Join(strings.FieldsFunc(s, isPadding), " "))
}

func parseUUID(s string) ([16]byte, bool) {
	text := strings.ToLower(cleanText(s))
	text = strings.TrimPrefix(text, "urn:uuid:")
	text = strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}")
	raw, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(raw) != 16 {
		return [16]byte{}, false
	}
	return [16]byte(raw), true
}

// canonicalUUID is the smaller of the two byte orders' texts, so that both
// orders of one UUID meet in the same value.
func canonicalUUID(raw [16]byte) string {
	swapped := raw
	for _, field := range [][2]int{{0, 4}, {4, 6}, {6, 8}} {
		for i, j := field[0], field[1]-1; i < j; i, j = i+1, j-1 {
			swapped[i], swapped[j] = swapped[j], swapped[i]
		}
	}
	return min(hyphens(raw), hyphens(swapped))
}

func hyphens(raw [16]byte) string {
	s := hex.EncodeToString(raw[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

func colons(raw [6]byte) string {
	const text = "00:00:00:00:00:00"
	b := make([]byte, 0, len(text))
	for i, octet := range raw {
		if i > 0 {
			b = append(b, ':')
		}
		b = hex.AppendEncode(b, []byte{octet})
	}
	return string(b)
}
