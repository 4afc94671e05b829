package web_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/talos-provision/provision/provisioner/web"
)

// live opens the stream of a page, or of the API, and returns what comes of it at its end.
func (b *browser) live(path string, headers ...string) <-chan string {
	b.t.Helper()
	request, err := http.NewRequestWithContext(context.WithoutCancel(b.t.Context()), http.MethodGet, b.base+path, http.NoBody)
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := b.http.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		b.t.Fatalf("the stream %s is answered %d", path, response.StatusCode)
	}
	ended := make(chan string, 1)
	go func() {
		raw, err := io.ReadAll(response.Body)
		ended <- fmt.Sprintf("%s%v", raw, err)
	}()
	return ended
}

func TestWhatATokenLetInEndsWithIt(t *testing.T) {
	t.Parallel()
	r, _ := withDashboard(t)
	old, reader := browse(t, r, nil), browse(t, r, nil)
	old.login(adminToken, "/")
	reader.login(readToken, "/")
	const events = web.Prefix + "/events?follow=true"
	ends := map[string]<-chan string{
		"page": old.live("/live"), "API by cookie": old.live(events), "API by token": browse(t, r, nil).live(events, "Authorization", "Bearer "+adminToken),
	}
	goOn := map[string]<-chan string{
		"page": reader.live("/live"), "API by token": browse(t, r, nil).live(events, "Authorization", "Bearer "+readToken),
	}
	if err := r.server.Reload(); err != nil { // nothing has changed
		t.Fatal(err)
	}
	if got := old.ask("GET", "/", ""); got.status != 200 {
		t.Errorf("after a reload that changes nothing the session is answered %d", got.status)
	}
	if err := os.WriteFile(r.opts.TokenFile, []byte("another-token-of-a-test"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.server.Reload(); err != nil {
		t.Fatal(err)
	}
	for name, ended := range ends {
		got := <-ended
		want := `"code":"unauthorized"`
		if name == "page" {
			want = "data: off"
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: the stream ends with %q; want %q", name, got, want)
		}
	}
	if got := old.ask("GET", "/", ""); got.status != 303 {
		t.Errorf("the session of a token that is gone is answered %d", got.status)
	}
	if got := reader.ask("GET", "/", ""); got.status != 200 {
		t.Errorf("the session of a token that stays is answered %d", got.status)
	}
	for name, ended := range goOn {
		select {
		case got := <-ended:
			t.Errorf("%s: the stream of a token that stays ended: %q", name, got)
		default:
		}
	}
	// The server's end, and a logout, end the others.
	reader.ask("POST", "/logout", "")
	if got := <-goOn["page"]; !strings.Contains(got, "data: off") {
		t.Errorf("after the logout the page's stream ends with %q", got)
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if got := <-goOn["API by token"]; !strings.Contains(got, "stopping") {
		t.Errorf("with the server the stream ends with %q", got)
	}
}

func TestAPagesStreamEndsWithTheServerAndWithItsSession(t *testing.T) {
	t.Parallel()
	r, _ := withDashboard(t)
	b := browse(t, r, nil)
	stream := b.live("/live", "Authorization", "Bearer "+adminToken)
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if got := <-stream; !strings.Contains(got, "data: off") {
		t.Errorf("with the server it ends with %q", got)
	}
	short, _ := withDashboard(t, func(o *web.Options) { o.SessionLife = 200 * 1e6 })
	b = browse(t, short, nil)
	b.login(adminToken, "/")
	if got := <-b.live("/live"); !strings.Contains(got, "data: off") {
		t.Errorf("with its session it ends with %q", got)
	}
}
