package httpboot_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/talos-provision/provision/pxe/httpboot"
)

const machineConfig = "machine:\n  token: s3cr3t.token\n"

// once hands its config out to the first who asks with the token.
type once struct {
	taken atomic.Bool
	sent  chan bool
}

func (o *once) handOut(token string, _ netip.Addr) (httpboot.Handout, bool) {
	if token != "t0ken" || o.taken.Swap(true) {
		return httpboot.Handout{}, false
	}
	return httpboot.Handout{Data: []byte(machineConfig), Done: func(sent bool) { o.sent <- sent }}, true
}

func get(t *testing.T, method, url string) (int, string, http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body), response.Header
}

func TestAMachineConfigIsHandedOutOnceAndNeverLogged(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	o := &once{sent: make(chan bool, 1)}
	server := httptest.NewServer(httpboot.New(httpboot.Options{
		HandOut: o.handOut, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}))
	defer server.Close()

	for _, wrong := range []string{"/config/", "/config/other", "/config/t0ken/x", "/config/T0KEN"} {
		if status, body, _ := get(t, http.MethodGet, server.URL+wrong); status != http.StatusNotFound || strings.Contains(body, "machine") {
			t.Errorf("GET %s: status %d, body %q; want 404", wrong, status, body)
		}
	}
	if status, _, _ := get(t, http.MethodHead, server.URL+"/config/t0ken"); status != http.StatusNotFound {
		t.Errorf("HEAD: status %d, want 404: asking is no fetch", status)
	}
	status, body, header := get(t, http.MethodGet, server.URL+"/config/t0ken")
	if status != http.StatusOK || body != machineConfig || header.Get("Cache-Control") != "no-store" {
		t.Errorf("GET: status %d, body %q, header %v", status, body, header)
	}
	if !<-o.sent {
		t.Error("the config was sent whole, and Done was told that it was not")
	}
	if status, body, _ := get(t, http.MethodGet, server.URL+"/config/t0ken"); status != http.StatusNotFound {
		t.Errorf("second GET: status %d, body %q; want 404", status, body)
	}
	server.Close()
	for _, secret := range []string{"s3cr3t", "t0ken"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log holds %q (I9):\n%s", secret, log.String())
		}
	}
}

// direct answers every machine alike.
type direct httpboot.Answer

func (d direct) Direct(context.Context, httpboot.Request) httpboot.Answer { return httpboot.Answer(d) }

// withToken has every machine install itself, and fetch its config.
func withToken() direct {
	return direct{
		Kind: httpboot.Install, Node: "node-01", Schematic: strings.Repeat("a", 64), Version: "v1.13.9",
		Args: "talos.platform=metal", ConfigToken: "t0ken",
	}
}

func TestAScriptWithATokenHasTalosFetchItsConfigFromTheSameServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(httpboot.New(httpboot.Options{Director: withToken()}))
	defer server.Close()
	_, script, _ := get(t, http.MethodGet, server.URL+"/boot.ipxe?serial=S1&arch=x86_64&platform=efi")
	if want := " talos.platform=metal talos.config=" + server.URL + "/config/t0ken || goto failed\n"; !strings.Contains(script, want) {
		t.Errorf("the script lacks %q:\n%s", want, script)
	}
}

// I9: the script that is told, and kept, is the one that the machine got, but for the
// token: who has that could fetch the config.
func TestI9TheScriptThatIsToldHasNoToken(t *testing.T) {
	t.Parallel()
	told := make(chan httpboot.Answer, 1)
	server := httptest.NewServer(httpboot.New(httpboot.Options{
		Director: withToken(), OnScript: func(_ httpboot.Request, a httpboot.Answer) { told <- a },
	}))
	defer server.Close()
	_, script, _ := get(t, http.MethodGet, server.URL+"/boot.ipxe?serial=S1&arch=x86_64&platform=efi")
	if !strings.Contains(script, "t0ken") {
		t.Fatalf("the machine got no token:\n%s", script)
	}
	if got, want := (<-told).Script, strings.ReplaceAll(script, "t0ken", "[one-time-token]"); got != want {
		t.Errorf("told is:\n%s\nwant:\n%s", got, want)
	}
}
