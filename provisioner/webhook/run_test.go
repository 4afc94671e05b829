package webhook_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/webhook"
)

func ours(nodes ...string) func(context.Context) (func(cluster, node string) bool, error) {
	return func(context.Context) (func(cluster, node string) bool, error) {
		return func(cluster, node string) bool { return slices.Contains(nodes, cluster+"/"+node) }, nil
	}
}

// finish writes a run that is over.
func finish(t *testing.T, s *store.Store, id string) {
	t.Helper()
	now := time.Now().UTC()
	run, _, err := s.BeginRun(store.Run{ID: id, Cluster: "prod", Started: now.Add(-90 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.FinishRun(run, now); err != nil {
		t.Fatal(err)
	}
}

func TestTheEndOfARunIsToldAfterItsEventsOnce(t *testing.T) {
	t.Parallel()
	s, to := openStore(t), receive(t, nil)
	options := webhook.Options{Store: s, Receivers: []webhook.Receiver{signed(t, "r", to.URL)}}
	w := send(t, options)
	placed(t, s, "r")
	happen(t, s, "prod", "other", "Failed", func(e *store.Event) { e.Run = "run-0" })
	happen(t, s, "prod", "a", "Ready")
	happen(t, s, "prod", "b", "Failed", func(e *store.Event) { e.Error, e.Hint, e.Cause = "no power", "plug it in", "power" })
	finish(t, s, "run-1")
	for _, want := range []string{"node.failed", "node.ready", "node.failed"} {
		if got := to.next(t).Type; got != want {
			t.Errorf("told is %s; want %s", got, want)
		}
	}
	got := to.next(t)
	if got.Type != "run.finished" || got.data.Run != "run-1" || got.data.Cluster != "prod" || got.data.Nodes != 2 {
		t.Errorf("the end is %s %+v", got.Type, got.data)
	}
	if diff := cmp.Diff(map[string]int{"Ready": 1, "Failed": 1}, got.data.States); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]webhook.Problem{{Node: "b", State: "Failed", Error: "no power", Hint: "plug it in", Cause: "power"}}, got.data.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	kept(t, s, "r", 3, "run-1")
	w.end()
	send(t, options)
	finish(t, s, "run-2")
	if again := to.next(t); again.data.Run != "run-2" || again.id == got.id {
		t.Errorf("after a restart the end of %s is told with the id %s; that of run-1 had %s", again.data.Run, again.id, got.id)
	}
}

func TestAChatIsToldOfManyChangesInFewMessages(t *testing.T) {
	t.Parallel()
	s, to := openStore(t), receive(t, nil)
	const gap = 100 * time.Millisecond
	// The chat has its own ending in its URL, which is a secret.
	chat := webhook.Receiver{Name: "chat", URLFile: file(t, to.URL+"/services/hidden\n"), Format: webhook.FormatSlack}
	w := send(t, webhook.Options{Store: s, Receivers: []webhook.Receiver{chat}, Gap: gap, Poll: time.Second})
	placed(t, s, "chat")
	happen(t, s, "prod", "node-00", "Failed", func(e *store.Event) { e.Error, e.Hint = "a <!channel> & more", "look" })
	for n := range 30 {
		happen(t, s, "prod", fmt.Sprintf("node-%02d", n+1), "Ready")
	}
	finish(t, s, "run-1")
	var messages []got
	lines := 0
	for {
		m := to.next(t)
		messages = append(messages, m)
		if strings.Contains(m.text, "is over") {
			break
		}
		lines += strings.Count(m.text, "\n") + 1
	}
	if lines != 31 || len(messages) > 5 {
		t.Errorf("%d changes were told in %d messages", lines, len(messages))
	}
	for i, m := range messages[1:] {
		// The receiver sees a message a little later than it was sent.
		if between := m.at.Sub(messages[i].at); between < gap/2 {
			t.Errorf("message %d came %s after the one before", i+1, between)
		}
	}
	if want := "prod/node-00 is Failed: a &lt;!channel&gt; &amp; more. What to do: look"; !strings.HasPrefix(messages[0].text, want) {
		t.Errorf("the first message is %q; want %q", messages[0].text, want)
	}
	if want := "The run of prod is over after 1m30s: 1 Failed, 30 Ready\n- node-00 Failed: a &lt;!channel&gt; &amp; more"; messages[len(messages)-1].text != want {
		t.Errorf("the last message is %q; want %q", messages[len(messages)-1].text, want)
	}
	if strings.Contains(w.log.String(), "hidden") {
		t.Error("the log holds the URL of the chat")
	}
}
