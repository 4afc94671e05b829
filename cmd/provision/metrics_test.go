package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/fleet"
)

// sample is one line of a scrape.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

// scraped is a scrape, read by nobody's library: what a reader sees is what counts.
type scraped struct {
	text    string
	samples []sample
	help    map[string]string
	kind    map[string]string
}

var (
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$`)
	sampleName = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"`)
)

func readScrape(t *testing.T, text string) scraped {
	t.Helper()
	s := scraped{text: text, help: map[string]string{}, kind: map[string]string{}}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if rest, found := strings.CutPrefix(line, "# HELP "); found {
			name, help, _ := strings.Cut(rest, " ")
			s.help[name] = help
			continue
		}
		if rest, found := strings.CutPrefix(line, "# TYPE "); found {
			name, kind, _ := strings.Cut(rest, " ")
			s.kind[name] = kind
			continue
		}
		parts := sampleLine.FindStringSubmatch(line)
		if parts == nil {
			t.Fatalf("the scrape has the line %q", line)
		}
		value, err := strconv.ParseFloat(parts[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		labels := map[string]string{}
		for _, label := range sampleName.FindAllStringSubmatch(parts[2], -1) {
			labels[label[1]] = label[2]
		}
		s.samples = append(s.samples, sample{parts[1], labels, value})
	}
	return s
}

// sum adds what has a name and these labels, as name=value.
func (s scraped) sum(name string, labels ...string) (sum float64) {
	for _, m := range s.samples {
		fits := m.name == name
		for _, label := range labels {
			key, value, _ := strings.Cut(label, "=")
			fits = fits && m.labels[key] == value
		}
		if fits {
			sum += m.value
		}
	}
	return sum
}

// with adds what another scrape tells of one metric.
func (s scraped) with(other scraped, name string) scraped {
	s.samples, s.help, s.kind = slices.Clone(s.samples), maps.Clone(s.help), maps.Clone(s.kind)
	s.help[name], s.kind[name] = other.help[name], other.kind[name]
	for _, m := range other.samples {
		if m.name == name {
			s.samples = append(s.samples, m)
		}
	}
	return s
}

// ask is what the daemon answers to a token; "" gives none.
func (s remoteSite) ask(t *testing.T, base, path, token string) (status int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} //nolint:gosec // of a test
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func (s remoteSite) scrape(t *testing.T) scraped {
	t.Helper()
	status, text := s.ask(t, "https://"+s.address, "/metrics", readingToken)
	if status != http.StatusOK {
		t.Fatalf("a scrape with the reading token is answered %d: %s", status, text)
	}
	return readScrape(t, text)
}

// A scrape of a daemon that has installed nodes: what it counted is what happened,
// promtool finds nothing wrong with it, and it tells nothing that it must not.
func TestAScrapeOfTheDaemonAfterARun(t *testing.T) {
	t.Parallel()
	const up, imageSize, binarySize = 3, 256 << 10, 64 << 10
	s := newRemoteSite(t, startFleet(t, fleet.Config{Nodes: up + 2, KernelTime: time.Second, Adjust: func(m *fleet.Machine) {
		if m.Name == "node-04" {
			m.Password = "another-password"
		}
	}}))
	before := s.scrape(t)
	provision(t, "hold", "node-05", "--cluster", "demo", "--reason", "a disk is changed", "--config", s.admin).says(t, exitDone)
	boot := "http://" + s.fleet.Controller()
	if status, _ := s.ask(t, boot, "/boot.ipxe?serial=STRANGER-1&mac=02-00-00-00-00-01&arch=x86_64&platform=efi", ""); status != http.StatusOK {
		t.Errorf("a stranger's script is answered %d", status)
	}
	s.daemon.begin()
	var during scraped
	s.daemon.until("nodes to be on their way", func() bool {
		during = s.scrape(t)
		return during.sum("provision_node_longest_in_state_seconds", "state=Booting", "cluster=demo") > 0
	})
	if n := during.sum("provision_runs_active"); n != 1 {
		t.Errorf("%v runs go on, want 1", n)
	}
	s.daemon.finished()
	after := s.scrape(t)
	if n := after.sum("provision_node_longest_in_state_seconds"); n != 0 {
		t.Errorf("after the run a node is %v s on its way", n)
	}
	whole := after.with(during, "provision_node_longest_in_state_seconds")

	t.Run("counts what happened", func(t *testing.T) { checkRun(t, after, up) })
	t.Run("counts bytes", func(t *testing.T) {
		for what, least := range map[float64]float64{
			after.sum("provision_http_sent_bytes_total", "kind=kernel"):    up * imageSize,
			after.sum("provision_http_sent_bytes_total", "kind=initramfs"): up * imageSize,
			after.sum("provision_tftp_sent_bytes_total"):                   up * binarySize,
			after.sum("provision_assets_downloaded_bytes_total"):           2 * imageSize,
			after.sum("provision_assets_size_bytes"):                       2 * imageSize,
			after.sum("provision_assets_disk_free_bytes"):                  1,
		} {
			if what < least {
				t.Errorf("%v bytes are counted, want %v or more", what, least)
			}
		}
	})
	t.Run("begins at zero", func(t *testing.T) {
		for _, name := range []string{"provision_power_ons_total", "provision_boot_scripts_total", "provision_tftp_sent_bytes_total", "provision_bmc_requests_total", "provision_dhcp_packets_total"} {
			if n := before.sum(name); n != 0 {
				t.Errorf("%s is %v before anything happened", name, n)
			}
		}
	})
	t.Run("is as promtool wants it", func(t *testing.T) {
		if said := promtool(t, after.text, "check", "metrics"); said != "" {
			t.Errorf("promtool check metrics says:\n%s", said)
		}
	})
	t.Run("is documented", func(t *testing.T) { checkMetricsTable(t, whole) })
	t.Run("has what dashboard and alerts ask for", func(t *testing.T) { checkNames(t, whole) })
	t.Run("has a bounded number of series", func(t *testing.T) {
		ours := 0
		for _, m := range whole.samples {
			if strings.HasPrefix(m.name, "provision_") {
				ours++
			}
		}
		if ours > mostSeries {
			t.Errorf("%d series, docs/metrics.md promises fewer than %d", ours, mostSeries)
		}
		if !strings.Contains(textOf(t, metricsDocs), fmt.Sprintf("fewer than %d", mostSeries)) {
			t.Errorf("docs/metrics.md does not say that there are fewer than %d series", mostSeries)
		}
		t.Logf("%d series", ours)
	})
	t.Run("names no machine", func(t *testing.T) {
		var names []string
		for _, m := range s.fleet.Machines() {
			names = append(names, m.Name, m.IP.String(), m.Hardware.Serial, m.Hardware.UUID, m.BMC().URL())
			names = append(names, m.Hardware.MACs...)
			names = append(names, m.BMC().Tokens()...)
		}
		checkLabels(t, whole, append(names, "STRANGER-1", "provisioner", "fleet-bmc-password", "another-password", adminToken, readingToken))
	})
	t.Run("is for who may read", func(t *testing.T) { checkAdminPlane(t, s, boot) })
}

// checkRun compares a scrape with a run in which so many nodes came up, one had another
// password and one was held.
func checkRun(t *testing.T, s scraped, up float64) {
	t.Helper()
	type expect struct {
		name   string
		labels []string
	}
	for _, test := range []struct {
		expect
		want float64
	}{
		{expect{"provision_nodes", []string{"state=Maintenance", "cluster=demo"}}, up},
		{expect{"provision_nodes", []string{"state=Failed"}}, 1},
		{expect{"provision_nodes", []string{"state=Held"}}, 1},
		{expect{"provision_nodes_held_by_a_person", nil}, 1},
		{expect{"provision_inventory_nodes", nil}, up + 2},
		{expect{"provision_site_leader", nil}, 1},
		{expect{"provision_state_reachable", nil}, 1},
		{expect{"provision_runs_active", nil}, 0},
		{expect{"provision_unknown_machines", nil}, 1},
		{expect{"provision_power_ons_total", nil}, up},
		{expect{"provision_node_retries_total", nil}, 0},
		{expect{"provision_node_failures_total", []string{"outcome=failed", "cause=BMC authentication"}}, 1},
		{expect{"provision_node_failures_total", []string{"outcome=held"}}, 1},
		{expect{"provision_step_duration_seconds_count", []string{"state=PowerCycled", "outcome=advanced"}}, up},
		{expect{"provision_step_duration_seconds_count", []string{"state=Booting", "outcome=advanced"}}, up},
		{expect{"provision_boot_scripts_total", []string{"kind=install"}}, up},
		{expect{"provision_boot_scripts_total", []string{"kind=unknown"}}, 1},
		{expect{"provision_http_requests_total", []string{"kind=kernel", "status=200"}}, up},
		{expect{"provision_http_requests_total", []string{"kind=script"}}, s.sum("provision_boot_script_duration_seconds_count")},
		{expect{"provision_tftp_transfers_total", []string{"outcome=failed"}}, 0},
		{expect{"provision_dhcp_ignored_total", []string{"reason=malformed"}}, 0},
		{expect{"provision_assets_downloads_total", []string{"outcome=done"}}, 2},
		{expect{"provision_assets_downloads_total", []string{"outcome=failed"}}, 0},
		{expect{"provision_bmc_requests_total", []string{"operation=power", "outcome=ok"}}, up},
		{expect{"provision_bmc_requests_total", nil}, s.sum("provision_bmc_request_duration_seconds_count")},
		{expect{"provision_build_info", []string{"version=" + version}}, 1},
	} {
		if got := s.sum(test.name, test.labels...); got != test.want {
			t.Errorf("%s %v is %v, want %v", test.name, test.labels, got, test.want)
		}
	}
	for _, least := range []struct {
		expect
		least float64
	}{
		{expect{"provision_dhcp_replies_total", []string{"type=ACK"}}, 2 * up}, // the firmware's and iPXE's
		{expect{"provision_dhcp_packets_total", []string{"type=DISCOVER"}}, 2 * up},
		{expect{"provision_dhcp_leases", nil}, up},
		{expect{"provision_dhcp_pool_addresses", nil}, 1000},
		{expect{"provision_tftp_transfers_total", []string{"outcome=done"}}, up},
		{expect{"provision_bmc_requests_total", []string{"outcome=unauthorized"}}, 1},
		{expect{"provision_bmc_requests_total", []string{"operation=session", "outcome=ok"}}, up},
		{expect{"provision_assets_opens_total", []string{"result=hit"}}, 2 * up},
	} {
		if got := s.sum(least.name, least.labels...); got < least.least {
			t.Errorf("%s %v is %v, want %v or more", least.name, least.labels, got, least.least)
		}
	}
}

// checkLabels looks for what no label may tell (I9).
func checkLabels(t *testing.T, s scraped, secrets []string) {
	t.Helper()
	values := map[string]bool{}
	for _, m := range s.samples {
		for _, value := range m.labels {
			values[value] = true
		}
	}
	if len(values) < 50 || !values["demo"] && !values["prod"] {
		t.Errorf("only %d label values are there: the test does not see what it is for", len(values))
	}
	for _, secret := range secrets {
		if secret == "" {
			t.Error("one of what must not be told is empty")
			continue
		}
		for value := range values {
			if strings.Contains(strings.ToLower(value), strings.ToLower(secret)) {
				t.Errorf("the label value %q tells %.6s…", value, secret)
			}
		}
	}
}

// checkAdminPlane: metrics and profiles are for who may have them, and never where
// machines boot; health is for everybody.
func checkAdminPlane(t *testing.T, s remoteSite, boot string) {
	t.Helper()
	admin := "https://" + s.address
	for _, test := range []struct {
		base, path, token string
		want              int
	}{
		{admin, "/metrics", "", http.StatusUnauthorized},
		{admin, "/metrics", adminToken, http.StatusOK},
		{admin, "/debug/pprof/", "", http.StatusUnauthorized},
		{admin, "/debug/pprof/", readingToken, http.StatusForbidden},
		{admin, "/debug/pprof/heap", readingToken, http.StatusForbidden},
		{admin, "/debug/pprof/heap", adminToken, http.StatusOK},
		{admin, "/healthz", "", http.StatusOK},
		{admin, "/readyz", "", http.StatusOK},
		{boot, "/healthz", "", http.StatusOK},
		{boot, "/metrics", adminToken, http.StatusNotFound},
		{boot, "/debug/pprof/", adminToken, http.StatusNotFound},
		{boot, "/debug/pprof/heap", adminToken, http.StatusNotFound},
		{boot, "/debug/pprof/cmdline", "", http.StatusNotFound},
	} {
		if status, body := s.ask(t, test.base, test.path, test.token); status != test.want {
			t.Errorf("%s%s is answered %d, want %d: %.200s", test.base, test.path, status, test.want, body)
		}
	}
}

// mostSeries is how many series a site with one cluster has at most.
const mostSeries = 700

// Where the table of metrics stands in the documentation.
const (
	metricsDocs  = "../../docs/metrics.md"
	metricsBegin = "<!-- metrics: written by UPDATE=1 go test ./cmd/provision -run ScrapeOfTheDaemon -->\n"
	metricsEnd   = "<!-- end of metrics -->\n"
)

// checkMetricsTable compares the documentation with what a scrape says of itself.
func checkMetricsTable(t *testing.T, s scraped) {
	t.Helper()
	labels := map[string]map[string]bool{}
	for _, m := range s.samples {
		name := m.name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(name, suffix); s.kind[base] == "histogram" {
				name = base
			}
		}
		if labels[name] == nil {
			labels[name] = map[string]bool{}
		}
		for label := range m.labels {
			if label != "le" {
				labels[name]["`"+label+"`"] = true
			}
		}
	}
	var table strings.Builder
	table.WriteString("| metric | type | labels | what it tells |\n| --- | --- | --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(s.help)) {
		if strings.HasPrefix(name, "provision_") {
			fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", name, s.kind[name], strings.Join(slices.Sorted(maps.Keys(labels[name])), ", "), s.help[name])
		}
	}
	text := textOf(t, metricsDocs)
	head, rest, found := strings.Cut(text, metricsBegin)
	old, tail, ends := strings.Cut(rest, metricsEnd)
	if !found || !ends {
		t.Fatalf("%s has no place for the table", metricsDocs)
	}
	if old == table.String() {
		return
	}
	if os.Getenv("UPDATE") == "" {
		t.Fatalf("%s is not what a scrape says; run UPDATE=1 go test ./cmd/provision -run ScrapeOfTheDaemon (-docs +scrape):\n%s", metricsDocs, cmp.Diff(old, table.String()))
	}
	if err := os.WriteFile(metricsDocs, []byte(head+metricsBegin+table.String()+metricsEnd+tail), 0o644); err != nil { //nolint:gosec // a page of the documentation
		t.Fatal(err)
	}
}

// I9: with machine configs and a cluster's keys at work, no label tells of them.
func TestI9NoMetricTellsAClustersSecrets(t *testing.T) {
	t.Parallel()
	s := newRemoteSite(t, newClusters(t, nil, one))
	provision(t, "--config", s.admin, "--cluster", "prod", "--yes", "-o", "json").says(t, exitDone, `"state":"Ready"`)
	scrape := s.scrape(t)
	for state, want := range map[string]float64{"Booting": 1, "Maintenance": 1, "Configured": 1, "Installed": 1, "Ready": 0} {
		if got := scrape.sum("provision_step_duration_seconds_count", "state="+state, "outcome=advanced"); got != want {
			t.Errorf("%v steps were %s, want %v", got, state, want)
		}
	}
	tokens := s.fleet.Machines()[0].BMC().Tokens()
	if len(tokens) == 0 {
		t.Error("no BMC session was opened")
	}
	config := textOf(t, filepath.Join(folderOf(s.fleet), "configs/prod/node-01.yaml"))
	access := textOf(t, filepath.Join(folderOf(s.fleet), "configs/prod/talosconfig"))
	secrets := slices.Concat(tokens, keyMaterial(t, config), keyMaterialOf(access))
	secrets = append(secrets, "fleet-bmc-password", adminToken, readingToken)
	checkLabels(t, scrape, secrets)
	for _, secret := range secrets {
		if strings.Contains(scrape.text, secret) {
			t.Errorf("the scrape tells %.6s…", secret)
		}
	}
}

// A daemon that is started anew goes on with a run, and counts no step that it did
// not see from its beginning: its pause is nobody's boot.
func TestARestartOfTheDaemonInventsNoDurations(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1, KernelTime: 3 * time.Second})
	s := newRemoteSite(t, f)
	events := s.daemon.watch()
	s.daemon.begin()
	await(t, events, "the node to boot", in("node-01", "Booting", ""))
	s.daemon.kill()
	s.daemon = startDaemon(t, f)
	s.daemon.until("the node to be up", func() bool { return s.daemon.node("node-01") == "Maintenance" })
	scrape := s.scrape(t)
	if n := scrape.sum("provision_step_duration_seconds_count"); n != 0 {
		t.Errorf("%v steps were measured, none was seen from its beginning:\n%s", n, scrape.text)
	}
	if n := scrape.sum("provision_power_ons_total"); n != 0 {
		t.Errorf("%v power-ons are counted of a node that was on", n)
	}
}
