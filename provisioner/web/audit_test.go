package web_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/talos-provision/provision/provisioner/web"
)

func TestAReloadTakesNewTokensAndKeepsTheOldOnesAfterAnError(t *testing.T) {
	t.Parallel()
	tokens := file(t, adminToken)
	daemon := newFake()
	r := serve(t, daemon, web.Options{Listen: "127.0.0.1:0", TokenFile: tokens})
	old := client(t, web.Endpoint{URL: r.url("http"), TokenFile: tokens})
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(tokens, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("short")
	if err := old.Reload(t.Context()); !errors.Is(err, &web.Error{Code: web.CodeInternal}) || strings.Contains(err.Error(), "short;") {
		t.Errorf("a reload of a token that is too short: %v; want an error", err)
	}
	if asked, _ := daemon.last(); asked != nil {
		t.Errorf("the daemon was asked %v after credentials that could not be read", asked)
	}
	write("another-token-of-a-test")
	if err := old.Reload(t.Context()); err != nil {
		t.Fatalf("the old token does not stay in force after an error: %v", err)
	}
	if _, err := old.Runs(t.Context()); !errors.Is(err, web.ErrUnauthorized) {
		t.Errorf("the old token is answered %v after a reload; want ErrUnauthorized", err)
	}
	if _, err := client(t, web.Endpoint{URL: r.url("http"), TokenFile: tokens}).Runs(t.Context()); err != nil {
		t.Errorf("the new token is answered %v", err)
	}
}

func TestAnAuditLineForEveryPostAndNoTokenAnywhere(t *testing.T) {
	t.Parallel()
	admin, reader := file(t, adminToken), file(t, readToken)
	daemon := newFake()
	log := newLog()
	r := serve(t, daemon, web.Options{Listen: "127.0.0.1:0", TokenFile: admin, ReadTokenFile: reader, Log: log.logger()})
	c := client(t, web.Endpoint{URL: r.url("http"), TokenFile: admin})
	if _, err := c.Start(t.Context(), web.RunRequest{Cluster: "prod", Reinstall: "node-04", Digest: "d1"}); err != nil {
		t.Fatal(err)
	}
	if err := client(t, web.Endpoint{URL: r.url("http"), TokenFile: reader}).Stop(t.Context(), "prod"); !errors.Is(err, web.ErrForbidden) {
		t.Fatal(err)
	}
	if err := client(t, web.Endpoint{URL: r.url("http"), TokenFile: file(t, "a-guess-that-is-wrong")}).Reload(t.Context()); !errors.Is(err, web.ErrUnauthorized) {
		t.Fatal(err)
	}
	if _, err := c.Runs(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A line is written after its answer: at the end there are all of them.
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	text := log.String()
	for _, want := range []string{
		`by=token from=127.0.0.1:`, `call="POST /api/v1/runs" outcome=done status=202`, `cluster=prod reinstall=node-04 digest=d1 run=run-2`,
		`by="read token"`, `call="POST /api/v1/runs/prod/stop" outcome=forbidden status=403`,
		`call="POST /api/v1/reload" outcome=unauthorized status=401`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the log does not hold %q", want)
		}
	}
	if got := strings.Count(text, "msg=admin"); got != 3 {
		t.Errorf("the log has %d audit lines for 3 posts", got)
	}
	for _, secret := range []string{adminToken, readToken, "a-guess-that-is-wrong"} {
		if strings.Contains(text, secret) {
			t.Errorf("the log holds the token %q", secret)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}
