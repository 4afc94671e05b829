package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/talos-provision/provision/provisioner/web"
)

// The profiles are the admin's alone: not those of who may look, nor a stranger's.
func TestProfilesAreForTheAdmin(t *testing.T) {
	t.Parallel()
	daemon := newFake()
	overTCP := serve(t, daemon, web.Options{Listen: "127.0.0.1:0", TokenFile: file(t, adminToken), ReadTokenFile: file(t, readToken)})
	overSocket := serve(t, daemon, web.Options{Socket: socket(t)})
	const root = "/debug/pprof/"
	for _, test := range []struct {
		name, path, token string
		server            *running
		status            int
		says              string
	}{
		{"the list", root, adminToken, overTCP, 200, "goroutine"},
		{"a profile", root + "heap?debug=1", adminToken, overTCP, 200, "heap profile"},
		{"goroutines", root + "goroutine?debug=1", adminToken, overTCP, 200, "goroutine profile"},
		{"the processor", root + "profile?seconds=1", adminToken, overTCP, 200, ""},
		{"a trace", root + "trace?seconds=0.1", adminToken, overTCP, 200, ""},
		{"the command line", root + "cmdline", adminToken, overTCP, 200, ""},
		{"symbols", root + "symbol", adminToken, overTCP, 200, "num_symbols"},
		{"no such profile", root + "moon", adminToken, overTCP, 404, ""},
		{"who may look", root, readToken, overTCP, 403, "forbidden"},
		{"who may look, a profile", root + "heap", readToken, overTCP, 403, "forbidden"},
		{"a stranger", root + "heap", "", overTCP, 401, "unauthorized"},
		{"a wrong token", root, adminToken + "!", overTCP, 401, "unauthorized"},
		{"the socket", root, "", overSocket, 200, "goroutine"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+test.path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if test.token != "" {
				request.Header.Set("Authorization", "Bearer "+test.token)
			}
			status, body := raw(t, test.server, request)
			if status != test.status || !strings.Contains(body, test.says) {
				t.Errorf("%s is answered %d: %.200s; want %d that says %q", test.path, status, body, test.status, test.says)
			}
		})
	}
}
