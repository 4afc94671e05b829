package inventory

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNoPassword says that a BMC has an address but no way to its password.
var ErrNoPassword = errors.New("no password is configured: give bmc.passwordEnv, the name of an environment variable, or bmc.passwordFile, the path of a file")

// Password fetches the BMC's password with os.Getenv and os.ReadFile, or what
// stands for them. A file's last line break does not belong to the password.
// Errors name the variable or the file, never the content (I9).
func (b BMC) Password(getenv func(string) string, readFile func(string) ([]byte, error)) (string, error) {
	switch {
	case b.PasswordEnv != "":
		password := getenv(b.PasswordEnv)
		if password == "" {
			return "", fmt.Errorf("password of BMC %s: environment variable %s is empty: export it", b.Address, b.PasswordEnv)
		}
		return password, nil
	case b.PasswordFile != "":
		content, err := readFile(b.PasswordFile)
		if err != nil {
			return "", fmt.Errorf("password of BMC %s: %w: write the password to the file that bmc.passwordFile names", b.Address, err)
		}
		password := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
		if password == "" {
			return "", fmt.Errorf("password of BMC %s: file %s is empty: write the password to it", b.Address, b.PasswordFile)
		}
		return password, nil
	}
	return "", fmt.Errorf("password of BMC %s: %w", b.Address, ErrNoPassword)
}
