package inventory_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/talos-provision/provision/inventory"
)

func TestPassword(t *testing.T) {
	t.Parallel()
	getenv := func(name string) string { return map[string]string{"BMC_PASSWORD": "hunter2"}[name] }
	readFile := func(name string) ([]byte, error) {
		content, ok := map[string]string{"/run/p": "hunter2\n", "/run/crlf": "hunter2\r\n", "/run/space": " hunter2 ", "/run/empty": "\n"}[name]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return []byte(content), nil
	}
	from := inventory.Secrets{Getenv: getenv, ReadFile: readFile}
	tests := map[string]struct {
		bmc             inventory.BMC
		want, wantError string
	}{
		"environment":       {inventory.BMC{PasswordEnv: "BMC_PASSWORD"}, "hunter2", ""},
		"file":              {inventory.BMC{PasswordFile: "/run/p"}, "hunter2", ""},
		"file from Windows": {inventory.BMC{PasswordFile: "/run/crlf"}, "hunter2", ""},
		"spaces belong":     {inventory.BMC{PasswordFile: "/run/space"}, " hunter2 ", ""},
		"empty environment": {inventory.BMC{Address: "bmc-1", PasswordEnv: "OTHER"}, "", "password of BMC bmc-1: environment variable OTHER is empty: export it"},
		"empty file":        {inventory.BMC{Address: "bmc-1", PasswordFile: "/run/empty"}, "", "password of BMC bmc-1: file /run/empty is empty: write the password to it"},
		"no file": {
			inventory.BMC{Address: "bmc-1", PasswordFile: "/run/none"}, "",
			"password of BMC bmc-1: open /run/none: file does not exist: write the password to the file that bmc.passwordFile names",
		},
		"nothing": {
			inventory.BMC{Address: "bmc-1"}, "",
			"password of BMC bmc-1: no password is configured: give bmc.passwordEnv, the name of an environment variable, bmc.passwordFile, the path of a file, or bmc.passwordCommand, a program that prints it",
		},
	}
	for name, test := range tests {
		got, err := test.bmc.Password(t.Context(), from)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got != test.want || text != test.wantError {
			t.Errorf("%s: %q, %s; want %q, %s", name, got, text, test.want, test.wantError)
		}
	}
	if _, err := (inventory.BMC{}).Password(t.Context(), from); !errors.Is(err, inventory.ErrNoPassword) {
		t.Errorf("error is %v", err)
	}
}
