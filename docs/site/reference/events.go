package reference

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"text/template"
)

// eventsPage holds the words around the tables.
const eventsPage = `# Events, states and causes

<!-- Made from the code: UPDATE=1 go test ./docs/site/reference -->

Every step of a node is an event. They are kept in the state, in order, and all that
tells of a run is made of them: the command's own output, ` + "`provision events`" + `, the
dashboard, webhooks and metrics.

` + "```sh" + `
provision events
provision events --cluster k8s-prod -o json
provision --cluster k8s-prod --yes -o json
` + "```" + `

The second and the third print one event a line. The keys and the words below are the stable
interface for scripts; the texts of ` + "`message`, `error` and `hint`" + ` are for people and may
change. No event carries a password, a token or a machine config.

## The keys of an event

| key | what it is | meaning |
| --- | --- | --- |
{{ range .Event }}| ` + "`{{ .Key }}`" + ` | {{ .Type }}{{ if .Optional }}, may be absent{{ end }} | {{ .Comment }} |
{{ end }}
Times are in UTC, as in RFC 3339. ` + "`progress`" + ` has these keys:

| key | what it is | meaning |
| --- | --- | --- |
{{ range .Progress }}| ` + "`{{ .Key }}`" + ` | {{ .Type }} | {{ .Comment }} |
{{ end }}
The admin API adds ` + "`seq`" + `, the number of the event, with which a stream is resumed:
[the API](api.md#get-apiv1events).

## States of an installation

In the order of a node's life. ` + "`Failed`, `Held`" + ` and the goal of the run end it for a node.
[The table of moves](../architecture.md#the-state-machine) says what leads from one to the next.

| state | the node |
| --- | --- |
{{ range .States }}| ` + "`{{ .Value }}`" + ` | {{ .Comment }} |
{{ end }}
## States of an upgrade

| state | the node |
| --- | --- |
{{ range .Upgrade }}| ` + "`{{ .Value }}`" + ` | {{ .Comment }} |
{{ end }}
[Upgrades](../upgrades.md#verdicts) lists the verdicts that end one.

## Causes

A node that is ` + "`Failed` or `Held`" + ` has a ` + "`cause`" + `. This is the hint that comes with each, unless
the error knows a better one; [troubleshooting](../troubleshooting.md#what-a-run-says) says what
each means.

| cause | hint |
| --- | --- |
{{ range .Causes }}| ` + "`{{ .Value }}`" + ` | {{ .Comment }} |
{{ end }}`

// words are what the code does not say of the plain keys of an event and of a download.
func words() map[string]string {
	return map[string]string{
		"time":     "when it happened",
		"run":      "the run that it belongs to",
		"cluster":  "the node's cluster",
		"node":     "its name in the inventory",
		"state":    "the state after it",
		"previous": "the state before it: the same where only a message came",
		"message":  "what was done or seen",
		"error":    "what went wrong; empty when nothing did",
		"hint":     "what a person can do next; empty when nothing went wrong",
		"cause":    "the class of the error, one of the causes below",
		"progress": "how far a download is",
		"file":     "its name",
		"bytes":    "handed to the network so far, in bytes",
		"total":    "its size, in bytes",
	}
}

// Events is the page about events, from the sources below root.
func Events(root string) ([]byte, error) {
	var page struct {
		Event, Progress         []Field
		States, Upgrade, Causes []Constant
	}
	var hints map[string]string
	var err error
	for _, read := range []func() error{
		func() error {
			page.Event, err = Fields(filepath.Join(root, "provisioner/store/record.go"), "Event")
			return err
		},
		func() error {
			page.Progress, err = Fields(filepath.Join(root, "provisioner/store/record.go"), "Progress")
			return err
		},
		func() error {
			page.States, err = Constants(filepath.Join(root, "provisioner/state.go"), "State")
			return err
		},
		func() error {
			page.Upgrade, err = Constants(filepath.Join(root, "provisioner/upgrade/state.go"), "State")
			return err
		},
		func() error {
			page.Causes, err = Constants(filepath.Join(root, "provisioner/failure.go"), "Cause")
			return err
		},
		func() error { hints, err = Texts(filepath.Join(root, "provisioner/failure.go"), "hints"); return err },
	} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	for i, cause := range page.Causes {
		page.Causes[i].Comment = oneLine(hints[cause.Name])
		if hints[cause.Name] == "" {
			return nil, fmt.Errorf("the cause %q has no hint in provisioner/failure.go: give it one", cause.Value)
		}
	}
	if err := explain(page.Event, page.Progress); err != nil {
		return nil, err
	}
	for _, states := range [][]Constant{page.States, page.Upgrade} {
		for i := range states {
			states[i].Comment = withoutInvariants(oneLine(states[i].Comment))
		}
	}
	var b bytes.Buffer
	if err := template.Must(template.New("events").Parse(eventsPage)).Execute(&b, page); err != nil {
		return nil, fmt.Errorf("write the page about events: %w", err)
	}
	return b.Bytes(), nil
}

// explain puts a sentence beside every key.
func explain(groups ...[]Field) error {
	text := words()
	for _, fields := range groups {
		for i, field := range fields {
			if fields[i].Comment = text[field.Key]; fields[i].Comment == "" {
				return fmt.Errorf("the key %q of an event is not explained: add it to words in docs/site/reference/events.go", field.Key)
			}
		}
	}
	return nil
}

// withoutInvariants leaves the numbers of invariants to the page that explains them.
func withoutInvariants(text string) string {
	before, after, found := strings.Cut(text, " (I")
	if !found {
		return text
	}
	_, rest, _ := strings.Cut(after, ")")
	return before + rest
}
