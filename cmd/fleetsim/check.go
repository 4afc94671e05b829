package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/talos-provision/provision/e2e/fleet"
)

// errBroken says that violations were listed: there is nothing to add.
var errBroken = errors.New("the controller broke rules: see the list above")

// check compares what a controller says with what is so, and lists what is wrong.
func check(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("fleetsim check", flag.ContinueOnError)
	truth := flags.String("truth", "", "`file or URL` of the truth: what --oracle wrote, or what fleetsim serves while it runs; a run is judged by a truth later than its status")
	status := flags.String("status", "-", "`file` with the output of \"provision status -o json\", - for standard input")
	plan := flags.String("plan", "", "`nodes` that the run was over, as cluster/name,...; every node with install: true when empty")
	since := flags.String("since", "", "`time`, as 2026-01-02T15:04:05Z, at which the last controller was started: sessions from before are those of controllers that were killed")
	safety := flags.Bool("safety", false, "only the rules that hold at any moment, for a run that has not ended")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *truth == "" {
		return errors.New("check: name the truth with --truth FILE or --truth URL")
	}
	seen, err := readStatus(*status, in)
	if err != nil {
		return err
	}
	oracle, err := readTruth(ctx, *truth)
	if err != nil {
		return err
	}
	if *since != "" {
		if oracle.Since, err = time.Parse(time.RFC3339, *since); err != nil {
			return fmt.Errorf("check --since: %w", err)
		}
	}
	var planned []string
	if *plan != "" {
		planned = strings.Split(*plan, ",")
	}
	judge := fleet.Oracle.Check
	if *safety {
		judge = fleet.Oracle.Safety
	}
	violations := judge(oracle, seen, planned)
	for _, v := range violations {
		if _, err := fmt.Fprintln(out, v); err != nil {
			return err
		}
	}
	if len(violations) > 0 {
		return errBroken
	}
	_, err = fmt.Fprintf(out, "%d machines, no rule broken\n", len(oracle.Machines))
	return err
}

func readStatus(name string, in io.Reader) (map[string]fleet.Seen, error) {
	if name == "-" {
		return fleet.ReadStatus(in)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	defer func() { _ = file.Close() }()
	return fleet.ReadStatus(file)
}

// readTruth reads the truth from a file or from a fleet that runs.
func readTruth(ctx context.Context, from string) (oracle fleet.Oracle, err error) {
	source, err := openTruth(ctx, from)
	if err != nil {
		return oracle, fmt.Errorf("check: read the truth: %w", err)
	}
	defer func() { _ = source.Close() }()
	if err := json.NewDecoder(source).Decode(&oracle); err != nil {
		return oracle, fmt.Errorf("check: read the truth of %s, which fleetsim writes with --oracle: %w", from, err)
	}
	return oracle, nil
}

func openTruth(ctx context.Context, from string) (io.ReadCloser, error) {
	if !strings.HasPrefix(from, "http://") {
		return os.Open(from)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return nil, err
	}
	client := http.Client{Timeout: time.Minute}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s answers %s", from, response.Status), response.Body.Close())
	}
	return response.Body, nil
}

// writeTruth writes the truth to a file; none when the name is empty.
func writeTruth(name string, oracle fleet.Oracle) error {
	if name == "" {
		return nil
	}
	text, err := json.MarshalIndent(oracle, "", "  ")
	if err != nil {
		return fmt.Errorf("write the truth about the fleet: %w", err)
	}
	if err := os.WriteFile(name, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the truth about the fleet: %w", err)
	}
	return nil
}
