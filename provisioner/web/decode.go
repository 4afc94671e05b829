package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/talos-provision/provision/provisioner"
)

// decode reads one document. A field that is not known is refused: what a newer
// client asks for must not be left out in silence.
func decode(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return Invalid(fmt.Errorf("read the request: %w", err), "see "+Prefix+"/openapi.json; client and daemon may be of different versions")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Invalid(errors.New("read the request: there is more than one document"), "send one")
	}
	return nil
}

// decodeRun reads the body of a plan or of the start of a run.
func decodeRun(body []byte) (RunRequest, error) {
	var r RunRequest
	if err := decode(body, &r); err != nil {
		return RunRequest{}, err
	}
	for _, f := range []struct{ name, value string }{
		{"cluster", r.Cluster}, {"nodes", r.Nodes}, {"selector", r.Selector}, {"exclude", r.Exclude},
		{"reinstall", r.Reinstall}, {"until", r.Until}, {"maxFailures", r.MaxFailures}, {"digest", r.Digest},
	} {
		if err := checkText(f.name, f.value); err != nil {
			return RunRequest{}, err
		}
	}
	if r.Cluster == "" {
		return RunRequest{}, Invalid(errors.New("the request names no cluster"), "give --cluster")
	}
	if _, err := provisioner.ParseGoal(r.Until); err != nil {
		return RunRequest{}, Invalid(fmt.Errorf("until: %w", err), "")
	}
	return r, nil
}

// maxReason bounds what is kept with a hold.
const maxReason = 1000

// decodeHold reads the body of a hold.
func decodeHold(body []byte) (holdRequest, error) {
	var r holdRequest
	if err := decode(body, &r); err != nil {
		return holdRequest{}, err
	}
	if err := checkText("reason", r.Reason); err != nil {
		return holdRequest{}, err
	}
	if r.Reason = strings.TrimSpace(r.Reason); r.Reason == "" {
		return holdRequest{}, Invalid(errors.New("a hold without a reason"), "give --reason, for whoever finds the node held")
	}
	if utf8.RuneCountInString(r.Reason) > maxReason {
		return holdRequest{}, Invalid(fmt.Errorf("the reason has more than %d characters", maxReason), "shorten it")
	}
	return r, nil
}

// eventQuery is what a stream of events is asked for.
type eventQuery struct {
	after        uint64
	follow       bool
	sse          bool
	cluster, run string // "" is every one
}

// decodeEvents reads the query of a stream. Last-Event-ID, which a browser sends
// when it connects again, wins over after.
func decodeEvents(query url.Values, header http.Header) (eventQuery, error) {
	q := eventQuery{cluster: query.Get("cluster"), run: query.Get("run")}
	for _, media := range header.Values("Accept") {
		q.sse = q.sse || strings.Contains(media, sseType)
	}
	after := query.Get("after")
	if last := header.Get("Last-Event-ID"); last != "" {
		after = last
	}
	var err error
	if after != "" {
		if q.after, err = strconv.ParseUint(after, 10, 64); err != nil {
			return eventQuery{}, Invalid(fmt.Errorf("after: %q is no number of an event", after), "give the seq of the last event that was seen, 0 for all")
		}
	}
	if follow := query.Get("follow"); follow != "" {
		if q.follow, err = strconv.ParseBool(follow); err != nil {
			return eventQuery{}, Invalid(fmt.Errorf("follow: %q is neither true nor false", follow), "")
		}
	}
	return q, nil
}

// checkText refuses what no name, list or sentence holds, such as a line break.
func checkText(field, value string) error {
	if !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return Invalid(fmt.Errorf("%s: %q holds a control character", field, clip(value)), "write it on one line")
	}
	return nil
}

// clip keeps an error short.
func clip(text string) string {
	const most = 100
	if len(text) <= most {
		return text
	}
	return text[:most] + "..."
}
