package talos_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientconfig "github.com/siderolabs/talos/pkg/machinery/client/config"
	"gopkg.in/yaml.v3"

	"github.com/talos-provision/provision/provisioner/talos"
)

func TestLoadAccessReadsAContext(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	path := filepath.Join(t.TempDir(), "talosconfig")
	if err := os.WriteFile(path, talosconfig(t, ca, ca, time.Now().Add(time.Hour)), 0o600); err != nil {
		t.Fatal(err)
	}
	access, err := talos.LoadAccess(path, "")
	if err != nil {
		t.Fatal(err)
	}
	if access.Context != "k8s-prod" || len(access.Endpoints) != 1 || len(access.Roles) != 1 || access.Roles[0] != "os:admin" || time.Until(access.NotAfter) < time.Minute {
		t.Errorf("access = %q %v %v %v", access.Context, access.Endpoints, access.Roles, access.NotAfter)
	}
}

func TestParseAccessSaysWhatIsWrongWithATalosconfig(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	good := talosconfig(t, ca, ca, time.Now().Add(time.Hour))
	edit := func(change func(*clientconfig.Context)) []byte {
		config, err := clientconfig.FromBytes(good)
		if err != nil {
			t.Fatal(err)
		}
		change(config.Contexts["k8s-prod"])
		data, err := config.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	tests := map[string]struct {
		data    []byte
		context string
		want    string
	}{
		"nothing":             {nil, "", "not valid YAML"},
		"no YAML":             {[]byte("contexts:\n  a: [hunter2secret\n"), "", "not valid YAML in line"},
		"a wrong type":        {[]byte("contexts:\n  a: hunter2secret\n"), "", "not valid YAML in line 2"},
		"no contexts":         {[]byte("context: a\n"), "", "no contexts"},
		"unknown context":     {good, "k8s-test", `no context "k8s-test"; name one of k8s-prod`},
		"no current context":  {bytes.Replace(good, []byte("context: k8s-prod"), nil, 1), "", "no current context; name one of k8s-prod"},
		"no client cert":      {edit(func(c *clientconfig.Context) { c.Crt = "" }), "", "no client certificate"},
		"no authority":        {edit(func(c *clientconfig.Context) { c.CA = "" }), "", "no node could be verified"},
		"key is no base64":    {edit(func(c *clientconfig.Context) { c.Key = "hunter2secret!" }), "", "not base64"},
		"key of somebody":     {edit(func(c *clientconfig.Context) { c.Key = c.Crt }), "", "not a certificate in PEM and the key"},
		"expired certificate": {talosconfig(t, ca, ca, time.Date(2020, 2, 3, 0, 0, 0, 0, time.UTC)), "", "expired on 2020-02-03"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := talos.ParseAccess(tt.data, tt.context)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error = %v, want it to contain %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error quotes the file: %v", err)
			}
			if errors.Is(err, talos.ErrAccessExpired) != (name == "expired certificate") {
				t.Errorf("errors.Is(%v, ErrAccessExpired) = %t", err, errors.Is(err, talos.ErrAccessExpired))
			}
		})
	}
}

func TestLoadAccessNamesTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "talosconfig")
	if _, err := talos.LoadAccess(path, ""); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("error = %v, want one that names the missing file", err)
	}
	if err := os.WriteFile(path, []byte("context: a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := talos.LoadAccess(path, ""); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error = %v, want one that names the file", err)
	}
}

// I9: a talosconfig is an administrator's key to the cluster.
func TestAccessShowsNoKeyHoweverItIsPrinted(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	data := talosconfig(t, ca, ca, time.Now().Add(time.Hour))
	access, err := talos.ParseAccess(data, "")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientconfig.FromBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "access", access, "admin", talos.Admin{Access: access})
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "access", *access, "admin", talos.Admin{Access: access})
	for _, value := range []any{access, *access, talos.Admin{Access: access}, struct{ A talos.Access }{*access}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&log, verb, value)
		}
	}
	for _, marshal := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal} {
		out, err := marshal(struct{ A *talos.Access }{access})
		if err != nil {
			t.Fatal(err)
		}
		log.Write(out)
	}
	section := config.Contexts["k8s-prod"]
	for _, secret := range append(fragments(section.Key), fragments(section.Crt)...) {
		if bytes.Contains(log.Bytes(), []byte(secret)) {
			t.Fatalf("a piece of the talosconfig was printed: %q", secret)
		}
	}
	if !bytes.Contains(log.Bytes(), []byte("k8s-prod")) {
		t.Error("the context's name is not shown")
	}
}

// fragments cuts a secret into pieces of which none may be seen.
func fragments(secret string) []string {
	const length = 24
	var list []string
	for i := 0; i+length <= len(secret); i += length {
		list = append(list, secret[i:i+length])
	}
	return list
}
