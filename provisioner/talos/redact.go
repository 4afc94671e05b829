package talos

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// hidden stands for a piece of the config.
	hidden = "[hidden]"
	// longestReason bounds what is kept of a node's words, in bytes.
	longestReason = 4 << 10
	// shortestPiece is the shortest value that is hidden wherever it occurs. Shorter ones are
	// hidden in quotes only: hiding each "80" would leave no sentence readable.
	shortestPiece = 4
)

// redactor takes the pieces of one machine config out of what a node says about
// it (I9). Validators and YAML decoders quote what they stumble over, and that
// may be a key. What is not known to be harmless is hidden.
type redactor struct {
	// pieces are the values that may be secret, longest first.
	pieces []string
	// harmless are the values that may be shown, e.g. a version or a disk.
	harmless map[string]bool
	// secret are the values that may be secret, of any length.
	secret map[string]bool
	// all is every value that may be secret, one a line, to look up quoted fragments in.
	all string
	// strict: the config is not known, so nothing is shown that is quoted and not known to be harmless.
	strict bool
}

func newRedactor(config []byte) *redactor {
	values := scalarsOf(config)
	r := &redactor{harmless: map[string]bool{}, secret: map[string]bool{}}
	for _, v := range values {
		if v.harmless {
			r.harmless[v.text] = true
			continue
		}
		for _, piece := range piecesOf(v.text) {
			r.secret[piece] = true
		}
	}
	var all strings.Builder
	for piece := range r.secret {
		// A value that stands at a harmless place as well, like a name, is no secret.
		if r.harmless[piece] {
			continue
		}
		all.WriteString(piece + "\n")
		if len(piece) >= shortestPiece && !plain(piece) {
			r.pieces = append(r.pieces, piece)
		}
	}
	r.all = all.String()
	slices.SortFunc(r.pieces, func(a, b string) int { return len(b) - len(a) })
	return r
}

// plain are values that say nothing, and that sentences are made of.
func plain(value string) bool {
	switch strings.ToLower(value) {
	case "true", "false", "null", "none":
		return true
	}
	return false
}

// piecesOf are the forms in which a value may be quoted: whole, by line, what
// follows a ':' or '=' in a line, the same with base64 undone, and escaped.
func piecesOf(value string) []string {
	pieces := []string{strings.TrimSpace(value)}
	for line := range strings.Lines(value) {
		line = strings.TrimSpace(line)
		pieces = append(pieces, line)
		for _, sign := range []string{":", "="} {
			if _, rest, ok := strings.Cut(line, sign); ok {
				pieces = append(pieces, strings.Trim(rest, " \t\"',;"))
			}
		}
	}
	if decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value)); err == nil && len(decoded) > 12 && utf8.Valid(decoded) {
		for line := range strings.Lines(string(decoded)) {
			pieces = append(pieces, strings.TrimSpace(line))
		}
	}
	return slices.DeleteFunc(pieces, func(p string) bool { return p == "" })
}

// quoted finds what a message quotes: `…`, "…", '…'.
var quoted = regexp.MustCompile("`[^`]*`|\"(?:[^\"\\\\]|\\\\.)*\"|'[^']*'")

// clean is text without the config's values, printable, and not too long.
func (r *redactor) clean(text string) string {
	text = keysOnly(printable(text)) // printable first: what it drops may stand within a value
	for _, piece := range r.pieces {
		text = strings.ReplaceAll(text, piece, hidden)
	}
	text = quoted.ReplaceAllStringFunc(text, func(q string) string {
		inner := q[1 : len(q)-1]
		if r.mayShow(inner) {
			return q
		}
		return q[:1] + hidden + q[len(q)-1:]
	})
	if len(text) > longestReason {
		text = strings.ToValidUTF8(text[:longestReason], "") + " [cut short]"
	}
	return strings.TrimSpace(text)
}

// mayShow says whether a quoted fragment is no part of a value that may be
// secret. YAML decoders cut long values short and end them in "...".
func (r *redactor) mayShow(fragment string) bool {
	fragment = strings.TrimSpace(strings.TrimSuffix(fragment, "..."))
	if fragment == "" || r.harmless[fragment] || fragment == hidden {
		return true
	}
	if r.strict {
		return false
	}
	if len(fragment) < shortestPiece {
		return !r.secret[fragment] // so short a part of something longer tells nothing of it
	}
	return !strings.Contains(r.all, fragment)
}

// decoding is what Talos' strict decoder says before it prints what it does not know.
const decoding = "unknown keys found during decoding:"

// keyLine is a line of YAML with a key.
var keyLine = regexp.MustCompile(`^(\s*(?:- )*)([A-Za-z][\w.-]*):(?:\s|$)`)

// keysOnly keeps of the YAML that follows "unknown keys found" the keys: which
// key is unknown is what a person needs, its value is the config's.
func keysOnly(text string) string {
	before, dump, found := strings.Cut(text, decoding)
	if !found {
		return text
	}
	var keys []string
	for line := range strings.Lines(dump) {
		if m := keyLine.FindStringSubmatch(line); m != nil {
			keys = append(keys, m[1]+m[2]+":")
		}
	}
	return before + decoding + "\n" + strings.Join(keys, "\n")
}

// printable drops control characters, which a terminal would act on.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if c == '\n' || c == '\t' || unicode.IsPrint(c) {
			return c
		}
		return -1
	}, strings.ToValidUTF8(text, "?"))
}
