package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	publicDatabase = "https://vuln.go.dev"
	// databaseModule has the same entries as files, as old as its version in go.mod.
	databaseModule = "golang.org/x/vulndb"
	// patience is how long the public database has to answer: a host without internet is not to wait.
	patience = time.Second
)

// database is the URL of the database to ask.
func database(ctx context.Context) (string, error) {
	if reachable(ctx, publicDatabase+"/index/db.json") {
		return publicDatabase, nil
	}
	out, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", databaseModule).Output()
	if err != nil {
		return "", fmt.Errorf("fetch %s (is the Go proxy reachable?): %w: %s", databaseModule, err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", fmt.Errorf("read where %s is: %w", databaseModule, err)
	}
	return "file://" + filepath.ToSlash(filepath.Join(module.Dir, "data", "osv")), nil
}

// reachable says whether a URL answers in time.
func reachable(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}
