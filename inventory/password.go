package inventory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// ErrNoPassword says that a BMC has an address but no way to its password.
var ErrNoPassword = errors.New("no password is configured: give " + waysToPassword)

// waysToPassword is what a person can do instead of writing a password down.
const waysToPassword = "bmc.passwordEnv, the name of an environment variable, bmc.passwordFile, the path of a file, or bmc.passwordCommand, a program that prints it"

// Secrets is where passwords are fetched from. A nil function stands for
// os.Getenv, os.ReadFile or RunPasswordCommand.
type Secrets struct {
	Getenv   func(name string) string
	ReadFile func(name string) ([]byte, error)
	// Run starts a program and gives what it printed.
	Run func(ctx context.Context, argv []string) ([]byte, error)
}

// Password fetches the BMC's password. A file's last line break does not belong
// to it; of a program's output the first line is taken. Errors name the
// variable, the file or the program, never what they hold (I9).
func (b BMC) Password(ctx context.Context, from Secrets) (string, error) {
	password, err := b.password(ctx, from.orSystem())
	if err != nil {
		return "", fmt.Errorf("password of BMC %s: %w", b.Address, err)
	}
	return password, nil
}

func (b BMC) password(ctx context.Context, from Secrets) (string, error) {
	switch {
	case b.PasswordEnv != "":
		password := from.Getenv(b.PasswordEnv)
		if password == "" {
			return "", fmt.Errorf("environment variable %s is empty: export it", b.PasswordEnv)
		}
		return password, nil
	case b.PasswordFile != "":
		content, err := from.ReadFile(b.PasswordFile)
		if err != nil {
			return "", fmt.Errorf("%w: write the password to the file that bmc.passwordFile names", err)
		}
		password := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
		if password == "" {
			return "", fmt.Errorf("file %s is empty: write the password to it", b.PasswordFile)
		}
		return password, nil
	case len(b.PasswordCommand) > 0:
		output, err := from.Run(ctx, b.PasswordCommand)
		if err != nil {
			return "", err
		}
		return firstLine(b.PasswordCommand[0], string(output))
	}
	return "", ErrNoPassword
}

// firstLine is the password in a program's output.
func firstLine(program, output string) (string, error) {
	const longest = 1024
	line, _, _ := strings.Cut(output, "\n")
	switch line = strings.TrimSuffix(line, "\r"); {
	case line == "":
		return "", fmt.Errorf("passwordCommand %s printed nothing on its first line: it must print the password there", program)
	case len(line) > longest:
		return "", fmt.Errorf("passwordCommand %s printed a first line of more than %d bytes: it must print the password there", program, longest)
	}
	return line, nil
}

// orSystem fills in what the operating system offers.
func (s Secrets) orSystem() Secrets {
	if s.Getenv == nil {
		s.Getenv = os.Getenv
	}
	if s.ReadFile == nil {
		s.ReadFile = os.ReadFile
	}
	if s.Run == nil {
		s.Run = RunPasswordCommand
	}
	return s
}
