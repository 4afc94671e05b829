package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/talos-provision/provision/provisioner/web"
)

// I9: what the daemon writes, tells and keeps at its most talkative holds no
// password, no token and nothing of a machine config.
func TestI9TheDaemonTellsNoSecret(t *testing.T) {
	t.Parallel()
	s := newRemoteSite(t, newClusters(t, nil, one))
	d := s.daemon
	shown := map[string][]byte{}
	r := provision(t, "--config", s.admin, "--cluster", "prod", "--yes", "-o", "json")
	r.says(t, exitDone, `"state":"Ready"`)
	shown["a run"] = []byte(r.out + r.err)
	for _, args := range [][]string{
		{"plan", "--cluster", "prod"}, {"hold", "node-01", "--cluster", "prod", "--reason", "none"}, {"hold"}, {"status"}, {"events"},
	} {
		for _, config := range []string{s.admin, s.wrong} {
			r := provision(t, append(args, "--config", config)...)
			shown[strings.Join(args, " ")+config] = []byte(r.out + r.err)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/nodes", "/unknown", "/runs", "/holds", "/inventory", "/events", "/inventory/nodes", "/nodes/prod/node-01", "/collisions", "/upgrades"} {
		shown[path] = s.get(t, path)
	}
	var copied bytes.Buffer
	if err := d.Backup(t.Context(), &copied); err != nil { // who may only look gets none
		t.Fatal(err)
	}
	shown["/backup"] = copied.Bytes()
	answer, err := d.Plan(t.Context(), web.RunRequest{Cluster: "prod", Reinstall: "node-01"})
	if err != nil {
		t.Fatal(err)
	}
	shown["the digest"] = []byte(answer.Digest)
	d.reload()
	if status := d.stop(); status != exitDone {
		t.Errorf("the daemon ended with status %d", status)
	}
	shown["the log"] = []byte(d.log.String())
	for _, folder := range []string{"state", "cache"} {
		if err := filepath.Walk(filepath.Join(folderOf(s.fleet), folder), func(path string, info os.FileInfo, err error) error {
			if err != nil || !info.Mode().IsRegular() || info.Size() > 10<<20 {
				return err
			}
			shown[path], err = os.ReadFile(path)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for what, holds := range map[string]string{
		"the log": "level=DEBUG", "/events": "node-01", "/backup": "prod", "/nodes": "Ready", "/inventory": "generation", filepath.Join(folderOf(s.fleet), "state", "state.db"): "prod",
	} {
		if !bytes.Contains(shown[what], []byte(holds)) {
			t.Errorf("%s does not hold %q: the test does not see what it is for", what, holds)
		}
	}
	tokens := s.fleet.Machines()[0].BMC().Tokens()
	if len(tokens) == 0 {
		t.Error("no BMC session was opened")
	}
	config := textOf(t, filepath.Join(folderOf(s.fleet), "configs/prod/node-01.yaml"))
	access := textOf(t, filepath.Join(folderOf(s.fleet), "configs/prod/talosconfig"))
	secrets := slices.Concat(tokens, keyMaterial(t, config), keyMaterialOf(access))
	secrets = append(secrets, "fleet-bmc-password", base64.StdEncoding.EncodeToString([]byte("provisioner:fleet-bmc-password")), adminToken, readingToken, "nobodys-token-0123456789")
	for what, text := range shown {
		for _, secret := range secrets {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s holds the secret %.6s…", what, secret)
			}
		}
	}
}

// get is what the API answers to the reading token.
func (s remoteSite) get(t *testing.T, path string) []byte {
	t.Helper()
	if !strings.HasSuffix(path, "z") {
		path = web.Prefix + path
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+readingToken)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} //nolint:gosec // of a test
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("%s is answered %s, %v", path, response.Status, err)
	}
	return text
}

// keyMaterialOf are the long values of a talosconfig's key.
func keyMaterialOf(talosconfig string) []string {
	var keys []string
	for line := range strings.Lines(talosconfig) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found && name == "key" {
			keys = append(keys, longText.FindAllString(value, -1)...)
		}
	}
	return keys
}
