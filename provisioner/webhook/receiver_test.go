package webhook_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/talos-provision/provision/provisioner/webhook"
)

func TestAReceiverThatCannotBeMeantIsRefusedAndNoSecretIsTold(t *testing.T) {
	t.Parallel()
	const canary = "canary"
	good := file(t, secret)
	short := file(t, "whsec_"+base64.StdEncoding.EncodeToString([]byte(canary)))
	for _, test := range []struct {
		name string
		r    webhook.Receiver
		want string // "" when it is good
	}{
		{"good", webhook.Receiver{URL: "https://hooks.example/x", SecretFile: good}, ""},
		{"loopback in clear", webhook.Receiver{URL: "http://127.0.0.1:1/x", SecretFile: good}, ""},
		{"chat without a secret", webhook.Receiver{URL: "https://hooks.example/x", Format: webhook.FormatSlack}, ""},
		{"no URL", webhook.Receiver{SecretFile: good}, "give a url"},
		{"two URLs", webhook.Receiver{URL: "https://hooks.example", URLFile: good, SecretFile: good}, "one of them"},
		{"no URL in the file", webhook.Receiver{URLFile: file(t, canary), SecretFile: good}, "cannot be read"},
		{"in clear", webhook.Receiver{URL: "http://hooks.example/" + canary, SecretFile: good}, "use https"},
		{"in clear to a name like ours", webhook.Receiver{URL: "http://127.0.0.1.example/", SecretFile: good}, "use https"},
		{"password", webhook.Receiver{URL: "https://u:" + canary + "@hooks.example/", SecretFile: good}, "leave them out"},
		{"other scheme", webhook.Receiver{URL: "ftp://hooks.example/" + canary, SecretFile: good}, "neither https"},
		{"unsigned", webhook.Receiver{URL: "https://hooks.example/" + canary}, "give a secretFile"},
		{"two secrets", webhook.Receiver{URL: "https://hooks.example/", SecretFile: good, SecretEnv: "X"}, "not both"},
		{"empty variable", webhook.Receiver{URL: "https://hooks.example/", SecretEnv: "NO_SUCH_VARIABLE_OF_A_TEST"}, "NO_SUCH_VARIABLE_OF_A_TEST"},
		{"no secret file", webhook.Receiver{URL: "https://hooks.example/", SecretFile: "/no/such/file"}, "/no/such/file"},
		{"secret of another kind", webhook.Receiver{URL: "https://hooks.example/", SecretFile: file(t, canary)}, "openssl rand"},
		{"short secret", webhook.Receiver{URL: "https://hooks.example/", SecretFile: short}, "24 to 64"},
		{"unknown format", webhook.Receiver{URL: "https://hooks.example/", SecretFile: good, Format: "xml"}, "events or slack"},
		{"unknown state", webhook.Receiver{URL: "https://hooks.example/", SecretFile: good, States: []string{"failed"}}, "Failed"},
		{"empty cluster", webhook.Receiver{URL: "https://hooks.example/", SecretFile: good, Clusters: []string{""}}, "leave the list out"},
		{"no authorities", webhook.Receiver{URL: "https://hooks.example/", SecretFile: good, CAFile: good}, "no certificate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := webhook.New(webhook.Options{Store: openStore(t), Receivers: []webhook.Receiver{test.r}})
			switch {
			case test.want == "" && err != nil:
				t.Errorf("it is refused: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("the error is %v; want one that says %q", err, test.want)
			case err != nil && (strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "Y2FuYXJ5")):
				t.Errorf("the error holds a secret: %v", err)
			}
		})
	}
	_, err := webhook.New(webhook.Options{Store: openStore(t), Receivers: []webhook.Receiver{
		{URL: "https://hooks.example/a", SecretFile: good}, {URL: "https://hooks.example/b", SecretFile: good},
	}})
	if err == nil || !strings.Contains(err.Error(), "give each a name") {
		t.Errorf("two receivers of one name: %v", err)
	}
}
