package identity

import (
	"strings"
	"unicode"
)

// IsPlaceholder tells whether a serial says nothing about its machine: blank,
// one character repeated ("00000000", "xxxxxxx", "......."), or a text that
// vendors leave in the field ("To be filled by O.E.M.", "0123456789").
// Punctuation and case do not matter.
func IsPlaceholder(serial string) bool {
	letters := lettersAndDigits(serial)
	return letters == "" || repeated(letters) || placeholders[letters]
}

// placeholders are texts seen in serial fields of real machines, reduced to
// upper-case letters and digits (bmclib, netbox-agent#296, xcat-core#5428,
// mayu#122, fogproject#196).
var placeholders = map[string]bool{
	"0123456789":             true,
	"0123456789ABCDEF":       true,
	"01234567":               true,
	"012345678":              true,
	"01234567890":            true,
	"01234567890123456789":   true,
	"0123456789AB":           true,
	"1234567":                true,
	"12345678":               true,
	"123456789":              true,
	"1234567890":             true,
	"123456789012":           true,
	"1234567890ABCDEF":       true,
	"12345678901234567890":   true,
	"ASSETTAG":               true,
	"BASEBOARDSERIALNUMBER":  true,
	"BOARDSERIALNUMBER":      true,
	"BSN1234567890123456789": true,
	"BSS0123456789":          true,
	"CHASSISSERIALNUMBER":    true,
	"CPLDSERIALNUMBER":       true,
	"DEFAULT":                true,
	"DEFAULTSTRING":          true,
	"EMPTY":                  true,
	"ENCLOSURESERIALNUMBER":  true,
	"INVALID":                true,
	"MB0123456789":           true,
	"MB1234567890":           true,
	"MOTHERBOARDSERIAL":      true,
	"NA":                     true,
	"NIL":                    true,
	"NONE":                   true,
	"NOTAPPLICABLE":          true,
	"NOTAVAILABLE":           true,
	"NOTDEFINED":             true,
	"NOTPRESENT":             true,
	"NOTPROVIDED":            true,
	"NOTSET":                 true,
	"NOTSPECIFIED":           true,
	"NULL":                   true,
	"OEM":                    true,
	"REDACTED":               true,
	"SERIAL":                 true,
	"SERIALNO":               true,
	"SERIALNUMBER":           true,
	"SYS1234567890":          true,
	"SYSTEMSERIAL":           true,
	"SYSTEMSERIALNUMBER":     true,
	"TBD":                    true,
	"TOBEFILLEDBYOEM":        true,
	"UNDEFINED":              true,
	"UNKNOWN":                true,
	"UNSPECIFIED":            true,
}

// placeholderUUIDs are UUIDs shipped on many boards, in canonical form. All
// zeros and all ones are caught as repetitions (talos#8804).
var placeholderUUIDs = map[string]bool{
	"00020003-0004-0005-0006-000700080009": true, // AMI reference BIOS; also seen as 03000200-0400-0500-…
	"12345678-1234-5678-90ab-cddeefaabbcc": true,
	"44454c4c-0000-1020-8020-80c04f202020": true, // Dell without a service tag (4c4c4544-0000-2010-…)
}

func lettersAndDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToUpper(r)
		}
		return -1
	}, s)
}

// repeated tells whether s is one letter or digit over and over.
func repeated(s string) bool {
	letters := lettersAndDigits(s)
	if letters == "" {
		return false
	}
	first := []rune(letters)[0]
	return strings.Trim(letters, string(first)) == ""
}
