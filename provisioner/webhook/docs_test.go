package webhook_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/needs"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/webhook"
)

// block is the documentation's code of a language, the n-th of it.
func block(t *testing.T, language string, n int) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) <= n {
		t.Fatalf("docs/webhooks.md has %d blocks of %s", len(blocks), language)
	}
	return blocks[n][1]
}

func TestTheReceiverOfTheDocumentationTakesWhatIsSigned(t *testing.T) {
	t.Parallel()
	needs.Program(t, "node")
	script := filepath.Join(t.TempDir(), "receiver.mjs")
	if err := os.WriteFile(script, []byte(block(t, "js", 0)), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", script)
	cmd.Env = append(os.Environ(), "PORT=0", "SECRET="+secret)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }()
	lines := bufio.NewScanner(out)
	line := func() string {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("the receiver has ended: %v", lines.Err())
		}
		return strings.TrimSpace(lines.Text())
	}
	port, _ := strings.CutPrefix(line(), "port ")
	to := "http://127.0.0.1:" + port
	forged, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(`{"type":"forged","data":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	forged.Header.Set("webhook-id", "1")
	forged.Header.Set("webhook-signature", "v1,AAAA")
	answer, err := http.DefaultClient.Do(forged)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("a forged message is answered %d", answer.StatusCode)
	}
	s := openStore(t)
	send(t, webhook.Options{Store: s, Receivers: []webhook.Receiver{signed(t, "r", to)}})
	placed(t, s, "r")
	happen(t, s, "prod", "node-01", "Ready")
	happen(t, s, "prod", "node-02", "Failed", func(e *store.Event) { e.Error = "no power" })
	for _, want := range []string{"node.ready prod node-01", "node.failed prod node-02 no power"} {
		if got := line(); got != want {
			t.Errorf("the receiver says %q; want %q", got, want)
		}
	}
}

// The messages that the documentation shows have the fields of real ones.
func TestTheMessagesOfTheDocumentationAreAsTheyAreSent(t *testing.T) {
	t.Parallel()
	s, to := openStore(t), receive(t, nil)
	send(t, webhook.Options{Store: s, Receivers: []webhook.Receiver{signed(t, "r", to.URL)}})
	placed(t, s, "r")
	happen(t, s, "prod", "node-01", "Failed", func(e *store.Event) { e.Error, e.Hint, e.Cause = "e", "h", "c" })
	finish(t, s, "run-1")
	for n := range 2 {
		real, shown := fields(t, to.next(t).body), fields(t, []byte(block(t, "json", n)))
		delete(real, "data.states.Failed") // the documentation has more states
		delete(shown, "data.states.Failed")
		delete(shown, "data.states.Ready")
		if diff := cmp.Diff(real, shown); diff != "" {
			t.Errorf("message %d (-sent +documented):\n%s", n, diff)
		}
	}
}

// fields are the names in a JSON document, with their places.
func fields(t *testing.T, raw []byte) map[string]bool {
	t.Helper()
	var document any
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	names := map[string]bool{}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, inner := range v {
				walk(at+"."+name, inner)
			}
		case []any:
			for _, inner := range v {
				walk(at+"[]", inner)
			}
		default:
			names[strings.TrimPrefix(at, ".")] = true
		}
	}
	walk("", document)
	return names
}
