package install_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// composed is what the test looks at of a compose file, as the engines read it.
type composed struct {
	Services map[string]struct {
		CapAdd          []string `json:"cap_add"`
		CapDrop         []string `json:"cap_drop"`
		NetworkMode     string   `json:"network_mode"`
		ReadOnly        bool     `json:"read_only"`
		User            string   `json:"user"`
		Restart         string   `json:"restart"`
		SecurityOpt     []string `json:"security_opt"`
		StopGracePeriod string   `json:"stop_grace_period"`
		Healthcheck     struct {
			Test []string `json:"test"`
		} `json:"healthcheck"`
		Volumes []struct {
			Target   string `json:"target"`
			ReadOnly bool   `json:"read_only"`
		} `json:"volumes"`
	} `json:"services"`
}

func TestComposeGivesTheContainerTwoCapabilitiesAndTwoVolumes(t *testing.T) {
	t.Parallel()
	reader := filepath.Join(t.TempDir(), "compose")
	output(t, filepath.Join(repository(t), "tools/compose"), "go", "build", "-o", reader, ".")
	folder := t.TempDir()
	file := filepath.Join(folder, "compose.yaml")
	text := read(t, repository(t), "deploy/compose/compose.yaml")
	write(t, file, text)

	if r := try(t, folder, reader, file); r.err == nil || !strings.Contains(r.errOut, "secrets.env") {
		t.Errorf("a forgotten secrets.env is not told: %v %s", r.err, r.errOut)
	}
	write(t, filepath.Join(folder, "secrets.env"), read(t, repository(t), "deploy/compose/secrets.env.example"))
	var c composed
	must(t, json.Unmarshal([]byte(output(t, folder, reader, file)), &c))
	s, found := c.Services["provision"]
	if !found {
		t.Fatalf("there is no service provision, but %v", c.Services)
	}
	if !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.CapAdd, []string{"NET_BIND_SERVICE", "NET_RAW"}) {
		t.Errorf("capabilities: %v but %v", s.CapDrop, s.CapAdd)
	}
	if len(s.SecurityOpt) > 0 {
		t.Errorf("security_opt %v: no-new-privileges takes its capabilities from it", s.SecurityOpt)
	}
	if s.NetworkMode != "host" || !s.ReadOnly || s.User != "65532:65532" || s.Restart != "unless-stopped" || s.StopGracePeriod != "15m0s" {
		t.Errorf("network %s, read-only %t, user %s, restart %s, stop %s", s.NetworkMode, s.ReadOnly, s.User, s.Restart, s.StopGracePeriod)
	}
	if !slices.Equal(s.Healthcheck.Test, []string{"CMD", "/usr/bin/provision", "healthz"}) {
		t.Errorf("health check: %q", s.Healthcheck.Test)
	}
	var writable []string
	for _, v := range s.Volumes {
		if !v.ReadOnly {
			writable = append(writable, v.Target)
		}
	}
	if !slices.Equal(writable, []string{"/var/lib/provision", "/var/cache/provision"}) {
		t.Errorf("it can write to %q", writable)
	}

	// The reader knows what may stand there.
	write(t, file, strings.Replace(text, "cap_drop:", "cap_dropp:", 1))
	if r := try(t, folder, reader, file); r.err == nil {
		t.Error("a misspelt key is accepted")
	}
}
