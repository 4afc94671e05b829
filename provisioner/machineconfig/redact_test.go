package machineconfig_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/talos-provision/provision/provisioner/machineconfig"
)

// holder has a config where no method of it is called.
type holder struct {
	Shown  machineconfig.Config
	hidden machineconfig.Config
	files  machineconfig.Files
}

// I9: however a config is written, nothing of its content comes out.
func TestNoWayOfPrintingAConfigShowsIt(t *testing.T) {
	t.Parallel()
	c, err := machineconfig.Parse([]byte("machine: {type: controlplane, token: hunter2}\n"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := machineconfig.Cluster{Name: "c", Endpoint: "https://10.0.0.1:6443", TalosVersion: "v1.13.9", Secrets: secretsFile(t)}.Generate()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, v := range []any{c, &c, []machineconfig.Config{c}, map[string]machineconfig.Config{"a": c}, holder{c, c, files}, &holder{c, c, files}, files, &files} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%p", "%100s", "%+q"} {
			fmt.Fprintf(&out, verb, v)
		}
		for _, encode := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal} {
			text, err := encode(v)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(text)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
		out.WriteString(errors.Join(fmt.Errorf("apply %v", v)).Error())
	}
	text := strings.ToLower(out.String())
	for _, secret := range []string{"hunter2", "68756e74657232", "token:", "private key", "ls0tls1crud"} { // in hex; PEM in base64
		if strings.Contains(text, secret) {
			t.Errorf("%q is shown", secret)
		}
	}
	contains(t, c.String(), "machine config (controlplane, 46 bytes, sha256 ")
}

func TestALabelShowsNoTypeThatIsNone(t *testing.T) {
	t.Parallel()
	c, err := machineconfig.Parse([]byte("machine: {type: hunter2}\n"))
	if err != nil || strings.Contains(c.Label(), "hunter2") || (machineconfig.Config{}).Label() != "no machine config" {
		t.Errorf("label %s, error %v", c, err)
	}
}
