package bmc

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
)

// Documents of real BMCs have numbers where the schema says string, lists where
// it says object, and worse; a strict decoder loses the whole resource for one
// such field (gofish#364, #409). The types below take what is usable and leave
// the rest empty. None of them ever fails.

// text is a string property that may come as a number, a bool or null.
type text string

// UnmarshalJSON keeps the characters of a scalar; anything else is empty.
func (t *text) UnmarshalJSON(b []byte) error {
	*t = ""
	if len(b) == 0 {
		return nil
	}
	switch b[0] {
	case '"':
		var s string
		if json.Unmarshal(b, &s) == nil {
			*t = text(strings.Trim(s, " \t\r\n\x00"))
		}
	case '{', '[', 'n':
	default:
		*t = text(b)
	}
	return nil
}

func (t text) String() string { return string(t) }

// list is a list that may come as a lone member or as something else.
type list[T any] []T

// UnmarshalJSON takes a lone value as a list of one and skips members that do
// not fit.
func (l *list[T]) UnmarshalJSON(b []byte) error {
	*l = nil
	members := []json.RawMessage{b}
	if len(b) > 0 && b[0] == '[' {
		members = nil
		_ = json.Unmarshal(b, &members) // what is no list stays empty
	} else if string(b) == "null" {
		return nil
	}
	for _, m := range members {
		var v T
		if string(m) != "null" && json.Unmarshal(m, &v) == nil {
			*l = append(*l, v)
		}
	}
	return nil
}

// object is a nested object that may come as a list, a string or null.
type object[T any] struct {
	value T
	set   bool // an object was there, be it empty
}

// UnmarshalJSON leaves the value empty when there is no object.
func (o *object[T]) UnmarshalJSON(b []byte) error {
	*o = object[T]{}
	if len(b) > 0 && b[0] == '{' && json.Unmarshal(b, &o.value) == nil {
		o.set = true
	}
	return nil
}

// link is a reference to a resource: its path on this BMC, "" when there is
// none. It comes as {"@odata.id"}, {"href"}, a plain string or a list of these.
type link string

// UnmarshalJSON takes the path of the first reference found.
func (l *link) UnmarshalJSON(b []byte) error {
	*l = ""
	if len(b) == 0 {
		return nil
	}
	switch b[0] {
	case '"':
		var s string
		if json.Unmarshal(b, &s) == nil {
			*l = link(localPath(s))
		}
	case '{':
		var ref struct {
			ID   text `json:"@odata.id"`
			Href text `json:"href"`
		}
		if json.Unmarshal(b, &ref) == nil {
			if *l = link(localPath(string(ref.ID))); *l == "" {
				*l = link(localPath(string(ref.Href)))
			}
		}
	case '[':
		var all list[link]
		if json.Unmarshal(b, &all) == nil && len(all) > 0 {
			*l = all[0]
		}
	}
	return nil
}

// localPath reduces a reference to a path on the BMC that gave it. Absolute
// references are common (behind NAT even with another name), and following one
// to another host would carry the credentials there.
func localPath(ref string) string {
	ref = strings.TrimSpace(ref)
	if ref == "" || strings.HasPrefix(ref, "#") {
		return ""
	}
	u, err := url.Parse(ref)
	if err != nil {
		return ""
	}
	p := u.EscapedPath()
	if p == "" {
		return ""
	}
	p = "/" + strings.TrimLeft(p, "/")
	if u.RawQuery != "" {
		p += "?" + u.RawQuery
	}
	return p
}

// samePath tells whether two references name one resource.
func samePath(a, b string) bool {
	return a != "" && strings.EqualFold(strings.TrimRight(a, "/"), strings.TrimRight(b, "/"))
}

// lastElement is the last part of a path: the Id of a resource by convention.
func lastElement(path string) string {
	path = strings.TrimRight(path, "/")
	return path[strings.LastIndexByte(path, '/')+1:]
}

var errEmptyDocument = errors.New("the answer is empty")

// decode reads one document, repaired when need be.
func decode(body []byte, into any) error {
	body = bytes.TrimPrefix(bytes.TrimSpace(body), []byte("\xef\xbb\xbf"))
	if len(body) == 0 {
		return errEmptyDocument
	}
	if !json.Valid(body) {
		body = repair(body)
	}
	return json.Unmarshal(body, into)
}

// repair removes what makes JSON of BMCs unreadable and carries no meaning:
// commas before a closing bracket and control characters within strings.
func repair(body []byte) []byte {
	out := make([]byte, 0, len(body))
	quoted, escaped := false, false
	for _, b := range body {
		switch {
		case quoted && escaped:
			escaped = false
		case quoted && b < 0x20:
			continue
		case quoted && b == '\\':
			escaped = true
		case b == '"':
			quoted = !quoted
		case !quoted && (b == '}' || b == ']'):
			if trimmed := bytes.TrimRight(out, " \t\r\n"); bytes.HasSuffix(trimmed, []byte(",")) {
				out = trimmed[:len(trimmed)-1]
			}
		}
		out = append(out, b)
	}
	return out
}

// lookup follows keys through nested objects of a document and gives the scalar
// at their end, "" when there is none.
func lookup(document json.RawMessage, keys ...string) string {
	for _, key := range keys {
		var fields map[string]json.RawMessage
		if json.Unmarshal(document, &fields) != nil {
			return ""
		}
		document = fields[key]
	}
	var t text
	if json.Unmarshal(document, &t) != nil {
		return ""
	}
	return string(t)
}

// keysOf lists the keys of an object; nil when it is none.
func keysOf(document json.RawMessage) []string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(document, &fields) != nil {
		return nil
	}
	keys := make([]string, 0, len(fields))
	for k := range fields {
		keys = append(keys, k)
	}
	return keys
}
