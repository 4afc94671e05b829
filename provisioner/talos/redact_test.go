package talos

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCleanKeepsWhatAnOperatorNeeds(t *testing.T) {
	t.Parallel()
	const config = `version: v1alpha1
machine:
  type: controlplane
  token: aa.bb-machine-token
  install:
    disk: /dev/sda
    extraKernelArgs: [console=ttyS0]
  network:
    hostname: node-01
  env:
    name: env-secret
cluster:
  id: clusterid-secret=
  endpoint: https://10.0.0.10:6443
  short: abc
  blob: |
    user=admin
    password=Correct-Horse
`
	tests := map[string]string{
		`the disk "/dev/sda" does not exist`:                            `the disk "/dev/sda" does not exist`,
		`invalid machine type "controlplane" of node-01`:                `invalid machine type "controlplane" of node-01`,
		"endpoint https://10.0.0.10:6443 is bad":                        "endpoint https://10.0.0.10:6443 is bad",
		"line 4: cannot unmarshal !!str `aa.bb-m...` into int":          "line 4: cannot unmarshal !!str `[hidden]` into int",
		"token aa.bb-machine-token is too short":                        "token [hidden] is too short",
		`value 'env-secret' in "env"`:                                   `value '[hidden]' in "env"`,
		`'abc' is too short, abc is not`:                                `'[hidden]' is too short, abc is not`,
		"bad line: password=Correct-Horse":                              "bad line: [hidden]",
		"bad password Correct-Horse":                                    "bad password [hidden]",
		"a\x1b[31mred\x00 word":                                         "a[31mred word",
		"unknown keys found during decoding:\nmachine:\n    x: aa.bb\n": "unknown keys found during decoding:\nmachine:\n    x:",
	}
	for text, want := range tests {
		if got := newRedactor([]byte(config)).clean(text); got != want {
			t.Errorf("clean(%q) = %q, want %q", text, got, want)
		}
	}
	if got := newRedactor(nil).clean(strings.Repeat("ä", 1<<14)); len(got) > longestReason+20 || !utf8.ValidString(got) {
		t.Errorf("a long text has %d bytes left", len(got))
	}
}

// Whatever a node says around a key, and whether or not the config is YAML, the
// key is not in what is kept.
func FuzzClean(f *testing.F) {
	f.Add("cannot unmarshal `", "SeCrEt0123456789", "` into int")
	f.Add("unknown keys found during decoding:\na: ", "c2VjcmV0LWtleS1vZi1hLWNhCg==", "\nb: c")
	f.Add("unknown anchor '", "hunter2hunter2", "' referenced")
	f.Add("\x1b[31m", "a.b-c_d/e+f", "...")
	f.Fuzz(func(t *testing.T, before, key, after string) {
		if len(key) < 8 || strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/=._-") != "" || innocent.MatchString(key) {
			t.Skip("no key")
		}
		for _, config := range []string{"machine:\n  token: '" + key + "'\n", "machine: [\n  token: " + key + "\n"} {
			got := newRedactor([]byte(config)).clean(before + key + after)
			if strings.Contains(got, key) {
				t.Errorf("clean left %q of config %q", got, config)
			}
			if !utf8.ValidString(got) || len(got) > longestReason+20 {
				t.Errorf("clean left %d bytes: %q", len(got), got)
			}
		}
	})
}
