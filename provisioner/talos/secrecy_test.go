package talos_test

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	talosconf "github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
	"github.com/siderolabs/talos/pkg/machinery/config/generate"
	"github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"
	machinetype "github.com/siderolabs/talos/pkg/machinery/config/machine"
	"google.golang.org/grpc/codes"
	"gopkg.in/yaml.v3"

	"github.com/talos-provision/provision/provisioner/talos"
)

// I9: whatever a node answers to a config, nothing of it that may be secret is
// returned. A node that prints the whole config back is the worst one.
func TestNothingOfAMachineConfigIsReturned(t *testing.T) {
	t.Parallel()
	data, keys := generated(t)
	quotes := map[string]string{
		"whole config":  string(data),
		"quoted config": fmt.Sprintf("%q", data),
		"unknown keys":  "error decoding document v1alpha1 (line 1): unknown keys found during decoding:\n" + string(data),
	}
	for i, key := range keys {
		for _, quote := range []string{"is `" + key + "`", "is `" + key[:7] + "...`", "value " + key + " is bad", fmt.Sprintf("is %q", "x"+key)} {
			mustHide(t, quote, talos.Clean(data, quote), keys)
		}
		if decoded, err := base64.StdEncoding.DecodeString(key); err == nil {
			mustHide(t, key+" decoded", talos.Clean(data, "no PEM: "+string(decoded)), keys)
		}
		if i%5 != 0 {
			continue // the same through the network takes its time
		}
		quotes[fmt.Sprintf("yaml %d", i)] = fmt.Sprintf("yaml: unmarshal errors:\n  line 7: cannot unmarshal !!str `%s` into int", key)
		quotes[fmt.Sprintf("yaml cut %d", i)] = fmt.Sprintf("line 7: cannot unmarshal !!str `%s...` into int", key[:7])
		quotes[fmt.Sprintf("bare %d", i)] = "invalid value " + key + " for the key"
	}
	node := &applier{}
	port := maintenanceNode(node, "S-1").start(t)
	for name, quote := range quotes {
		for _, code := range []codes.Code{codes.InvalidArgument, codes.FailedPrecondition, codes.PermissionDenied, codes.Internal} {
			node.refuse(code, quote)
			mustHide(t, fmt.Sprintf("%s, %s", name, code), everythingShown(t, data, port), keys)
		}
		node.warn(quote)
		mustHide(t, name+", answered", everythingShown(t, data, port), keys)
	}
}

// warn makes the node take a config and say text about it.
func (a *applier) warn(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = func(*machine.ApplyConfigurationRequest) (*machine.ApplyConfiguration, error) {
		return &machine.ApplyConfiguration{Warnings: []string{text}, ModeDetails: "fine\nConfig diff:\n" + text}, nil
	}
}

// everythingShown is what a caller can print of an apply, and what was logged.
func everythingShown(t *testing.T, data []byte, port int) string {
	t.Helper()
	var out strings.Builder
	log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	applied, err := talos.Prober{Port: port}.Apply(t.Context(), "127.0.0.1", data, false, anyMachine)
	log.Debug("applied", "applied", applied, "err", err)
	_, _ = fmt.Fprintf(&out, "%v %+v %#v %v %+v %#v", err, err, err, applied, applied, applied)
	return out.String()
}

func mustHide(t *testing.T, name, shown string, keys []string) {
	t.Helper()
	for _, key := range keys {
		forms := append(fragments(key), key, key[:7])
		if decoded, err := base64.StdEncoding.DecodeString(key); err == nil && len(decoded) > 48 {
			forms = append(forms, string(decoded[28:52])) // the first bytes of the key in PEM
		}
		for _, form := range forms {
			if strings.Contains(shown, form) {
				t.Fatalf("%s: a piece of the config is shown: %q in\n%.2000s", name, form, shown)
			}
		}
	}
}

// generated is a control plane's config as talosctl makes it, and its secrets.
func generated(t *testing.T) (data []byte, keys []string) {
	t.Helper()
	bundle, err := secrets.NewBundle(secrets.NewClock(), talosconf.TalosVersion1_13)
	if err != nil {
		t.Fatal(err)
	}
	input, err := generate.NewInput("k8s-prod", "https://10.0.0.10:6443", "1.34.1",
		generate.WithVersionContract(talosconf.TalosVersion1_13), generate.WithSecretsBundle(bundle), generate.WithInstallDisk("/dev/sda"))
	if err != nil {
		t.Fatal(err)
	}
	made, err := input.Config(machinetype.TypeControlPlane)
	if err != nil {
		t.Fatal(err)
	}
	if data, err = made.Bytes(); err != nil {
		t.Fatal(err)
	}
	data = append(data, []byte("---\napiVersion: v1alpha1\nkind: WireguardConfig\nprivateKey: wg-private-key-0123456789\n---\napiVersion: v1alpha1\nkind: ExtensionServiceConfig\nenvironment:\n  - PASSWORD=hunter2hunter2\n")...)
	bytes, err := yaml.Marshal(bundle)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := yaml.Unmarshal(bytes, &tree); err != nil {
		t.Fatal(err)
	}
	keys = append(leaves(tree), "wg-private-key-0123456789", "hunter2hunter2")
	for _, want := range []string{bundle.Secrets.BootstrapToken, base64.StdEncoding.EncodeToString(bundle.Certs.OS.Key)} {
		if !strings.Contains(string(data), want) {
			t.Fatal("the config does not hold the secrets that are looked for")
		}
	}
	return data, keys
}

func leaves(tree any) []string {
	var list []string
	switch v := tree.(type) {
	case map[string]any:
		for _, child := range v {
			list = append(list, leaves(child)...)
		}
	case []any:
		for _, child := range v {
			list = append(list, leaves(child)...)
		}
	case string:
		if len(v) >= 16 {
			list = append(list, v)
		}
	}
	return list
}

// What Talos' own decoder says of a broken config is what must be hidden, and
// what must be kept of it.
func TestRealDecoderErrorsAreKeptWithoutValues(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		config string
		keep   []string
		hide   []string
	}{
		"unknown key":      {"version: v1alpha1\nmachine:\n  tokn: hunter2secret\n  install:\n    grubUseUKI: s3cr3t\n", []string{"unknown keys found during decoding", "tokn:", "grubUseUKI:"}, []string{"hunter2", "s3cr3t"}},
		"wrong type":       {"version: v1alpha1\nmachine:\n  certSANs: hunter2secret\n", []string{"line 3"}, []string{"hunter2secret"}},
		"wrong type below": {"version: v1alpha1\nmachine:\n  sysctls:\n    - hunter2secret\n", []string{"line 4"}, []string{"hunter2"}},
		"broken YAML":      {"version: v1alpha1\nmachine:\n  token: 'hunter2secret\n", []string{"line"}, []string{"hunter2"}},
		"unknown anchor":   {"version: v1alpha1\nmachine:\n  token: *hunter2secret\n", []string{"anchor"}, []string{"hunter2"}},
		"unknown kind":     {"apiVersion: v1alpha1\nkind: FutureConfig\npassword: hunter2secret\n", []string{"FutureConfig"}, []string{"hunter2"}},
		"no kind":          {"apiVersion: v1alpha1\npassword: hunter2secret\n", []string{"password:"}, []string{"hunter2"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, decodeErr := configloader.NewFromBytes([]byte(tt.config))
			if decodeErr == nil {
				t.Fatal("Talos takes this config")
			}
			port := maintenanceNode((&applier{}).refuse(codes.Unknown, "failed to parse config: "+decodeErr.Error()), "S-1").start(t)
			_, err := talos.Prober{Port: port}.Apply(t.Context(), "127.0.0.1", []byte(tt.config), true, anyMachine)
			if err == nil {
				t.Fatal("no error")
			}
			for _, keep := range tt.keep {
				if !strings.Contains(err.Error(), keep) {
					t.Errorf("error = %q, of %q, want it to keep %q", err, decodeErr, keep)
				}
			}
			for _, hide := range tt.hide {
				if strings.Contains(err.Error(), hide) {
					t.Errorf("error = %q shows %q", err, hide)
				}
			}
		})
	}
}
