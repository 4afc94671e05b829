package web_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/talos-provision/provision/provisioner/web"
)

func FuzzRunRequest(f *testing.F) {
	for _, seed := range []string{
		`{"cluster":"prod"}`, `{"cluster":"prod","nodes":"node-[01-09]","until":"ready","maxFailures":"10%","digest":"d"}`,
		`{}`, `null`, `[]`, `{"cluster":1}`, `{"cluster":"a"}{}`, `{"CLUSTER":"a","cluster":"b"}`, "{\"cluster\":\"\xff\"}", `{"cluster":"\u0000"}`, `{"cluster":"a",`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := web.DecodeRun(body)
		if err != nil {
			isInvalid(t, err)
			return
		}
		if r.Cluster == "" {
			t.Errorf("%q is a request for no cluster", body)
		}
		for _, text := range []string{r.Cluster, r.Nodes, r.Selector, r.Exclude, r.Reinstall, r.Until, r.MaxFailures, r.Digest} {
			if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
				t.Errorf("%q lets %q through", body, text)
			}
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := web.DecodeRun(again); err != nil || same != r {
			t.Errorf("%+v comes back as %+v, %v", r, same, err)
		}
	})
}

func FuzzHoldRequest(f *testing.F) {
	for _, seed := range []string{`{"reason":"x"}`, `{"reason":""}`, `{"reason":"a\nb"}`, `{"by":"root"}`, `"x"`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		reason, err := web.DecodeHold(body)
		if err != nil {
			isInvalid(t, err)
			return
		}
		if strings.TrimSpace(reason) == "" || strings.ContainsFunc(reason, unicode.IsControl) || utf8.RuneCountInString(reason) > 1000 {
			t.Errorf("%q gives the reason %q", body, reason)
		}
	})
}

func FuzzEventQuery(f *testing.F) {
	f.Add("after=7&follow=true", "", "application/x-ndjson")
	f.Add("after=7", "9", "text/event-stream")
	f.Add("after=18446744073709551616&follow=2", "x", "*/*")
	f.Add("after=%zz;&&&", "-1", "")
	f.Fuzz(func(t *testing.T, query, lastID, accept string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		header := http.Header{"Last-Event-Id": {lastID}, "Accept": {accept}}
		after, _, sse, err := web.DecodeEvents(values, header)
		if err != nil {
			isInvalid(t, err)
			return
		}
		if lastID == "" && values.Get("after") == "" && after != 0 || sse != strings.Contains(accept, "text/event-stream") {
			t.Errorf("%q, %q, %q give after %d, sse %t", query, lastID, accept, after, sse)
		}
	})
}

// isInvalid checks that an error is told as one of the asker, and is short enough to be logged.
func isInvalid(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, web.ErrInvalid) {
		t.Errorf("the error is %v; want ErrInvalid", err)
	}
}
