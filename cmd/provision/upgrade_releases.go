package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/talos-provision/provision/provisioner/upgrade"
)

const (
	// releasesTimeout is short: there is a list to fall back on.
	releasesTimeout = 10 * time.Second
	// maxReleases bounds what is read of the list; it has some thousand bytes.
	maxReleases = 1 << 20
)

// releases are the versions that the Image Factory lists; nil where it cannot be
// asked, and then those that are built in count. The plan says so where it matters.
func (u *upgrader) releases(ctx context.Context) []upgrade.Version {
	releases, err := fetchReleases(ctx, u.config.Assets.Factory)
	if err != nil {
		u.log.InfoContext(ctx, "the Image Factory does not list its versions: the built-in list counts", "error", err)
	}
	return releases
}

func fetchReleases(ctx context.Context, factory string) ([]upgrade.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, releasesTimeout)
	defer cancel()
	address := strings.TrimSuffix(factory, "/") + "/versions"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask the Image Factory for its versions: %w; check assets.factory", err)
	}
	client := http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the Image Factory for its versions: %w; check assets.factory, the uplink and HTTPS_PROXY", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask the Image Factory for its versions: %s answers %s", address, response.Status)
	}
	return readReleases(io.LimitReader(response.Body, maxReleases))
}

// readReleases reads the Image Factory's list: a JSON array of tags. What is no
// version is left out.
func readReleases(r io.Reader) ([]upgrade.Version, error) {
	var tags []string
	if err := json.NewDecoder(r).Decode(&tags); err != nil {
		return nil, fmt.Errorf("read the Image Factory's versions: %w", err)
	}
	var releases []upgrade.Version
	for _, tag := range tags {
		if v, err := upgrade.ParseVersion(tag); err == nil {
			releases = append(releases, v)
		}
	}
	return releases, nil
}
