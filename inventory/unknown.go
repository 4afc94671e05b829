package inventory

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// unknownKey reports a key that is not in the vocabulary, without its value:
// it may be a password.
func unknownKey(key *yaml.Node, path, parent string) Finding {
	word := clip(key.Value)
	if isSecret(key.Value) {
		return clearPassword(key, path, parent+word)
	}
	return at(key, RuleUnknownKey, path, fmt.Sprintf("unknown key %s%s", parent, word), suggestKey(key.Value, parent))
}

// clearPassword reports a key that holds a password, without its value (I9).
func clearPassword(key *yaml.Node, path, name string) Finding {
	return at(key, RuleClearPassword, path, name+": passwords are not written in the inventory",
		"remove it and change the password, since it may be in the history of the files; then give "+waysToPassword)
}

// isSecret tells whether a key looks like it holds a secret. The keys that say
// where a password is do not, nor do those that are meant to be one of them.
func isSecret(key string) bool {
	word := strings.ToLower(strings.Map(dropPunctuation, key))
	for _, whole := range []string{"pass", "pw", "pwd", "credentials", "apikey"} {
		if word == whole || word == "bmc"+whole || word == "ipmi"+whole {
			return true
		}
	}
	for _, way := range []string{"passwordenv", "passwordfile", "passwordcommand"} {
		if strings.HasSuffix(word, way) || distance(word, way) <= 2 {
			return false
		}
	}
	return isPassword(key) || strings.Contains(word, "secret") || strings.Contains(word, "token")
}

// isPassword tells whether a key of the user's own, a label, names a password.
func isPassword(key string) bool {
	word := strings.ToLower(key)
	return strings.Contains(word, "password") || strings.Contains(word, "passwd") || strings.Contains(word, "passphrase")
}

func dropPunctuation(r rune) rune {
	if r == '-' || r == '_' || r == '.' {
		return -1
	}
	return r
}

// suggestKey names the key that was meant: in this section first, then in the
// other ones.
func suggestKey(word, parent string) string {
	if hint, ok := misplaced[parent+word]; ok {
		return hint
	}
	var here, elsewhere []string
	for _, f := range fields {
		name, inside := strings.CutPrefix(f.path, parent)
		switch {
		case inside && !strings.Contains(name, "."):
			here = append(here, name)
		default:
			elsewhere = append(elsewhere, f.path)
		}
	}
	if near := Nearest(word, here); near != "" {
		return "did you mean " + parent + near + "?"
	}
	for _, path := range elsewhere {
		last := path[strings.LastIndexByte(path, '.')+1:]
		if strings.EqualFold(word, last) || strings.EqualFold(word, path) {
			return "did you mean " + path + "?" + nesting(path)
		}
	}
	return "the keys here are " + strings.Join(here, ", ")
}

// nesting reminds how a dotted path is written.
func nesting(path string) string {
	section, key, nested := strings.Cut(path, ".")
	if !nested {
		return " It belongs outside of bmc"
	}
	return fmt.Sprintf(" Write %s below %s:", key, section)
}

// expandsTooFar tells whether following all aliases would visit more values
// than any real file has, or never end.
func expandsTooFar(root *yaml.Node) bool {
	const most = 100_000
	sizes := make(map[*yaml.Node]int)
	var size func(*yaml.Node) int
	size = func(node *yaml.Node) int {
		if known, ok := sizes[node]; ok {
			return known
		}
		sizes[node] = most + 1 // an alias to something around it never ends
		total := 1
		for _, child := range node.Content {
			total = min(total+size(child), most+1)
		}
		if node.Alias != nil {
			total = min(total+size(node.Alias), most+1)
		}
		sizes[node] = total
		return total
	}
	return size(root) > most
}
