// Command vuln says which known vulnerabilities the code of a Go module calls. It
// runs govulncheck over the module and fails on a finding that is called and not
// accepted in the list beside it.
//
// Where the public database can be reached it is asked, because it is newer; else the
// copy is read that this module requires and the Go proxy serves.
//
//	go run -C tools/vuln . -dir "$PWD" ./...
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/vuln/scan"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "vuln:", err)
		os.Exit(1) //nolint:gocritic // stop has nothing left to do
	}
}

// run scans the packages that the arguments name.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("vuln", flag.ContinueOnError)
	dir := flags.String("dir", ".", "folder of the module to look at")
	release := flags.Bool("release", false, "fail on vulnerabilities of the standard library too, which the Go of a release decides")
	accepted := flags.String("accepted", "accepted.txt", "file of findings that are accepted for a time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	text, err := os.ReadFile(*accepted)
	if err != nil {
		return fmt.Errorf("read what is accepted: %w", err)
	}
	list, err := parseAccepted(string(text))
	if err != nil {
		return fmt.Errorf("read %s: %w", *accepted, err)
	}
	database, err := database(ctx)
	if err != nil {
		return err
	}
	found, err := govulncheck(ctx, *dir, database, flags.Args())
	if err != nil {
		return err
	}
	return report(out, found, judgement{list, *release, time.Now()})
}

// govulncheck scans a module's packages and returns what it found.
func govulncheck(ctx context.Context, dir, database string, patterns []string) (findings, error) {
	version, err := goVersion(ctx, dir)
	if err != nil {
		return findings{}, err
	}
	var out, errOut bytes.Buffer
	command := scan.Command(ctx, append([]string{"-C", dir, "-db", database, "-format", "json"}, patterns...)...)
	command.Stdout, command.Stderr = &out, &errOut
	command.Env = append(os.Environ(), "GOVERSION="+version)
	if err := errors.Join(command.Start(), command.Wait()); err != nil {
		return findings{}, fmt.Errorf("scan %s: %w\n%s", dir, err, errOut.String())
	}
	return parseFindings(&out)
}

// goVersion is the version of Go that builds a module: its go.mod may ask for another
// one than that of this module, and with it comes another standard library.
func goVersion(ctx context.Context, dir string) (string, error) {
	command := exec.CommandContext(ctx, "go", "env", "GOVERSION")
	command.Dir = dir
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("ask which Go builds %s: %w", dir, err)
	}
	return strings.TrimSpace(string(out)), nil
}
