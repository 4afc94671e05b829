package bmc

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxTraceBody caps what a trace keeps of one body, in bytes.
const maxTraceBody = 256 << 10

// tracer writes one JSON line an exchange, fit to be attached to a bug report:
// what a BMC was asked and answered, without passwords, tokens and session ids.
type tracer struct {
	out     io.Writer
	secrets *secrets
}

// traceLine is one exchange. Headers are a selection, since those that are not
// known to be harmless may carry a session.
type traceLine struct {
	Time     time.Time   `json:"time"`
	Method   string      `json:"method"`
	URL      string      `json:"url"`
	Request  traceHalf   `json:"request"`
	Status   int         `json:"status,omitempty"`
	Response *traceHalf  `json:"response,omitempty"`
	Took     json.Number `json:"ms"`
	Error    string      `json:"error,omitempty"`
}

type traceHalf struct {
	Headers map[string]string `json:"headers,omitempty"`
	Body    any               `json:"body,omitempty"`
}

// tracedHeaders are those that decide how a BMC and this client understand each
// other.
var tracedHeaders = []string{
	"Accept", "Accept-Encoding", "Allow", "Authorization", "Content-Encoding", "Content-Type", "Etag", "If-Match",
	"Location", "Odata-Version", "Retry-After", "Server", "Www-Authenticate", "X-Auth-Token",
}

// secretHeaders are shown to be there, without their value.
var secretHeaders = []string{"Authorization", "X-Auth-Token"}

// write adds one exchange to the trace, in a single Write.
func (t *tracer) write(req *http.Request, start time.Time, rec recording, err error) {
	if t == nil || t.out == nil {
		return
	}
	session := strings.Contains(strings.ToLower(req.URL.Path), "/sessions")
	line := traceLine{
		Time: start.UTC(), Method: req.Method, URL: t.text(req.URL.String()), Took: milliseconds(time.Since(start)),
		Request: traceHalf{Headers: t.headers(req.Header), Body: t.body(requestBody(req), session)},
	}
	if rec.done {
		t.secrets.learn(rec.answer.header.Get("X-Auth-Token"))
		line.Status = rec.answer.status
		line.Response = &traceHalf{Headers: t.headers(rec.answer.header), Body: t.body(rec.answer.body, session)}
	}
	if err != nil {
		line.Error = t.text(err.Error())
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(line) == nil {
		_, _ = t.out.Write(b.Bytes()) // a full disk must not stop a machine's installation
	}
}

func milliseconds(d time.Duration) json.Number {
	return json.Number(strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', 1, 64))
}

func requestBody(req *http.Request) []byte {
	if req.GetBody == nil {
		return nil
	}
	r, err := req.GetBody()
	if err != nil {
		return nil
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(r)
	if err != nil {
		return nil
	}
	return b
}

func (t *tracer) headers(h http.Header) map[string]string {
	out := map[string]string{}
	for _, name := range tracedHeaders {
		v := h.Get(name)
		switch {
		case v == "":
		case slices.Contains(secretHeaders, name):
			scheme, _, _ := strings.Cut(v, " ")
			if scheme == v || name != "Authorization" {
				scheme = ""
			}
			out[name] = strings.TrimSpace(scheme + " " + redacted)
		default:
			out[name] = t.text(v)
		}
	}
	return out
}

// body gives a document with its secrets replaced. What is no JSON is kept as
// text, for the pages that proxies and web servers send.
func (t *tracer) body(b []byte, session bool) any {
	if len(bytes.TrimSpace(b)) == 0 {
		return nil
	}
	cut := len(b) > maxTraceBody
	if !cut {
		var v any
		dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))))
		dec.UseNumber()
		if dec.Decode(&v) == nil && !dec.More() {
			return t.value(v, session)
		}
	}
	if session {
		return redacted // may hold the password in a form that nobody foresaw
	}
	return t.text(strings.ToValidUTF8(string(b[:min(len(b), maxTraceBody)]), "�"))
}

// value replaces the secrets of a document. In documents about sessions the id
// is one.
func (t *tracer) value(v any, session bool) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			if secretName(name, session) && holds(member) {
				out[t.text(name)] = redacted
				continue
			}
			out[t.text(name)] = t.value(member, session)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, member := range v {
			out[i] = t.value(member, session)
		}
		return out
	case string:
		return t.text(v)
	}
	return v
}

// secretName tells whether a property's value is to be hidden whatever it is.
func secretName(name string, session bool) bool {
	name = strings.ToLower(name)
	if session && (name == "id" || name == "name" || name == "username") {
		return true
	}
	return slices.ContainsFunc([]string{"passw", "pwd", "secret", "token", "credential", "privatekey", "licensekey", "community"}, func(word string) bool {
		return strings.Contains(name, word)
	})
}

// holds tells whether there is anything to hide: whether a secret is set, or
// only a policy about it, is worth seeing.
func holds(v any) bool {
	switch v := v.(type) {
	case nil, bool:
		return false
	case string:
		return v != ""
	}
	return true
}

func (t *tracer) text(s string) string { return safePath(t.secrets.scrub(s)) }
