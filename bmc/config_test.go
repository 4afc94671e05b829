package bmc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestConfigMistakesAreExplained(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	good := Config{Address: "127.0.0.1", Username: testUser, Password: testPassword}
	for name, tt := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"no address":           {func(c *Config) { c.Address = " " }, "set bmc.address"},
		"a strange scheme":     {func(c *Config) { c.Address = "ipmi://127.0.0.1" }, "write https://host"},
		"no host":              {func(c *Config) { c.Address = "https:///redfish" }, "has no host"},
		"not a URL":            {func(c *Config) { c.Address = "https://[::1" }, "write bmc.address"},
		"no user":              {func(c *Config) { c.Username = "" }, "set bmc.username"},
		"no password":          {func(c *Config) { c.Password = "" }, "bmc.passwordEnv"},
		"an unknown boot mode": {func(c *Config) { c.BootMode = "csm" }, "uefi or legacy"},
		"no such CA file":      {func(c *Config) { c.CAFile = "/nonexistent/ca.pem" }, "bmc.caFile"},
		"an empty CA file":     {func(c *Config) { c.CAFile = empty }, "no PEM certificate"},
	} {
		cfg := good
		tt.change(&cfg)
		if _, err := Dial(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

func TestAddressForms(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"10.0.0.1":                     "https://10.0.0.1",
		"BMC-1.example":                "https://BMC-1.example",
		"10.0.0.1:8443":                "https://10.0.0.1:8443",
		"fd00::1":                      "https://[fd00::1]",
		"[fd00::1]:443":                "https://[fd00::1]:443",
		"https://10.0.0.1/":            "https://10.0.0.1",
		"https://10.0.0.1/redfish/v1/": "https://10.0.0.1",
		"http://10.0.0.1:8000":         "http://10.0.0.1:8000",
	} {
		if u, err := parseAddress(in); err != nil || u.String() != want {
			t.Errorf("%q is %v (%v), want %s", in, u, err, want)
		}
	}
}

func TestTimeoutsHaveDefaults(t *testing.T) {
	t.Parallel()
	got := Timeouts{Poll: time.Second}.withDefaults()
	want := Timeouts{Dial: 10 * time.Second, Request: time.Minute, Operation: 2 * time.Minute, Power: 5 * time.Minute, Poll: time.Second, Logout: 10 * time.Second}
	if got != want {
		t.Errorf("timeouts are %+v", got)
	}
}
