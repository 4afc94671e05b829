package web_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
)

// inPlans lets go-cmp pass over what a plan keeps for the controller.
var inPlans = cmpopts.IgnoreUnexported(provisioner.PlanNode{}, provisioner.Plan{})

// everyCall is each call of the API, what it must return, and what the daemon must have been asked.
func everyCall() []struct {
	name  string
	call  func(context.Context, *web.Client) (any, error)
	want  any
	asked any
} {
	request := web.RunRequest{
		Cluster: "prod", Nodes: "node-[01-09]", Selector: "rack=a1", Exclude: "node-03", Reinstall: "node-04", Until: "ready", MaxFailures: "10%", Digest: "sha256:4711",
	}
	type row = struct {
		name  string
		call  func(context.Context, *web.Client) (any, error)
		want  any
		asked any
	}
	return []row{
		{"plan", func(ctx context.Context, c *web.Client) (any, error) { return c.Plan(ctx, request) }, aPlan(), request},
		{"start", func(ctx context.Context, c *web.Client) (any, error) { return c.Start(ctx, request) }, someRuns()[0], request},
		{"runs", func(ctx context.Context, c *web.Client) (any, error) { return c.Runs(ctx) }, someRuns(), "runs"},
		{"run", func(ctx context.Context, c *web.Client) (any, error) { return c.Run(ctx, "run-1") }, someRuns()[1], "runs"},
		{"wait", func(ctx context.Context, c *web.Client) (any, error) { return c.Wait(ctx, "run-1") }, someRuns()[1], "runs"},
		{"stop", func(ctx context.Context, c *web.Client) (any, error) { return nil, c.Stop(ctx, "a/b c") }, nil, "stop a/b c"},
		{"nodes", func(ctx context.Context, c *web.Client) (any, error) { return c.Nodes(ctx, "prod&x") }, []store.Node{aNode("node-01", "Ready")}, "nodes prod&x"},
		{"fleet", func(ctx context.Context, c *web.Client) (any, error) { return c.Fleet(ctx, "prod&x") }, someFleet(), "fleet prod&x"},
		{"detail", func(ctx context.Context, c *web.Client) (any, error) { return c.Detail(ctx, "prod", "node/1") }, aDetail(), "detail prod node/1"},
		{"collisions", func(ctx context.Context, c *web.Client) (any, error) { return c.Collisions(ctx) }, someCollisions(), "collisions"},
		{"upgrades", func(ctx context.Context, c *web.Client) (any, error) { return c.Upgrades(ctx) }, someUpgrades(), "upgrades"},
		{"plan an upgrade", func(ctx context.Context, c *web.Client) (any, error) { return c.PlanUpgrade(ctx, anUpgradeRequest()) },
			web.UpgradePlanAnswer{Digest: "sha256:4711", Plan: map[string]any{"cluster": "prod"}}, anUpgradeRequest()},
		{"start an upgrade", func(ctx context.Context, c *web.Client) (any, error) { return c.StartUpgrade(ctx, anUpgradeRequest()) }, someUpgrades()[0], anUpgradeRequest()},
		{"stop an upgrade", func(ctx context.Context, c *web.Client) (any, error) { return nil, c.StopUpgrade(ctx, "a/b") }, nil, "stop upgrade a/b"},
		{"abandon an upgrade", func(ctx context.Context, c *web.Client) (any, error) { return c.AbandonUpgrade(ctx, "prod") }, someUpgrades()[0], "abandon prod"},
		{"wait for an upgrade", func(ctx context.Context, c *web.Client) (any, error) { return c.WaitUpgrade(ctx, "prod", "upgrade-1") }, someUpgrades()[0], "upgrades"},
		{"unknown", func(ctx context.Context, c *web.Client) (any, error) { return c.Unknown(ctx) }, someUnknown(), "unknown"},
		{"holds", func(ctx context.Context, c *web.Client) (any, error) { return c.Holds(ctx) }, []store.Hold{aHold()}, "holds"},
		{"release", func(ctx context.Context, c *web.Client) (any, error) { return nil, c.Release(ctx, "prod", "node/1") }, nil, "release prod node/1"},
		{"inventory", func(ctx context.Context, c *web.Client) (any, error) { return c.Inventory(ctx) }, anInventory(), "inventory"},
		{"reload", func(ctx context.Context, c *web.Client) (any, error) { return nil, c.Reload(ctx) }, nil, "reload"},
		{"backup", func(ctx context.Context, c *web.Client) (any, error) {
			var copied bytes.Buffer
			err := c.Backup(ctx, &copied)
			return copied.String(), err
		}, "the state", "backup"},
		{"alive", func(ctx context.Context, c *web.Client) (any, error) { return c.Alive(ctx) }, web.Health{OK: true, Checks: newFake().checks}, nil},
		{"ready", func(ctx context.Context, c *web.Client) (any, error) { return c.Ready(ctx) }, web.Health{OK: true, Checks: newFake().checks}, nil},
	}
}

func TestEveryCallOverEveryTransport(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	cert, key := ca.issue("daemon", x509.ExtKeyUsageServerAuth)
	clientCert, clientKey := ca.issue("alice", x509.ExtKeyUsageClientAuth)
	tokens := file(t, adminToken+"\n")
	for _, transport := range []struct {
		name     string
		options  web.Options
		endpoint func(*running) web.Endpoint
		by       string
	}{
		{"socket", web.Options{Socket: socket(t)}, func(r *running) web.Endpoint { return web.Endpoint{Socket: r.opts.Socket} }, ""},
		{"loopback", web.Options{Listen: "127.0.0.1:0", TokenFile: tokens}, func(r *running) web.Endpoint {
			return web.Endpoint{URL: r.url("http"), TokenFile: tokens}
		}, "token"},
		{"token over TLS", web.Options{Listen: "127.0.0.1:0", TokenFile: tokens, CertFile: cert, KeyFile: key}, func(r *running) web.Endpoint {
			return web.Endpoint{URL: r.url("https") + "/", TokenFile: tokens, CAFile: ca.file}
		}, "token"},
		{"mTLS", web.Options{Listen: "127.0.0.1:0", CertFile: cert, KeyFile: key, ClientCAFile: ca.file}, func(r *running) web.Endpoint {
			return web.Endpoint{URL: r.url("https"), CAFile: ca.file, CertFile: clientCert, KeyFile: clientKey}
		}, "certificate alice"},
	} {
		t.Run(transport.name, func(t *testing.T) {
			t.Parallel()
			if transport.name == "socket" {
				transport.by = ownName(t)
			}
			daemon := newFake()
			c := client(t, transport.endpoint(serve(t, daemon, transport.options)))
			if !c.Available(t.Context()) {
				t.Error("the daemon is not available")
			}
			for _, call := range everyCall() {
				got, err := call.call(t.Context(), c)
				if err != nil {
					t.Errorf("%s: %v", call.name, err)
					continue
				}
				if diff := cmp.Diff(call.want, got, inPlans); diff != "" {
					t.Errorf("%s: the answer differs from the daemon's (-want +got):\n%s", call.name, diff)
				}
				if call.asked == nil {
					continue
				}
				if asked, by := daemon.last(); !cmp.Equal(asked, call.asked) || by != transport.by {
					t.Errorf("%s: the daemon was asked %v for %q, want %v for %q", call.name, asked, by, call.asked, transport.by)
				}
			}
		})
	}
}

func TestAHoldSaysForWhomAndSinceWhen(t *testing.T) {
	t.Parallel()
	daemon := newFake()
	r := serve(t, daemon, web.Options{Socket: socket(t)})
	before := time.Now()
	got, err := client(t, web.Endpoint{Socket: r.opts.Socket}).Hold(t.Context(), "prod", "node-01", "  disk is on order ")
	if err != nil {
		t.Fatal(err)
	}
	want := store.Hold{Cluster: "prod", Node: "node-01", Reason: "disk is on order", By: ownName(t), Since: got.Since}
	asked, _ := daemon.last()
	if got != want || got.Since.Before(before) || got.Since.After(time.Now()) || asked != want {
		t.Errorf("the hold is %+v and was noted as %+v; want %+v", got, asked, want)
	}
}

func TestNothingIsAnEmptyList(t *testing.T) {
	t.Parallel()
	r := serve(t, newFake(), web.Options{Socket: socket(t)})
	nodes, err := client(t, web.Endpoint{Socket: r.opts.Socket}).Nodes(t.Context(), "empty")
	if err != nil || nodes == nil || len(nodes) != 0 {
		t.Errorf("no nodes come as %#v, %v; want an empty list", nodes, err)
	}
}

func TestHealthTellsAliveFromReadyAndStrangersLittle(t *testing.T) {
	t.Parallel()
	standby := []web.Check{{Name: "state", OK: true, Vital: true, What: "reachable"}, {Name: "leader", OK: false, What: "host b leads"}}
	broken := []web.Check{{Name: "state", OK: false, Vital: true, What: "the disk is full"}}
	for _, test := range []struct {
		name         string
		checks       []web.Check
		alive, ready bool
	}{{"all works", newFake().checks, true, true}, {"standby", standby, true, false}, {"broken", broken, false, false}, {"no checks", nil, true, true}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			daemon := newFake()
			daemon.checks = test.checks
			r := serve(t, daemon, web.Options{Socket: socket(t), Listen: "127.0.0.1:0"})
			for _, who := range []struct {
				endpoint web.Endpoint
				known    bool
			}{{web.Endpoint{Socket: r.opts.Socket}, true}, {web.Endpoint{URL: r.url("http")}, false}} {
				c := client(t, who.endpoint)
				alive, err := c.Alive(t.Context())
				ready, err2 := c.Ready(t.Context())
				if err != nil || err2 != nil || alive.OK != test.alive || ready.OK != test.ready || len(alive.Checks) != len(test.checks) {
					t.Errorf("alive %+v, %v; ready %+v, %v; want %t and %t", alive, err, ready, err2, test.alive, test.ready)
				}
				for i, check := range ready.Checks {
					if told := check.What == test.checks[i].What; told != who.known || check.Name != test.checks[i].Name {
						t.Errorf("who is known: %t, is told %+v", who.known, check)
					}
				}
			}
		})
	}
}
