package inventory

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// script writes a program, since a password command is run without a shell.
func script(t *testing.T, body string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "get-password")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+body), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestPasswordCommand(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body            string
		args            []string
		want, wantError string
	}{
		"first line":             {"echo hunter2; echo second", nil, "hunter2", ""},
		"without a line break":   {"printf hunter2", nil, "hunter2", ""},
		"line break of Windows":  {`printf 'hunter2\r\n'`, nil, "hunter2", ""},
		"spaces belong":          {"echo ' hunter2 '", nil, " hunter2 ", ""},
		"arguments are no shell": {`printf '%s' "$1"`, []string{"$(id);*"}, "$(id);*", ""},
		"nothing":                {"true", nil, "", "password of BMC bmc-1: passwordCommand PROGRAM printed nothing on its first line: it must print the password there"},
		"empty first line":       {"echo; echo hunter2", nil, "", "password of BMC bmc-1: passwordCommand PROGRAM printed nothing on its first line: it must print the password there"},
		"failure":                {"echo hunter2; echo hunter2 >&2; exit 7", []string{"hunter2"}, "", "password of BMC bmc-1: passwordCommand PROGRAM: it failed with status 7: run it by hand to see why"},
		"more than a line":       {"echo hunter2; head -c 200000 /dev/zero", nil, "hunter2", ""},
		"endless line":           {"head -c 200000 /dev/zero | tr '\\0' x", nil, "", "password of BMC bmc-1: passwordCommand PROGRAM printed a first line of more than 1024 bytes: it must print the password there"},
		"standard input is shut": {"read line && echo got; echo hunter2", nil, "hunter2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := script(t, test.body)
			b := BMC{Address: "bmc-1", PasswordCommand: append([]string{program}, test.args...)}
			got, err := b.Password(t.Context(), Secrets{})
			text := ""
			if err != nil {
				text = strings.ReplaceAll(err.Error(), program, "PROGRAM")
			}
			if got != test.want || text != test.wantError {
				t.Errorf("got %.80q, %s; want %.80q, %s", got, text, test.want, test.wantError)
			}
			if strings.Contains(text, "hunter2") {
				t.Errorf("the error repeats a secret (I9): %s", text)
			}
		})
	}
	_, err := BMC{Address: "bmc-1", PasswordCommand: []string{"/nowhere/pass"}}.Password(t.Context(), Secrets{})
	const want = "password of BMC bmc-1: passwordCommand: fork/exec /nowhere/pass: no such file or directory: give a program that is installed here"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// A secret store that hangs is given up, with everything that it started.
func TestPasswordCommandIsGivenUp(t *testing.T) {
	t.Parallel()
	program := script(t, "sleep 600 & sleep 600")
	begin := time.Now()
	_, err := runFor(t.Context(), 100*time.Millisecond, []string{program})
	want := "passwordCommand " + program + " gave no answer within 100ms: run it by hand to see why"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("it took %v", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := RunPasswordCommand(ctx, []string{program}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestPasswordCommandCanBeReplaced(t *testing.T) {
	t.Parallel()
	run := func(_ context.Context, argv []string) ([]byte, error) {
		return []byte(strings.Join(argv, "-") + "\n"), nil
	}
	got, err := BMC{PasswordCommand: []string{"a", "b"}}.Password(t.Context(), Secrets{Run: run})
	if got != "a-b" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestOutputOfAPasswordCommandIsBounded(t *testing.T) {
	t.Parallel()
	output, err := RunPasswordCommand(t.Context(), []string{script(t, "head -c 1000000 /dev/zero")})
	if err != nil || len(output) != maxPasswordOutput {
		t.Errorf("%d bytes, %v", len(output), err)
	}
}
