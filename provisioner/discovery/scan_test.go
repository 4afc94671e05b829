package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/inventory"
)

const password = "discovery-test-password" //nolint:gosec // opens emulated BMCs on loopback only

// start serves one emulated BMC over HTTPS on loopback.
func start(t *testing.T, config redfishtest.Config) *redfishtest.Service {
	t.Helper()
	config.Username = "provisioner"
	if config.Password == "" {
		config.Password = password
	}
	service := redfishtest.New(config)
	if err := service.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(service.Close)
	return service
}

// server is the n-th board of a vendor, four in a chassis.
func server(profile redfishtest.Profile, n int) redfishtest.Config {
	return redfishtest.Config{
		Profile: profile, Model: "R1", Serial: fmt.Sprintf("S4CHASSIS%03d", n/4), ChassisSerial: fmt.Sprintf("C4CHASSIS%03d", n/4),
		BoardSerial: fmt.Sprintf("ZM4BOARD%04d", n), UUID: fmt.Sprintf("7a1e0000-0000-4000-8000-0cc47a%06x", n+1),
		MACs: []string{fmt.Sprintf("0c:c4:7a:00:00:%02x", n+1)},
	}
}

// scanner logs in as a run does.
func scanner() Scanner {
	return Scanner{Dial: func(ctx context.Context, n inventory.Node) (BMC, error) {
		client, err := bmc.Dial(ctx, bmc.Config{
			Address: n.BMC.Address, Username: n.BMC.Username, Password: password, Insecure: n.BMC.Insecure, System: n.BMC.System, Expected: n.Facts(),
		})
		if err != nil {
			return nil, err
		}
		return client, nil
	}}
}

var account = inventory.BMC{Username: "provisioner", PasswordEnv: "BMC_PASSWORD", Insecure: true}

// jobs asks these addresses, with the nodes that have them.
func jobs(t *testing.T, tree *inventory.Tree, addresses ...string) []Job {
	t.Helper()
	targets, err := ParseTargets(strings.Join(addresses, ","), 0, func(string) bool { return false }, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]Job, 0, len(targets))
	for _, target := range targets {
		job := Job{Target: target, BMC: account}
		for i := range tree.Nodes {
			if endpoint, err := Endpoint(tree.Nodes[i].BMC.Address, 443); err == nil && endpoint == target.Endpoint {
				job.Node = &tree.Nodes[i]
			}
		}
		all = append(all, job)
	}
	return all
}

func scan(t *testing.T, s Scanner, all []Job) ([]Sighting, bool) {
	t.Helper()
	seen, stopped, err := s.Scan(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	return seen, stopped
}

// Every vendor's BMC becomes a file, the files load without an error, and a
// second discovery has nothing to add.
func TestBMCsOfAllVendorsBecomeAnInventory(t *testing.T) {
	t.Parallel()
	count := 2 * len(redfishtest.Profiles())
	services, addresses := make([]*redfishtest.Service, 0, count), make([]string, 0, count)
	for i, profile := range redfishtest.Profiles() {
		for n := range 2 {
			s := start(t, server(profile, 4*i+n))
			services, addresses = append(services, s), append(addresses, s.URL())
		}
	}
	dir := t.TempDir()
	put(t, dir, "_defaults.yaml", "bmc: {username: provisioner, passwordEnv: BMC_PASSWORD, insecure: true}\n")
	tree := load(t, dir)
	options := Options{Inventory: dir, Cluster: "prod", NameFormat: "node-%02d"}
	seen, _ := scan(t, scanner(), jobs(t, tree, addresses...))
	report, err := Propose(seen, tree, options)
	if err != nil {
		t.Fatal(err)
	}
	if findings, err := Check(dir, report.Changes); err != nil || len(findings) > 0 {
		t.Fatal(findings, err)
	}
	written, err := Write(dir, report.Changes)
	if err != nil || len(written) != len(services) {
		t.Fatalf("%d files written, want %d: %v", len(written), len(services), err)
	}
	tree = load(t, dir)
	for i, n := range tree.Nodes {
		if n.Install || n.BMC.Address != services[i].URL() || n.BMC.Username != "provisioner" {
			t.Errorf("%s is %+v, want the BMC %s and not to be installed", n.Name, n, services[i].URL())
		}
		if n.UUID == "" && n.BoardSerial == "" && len(n.MACs) == 0 {
			t.Errorf("%s (%s) has nothing of its own:\n%s", n.Name, n.BMC.Address, read(t, dir, n.File))
		}
	}
	for _, s := range services {
		if s.OpenSessions() > 0 || len(s.Resets()) > 0 || s.MaxInFlight() > 1 {
			t.Errorf("%s: %d sessions open, resets %v, %d requests at once (I10)", s.URL(), s.OpenSessions(), s.Resets(), s.MaxInFlight())
		}
	}
	seen, _ = scan(t, scanner(), jobs(t, tree, addresses...))
	again, err := Propose(seen, tree, options)
	if err != nil || again.Count(Unchanged) != len(services) || len(again.Changes) > 0 {
		t.Errorf("a second discovery changes %+v, %v", again.Changes, err)
	}
}

// A wrong password is tried once at each of three BMCs, and at no other.
func TestThreeRefusalsInARowStopTheScan(t *testing.T) {
	t.Parallel()
	services, addresses := make([]*redfishtest.Service, 0, 12), make([]string, 0, 12)
	for n := range 12 {
		config := server(redfishtest.Supermicro(), n)
		config.Password = "another-password"
		s := start(t, config)
		services, addresses = append(services, s), append(addresses, s.URL())
	}
	seen, stopped := scan(t, scanner(), jobs(t, &inventory.Tree{}, addresses...))
	refusals := 0
	for _, s := range services {
		if n := s.RefusedLogins(); n > 1 {
			t.Errorf("%s refused %d log-ins, want one attempt", s.URL(), n)
		}
		refusals += s.RefusedLogins()
	}
	if refusals != 3 || !stopped {
		t.Errorf("%d refusals, stopped %t: want a stop after 3", refusals, stopped)
	}
	count := map[Status]int{}
	for _, s := range seen {
		count[s.Status]++
		if s.Err != nil && strings.Contains(s.Err.Error(), password) {
			t.Errorf("the password is told (I9): %v", s.Err)
		}
	}
	if count[Refused] != 3 || count[NotAsked] != 9 {
		t.Errorf("outcomes %v, want 3 refused and 9 not asked", count)
	}
}

func TestOneWrongPasswordAmongRightOnesDoesNotStopTheScan(t *testing.T) {
	t.Parallel()
	addresses := make([]string, 0, 8)
	for n := range 8 {
		config := server(redfishtest.HPE(), n)
		if n%3 == 0 {
			config.Password = "another-password"
		}
		addresses = append(addresses, start(t, config).URL())
	}
	// One at a time, so that refusals and successes come in this order.
	var seen []Sighting
	var one sync.Mutex
	s := scanner()
	dial := s.Dial
	s.Dial = func(ctx context.Context, n inventory.Node) (BMC, error) {
		one.Lock()
		defer one.Unlock()
		return dial(ctx, n)
	}
	seen, stopped := scan(t, s, jobs(t, &inventory.Tree{}, addresses...))
	var refused []int
	for i, s := range seen {
		if s.Status == Refused {
			refused = append(refused, i)
		}
	}
	// Three refusals can still follow each other, when the right ones answer late.
	if !stopped && !slices.Equal(refused, []int{0, 3, 6}) {
		t.Errorf("refused %v, want 0, 3 and 6", refused)
	}
}

func TestSilentAddressesAndOtherServersAreTold(t *testing.T) {
	t.Parallel()
	var listen net.ListenConfig
	silent, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := silent.Addr().String()
	_ = silent.Close()
	good := start(t, server(redfishtest.Dell(), 1))
	untrusted := jobs(t, &inventory.Tree{}, good.URL(), closed)
	untrusted = append(untrusted, untrusted[0])
	untrusted[2].BMC.Insecure = false
	var told []string
	s := scanner()
	s.OnSighting = func(done, total int, _ Sighting) { told = append(told, fmt.Sprintf("%d/%d", done, total)) }
	seen, stopped := scan(t, s, untrusted)
	if stopped || seen[0].Status != Answered || seen[1].Status != Unreachable {
		t.Errorf("stopped %t, %+v", stopped, seen)
	}
	if seen[2].Status != Failed || !strings.Contains(seen[2].Err.Error(), "certificate") {
		t.Errorf("untrusted: %s %v", seen[2].Status, seen[2].Err)
	}
	if !slices.Equal(told, []string{"1/3", "2/3", "3/3"}) {
		t.Errorf("progress %v", told)
	}
}

func TestACancelledScanEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := scanner()
	s.Dial = func(ctx context.Context, _ inventory.Node) (BMC, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	good := start(t, server(redfishtest.Dell(), 1))
	many := slices.Repeat(jobs(t, &inventory.Tree{}, good.URL()), 200)
	ended := make(chan error, 1)
	go func() {
		_, _, err := s.Scan(ctx, many)
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the scan goes on")
	}
}

// Many BMCs with the right password are soon asked side by side, and never
// more than 64.
func TestTheScanIsParallelAndBounded(t *testing.T) {
	t.Parallel()
	const count = 150
	var mu sync.Mutex
	inFlight, most := 0, 0
	s := Scanner{Dial: func(context.Context, inventory.Node) (BMC, error) {
		return slowBMC{enter: func() {
			mu.Lock()
			defer mu.Unlock()
			inFlight++
			most = max(most, inFlight)
		}, leave: func() {
			mu.Lock()
			defer mu.Unlock()
			inFlight--
		}}, nil
	}}
	good := start(t, server(redfishtest.Generic(), 1))
	all := slices.Repeat(jobs(t, &inventory.Tree{}, good.URL()), count)
	seen, _ := scan(t, s, all)
	if len(seen) != count || most > 64 || most < 8 {
		t.Errorf("%d asked, %d at once: want %d, at most 64 and not few", len(seen), most, count)
	}
}

type slowBMC struct{ enter, leave func() }

func (b slowBMC) Identify(ctx context.Context) (bmc.Identity, error) {
	b.enter()
	defer b.leave()
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
	}
	return bmc.Identity{}, nil
}

func (slowBMC) Close(context.Context) error { return nil }
