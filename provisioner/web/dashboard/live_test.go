package dashboard_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
	"github.com/talos-provision/provision/provisioner/web/dashboard"
	"github.com/talos-provision/provision/provisioner/web/dashboard/dashboardtest"
)

// change brings a node into a state, and tells of it.
func change(p *pages, i int, state, message string) {
	p.control.Change(func(d *dashboardtest.Data) {
		d.Nodes[i].State, d.Nodes[i].Message, d.Nodes[i].Error = state, message, ""
	}, p.event(i, state, message))
}

func (p *pages) event(i int, state, message string) store.Event {
	nodes, _ := p.control.Nodes(p.t.Context(), "")
	return store.Event{Time: moment, Run: nodes[i].Run, Cluster: nodes[i].Cluster, Node: nodes[i].Name, State: state, Message: message}
}

var swapIDs = regexp.MustCompile(`<template><[a-z0-9]+ hx-swap-oob="true" id="([^"]*)"`)

// changed are the ids of the elements of an update, but for the time and the counts of the navigation.
func changed(message string) (ids []string) {
	for _, m := range swapIDs.FindAllStringSubmatch(message, -1) {
		if m[1] != "beat" && !strings.HasPrefix(m[1], "nav-count") {
			ids = append(ids, m[1])
		}
	}
	return ids
}

func TestARowThatChangesIsSentAlone(t *testing.T) {
	t.Parallel()
	p := serve(t, ofTwelve(), nil)
	f := p.follow("/clusters/k8s-prod")
	if first := f.next(); len(nodesIn(first)) != 6 || !strings.Contains(first, `<tbody hx-swap-oob="true" id="node-rows">`) {
		t.Fatalf("who comes is not told all: %v", changed(first))
	}
	change(p, 0, "Booting", "kernel 7 % of 20 MB")
	m := f.news()
	if got := nodesIn(m); len(got) != 1 || got[0] != "k8s-prod/node-01" || !strings.Contains(m, "kernel 7 % of 20 MB") || strings.Contains(m, "node-rows") {
		t.Errorf("a row has changed, and the update is of %v", changed(m))
	}
	if !strings.Contains(m, `id="nodes-bar"`) || strings.Contains(m, `id="nodes-counts"`) {
		t.Errorf("the bar is to follow at once, and what is read aloud calmly: %v", changed(m))
	}
	// Another cluster's node is no news here.
	change(p, 8, "Booting", "elsewhere")
	for range 3 {
		if m := f.next(); strings.Contains(m, "elsewhere") || len(nodesIn(m)) > 0 {
			t.Errorf("the update is of %v", changed(m))
		}
	}
}

func TestRowsThatMoveAreSentTogether(t *testing.T) {
	t.Parallel()
	p := serve(t, ofTwelve(), nil)
	f := p.follow("/clusters/k8s-prod?sort=state")
	before := nodesIn(f.next())
	change(p, 0, "Failed", "")
	m := f.news()
	after := nodesIn(m)
	if before[0] != "k8s-prod/node-05" || len(after) != 6 || after[0] != "k8s-prod/node-01" || !strings.Contains(m, `id="node-rows"`) {
		t.Errorf("the order was %v and is %v", before, after)
	}
}

func TestEachPageIsFollowed(t *testing.T) {
	t.Parallel()
	p := serve(t, upgraded(ofTwelve()), nil)
	streams := map[string]*follower{}
	pages := []string{"/", "/nodes", "/nodes/k8s-prod/node-01", "/runs", "/runs/20261130T203112Z-k8s-prod", "/unknown", "/collisions", "/inventory", "/runs/upgrade-1"}
	for _, path := range pages {
		f := p.follow(path)
		streams[path] = f
		body, first := p.get(path), f.next()
		for _, id := range changed(first) {
			if !strings.Contains(body, `id="`+id+`"`) {
				t.Errorf("%s is sent an element %s that it does not have", path, id)
			}
		}
		if len(changed(first)) == 0 {
			t.Errorf("%s is sent nothing at first", path)
		}
	}
	p.control.Change(func(d *dashboardtest.Data) {
		d.Nodes[0].State, d.Nodes[0].Error, d.Nodes[0].Cause = "Failed", "it burns", "power"
		d.Runs[0].States, d.Runs[0].Finished = map[string]int{"Failed": 6}, moment
		d.Unknown, d.Collisions, d.Inventory.Nodes = d.Unknown[:1], d.Collisions[:1], 77
		d.Upgrades[0].Nodes = []web.UpgradeNode{{Node: "node-02", State: "Rebooting"}}
	}, p.event(0, "Failed", ""))
	for path, want := range map[string]string{
		"/": "it burns", "/nodes": "it burns", "/nodes/k8s-prod/node-01": "it burns", "/runs": "ended", "/runs/20261130T203112Z-k8s-prod": "it burns",
		"/unknown": "unknown-rows", "/collisions": "collision-list", "/inventory": "77", "/runs/upgrade-1": "Rebooting",
	} {
		m := streams[path].news()
		for !strings.Contains(m, want) { // patience is in news
			m = streams[path].news()
		}
	}
}

func TestAStormOfEventsIsOneUpdateAPace(t *testing.T) {
	t.Parallel()
	const pace = 150 * time.Millisecond
	p := serve(t, dashboardtest.Fleet(dashboardtest.Size{Clusters: 6, Nodes: 1000}, moment), func(o *dashboard.Options) { o.Pace = pace })
	streams := make([]*follower, 5)
	for i := range streams {
		streams[i] = p.follow("/clusters/k8s-prod")
	}
	for _, f := range streams {
		f.next()
	}
	asked, began := p.control.Asked(), time.Now()
	for i := range 300 {
		change(p, i%90, "Booting", fmt.Sprintf("step %d", i))
		if i%10 == 0 {
			time.Sleep(10 * time.Millisecond) // events come over time: it is what is tested
		}
	}
	last := fmt.Sprintf("step %d", 299)
	most := 0
	for _, f := range streams {
		updates := 0
		for m := ""; !strings.Contains(m, last); updates++ {
			if m = f.next(); time.Since(began) > patience {
				t.Fatal("the last event is never shown")
			}
		}
		most = max(most, updates)
	}
	// The picture is taken once for all viewers, at most every 400 ms.
	took := time.Since(began)
	if limit := int(took/pace) + 2; most > limit {
		t.Errorf("%d updates in %s, want at most %d", most, took, limit)
	}
	if n, limit := p.control.Asked()-asked-300, int(took/(400*time.Millisecond))+2; n > limit {
		t.Errorf("all nodes were asked for %d times in %s, want at most %d", n, took, limit)
	}
}

// A picture of the fleet that is shared may be older than the event that a viewer was told of.
func TestWhatIsShownIsNotOlderThanItsEvent(t *testing.T) {
	t.Parallel()
	p := serve(t, ofTwelve(), func(o *dashboard.Options) { o.Heartbeat = time.Hour })
	f := p.follow("/clusters/k8s-prod")
	f.next()
	for i := range 3 {
		p.get("/") // which has a fresh picture taken
		change(p, 0, "Booting", fmt.Sprintf("step %d", i))
		if m := f.news(); !strings.Contains(m, fmt.Sprintf("step %d", i)) {
			t.Errorf("after event %d the viewer is told %v", i, changed(m))
		}
	}
}

func TestWhoComesBackMissesNothing(t *testing.T) {
	t.Parallel()
	p := serve(t, ofTwelve(), nil)
	f := p.follow("/clusters/k8s-prod")
	f.next()
	f.cancel()
	until(t, "the viewer to be gone", func() bool { return p.control.Followers() == 0 })
	change(p, 2, "Held", "while nobody looked")
	until(t, "a fresh picture", func() bool { return strings.Contains(p.get("/clusters/k8s-prod"), "while nobody looked") })
	if m := p.follow("/clusters/k8s-prod").next(); !strings.Contains(m, "while nobody looked") {
		t.Errorf("who comes back is told %v", changed(m))
	}
}

func TestEventsAreFollowedOnceAndOnlyWhileSomebodyLooks(t *testing.T) {
	t.Parallel()
	p := serve(t, ofTwelve(), nil)
	p.get("/")
	if n := p.control.Followers(); n != 0 {
		t.Errorf("%d follow the events before anybody looks", n)
	}
	a, b := p.follow("/"), p.follow("/nodes")
	a.next()
	b.next()
	until(t, "somebody to follow", func() bool { return p.control.Followers() == 1 })
	a.cancel()
	change(p, 0, "Booting", "for the one who stayed")
	if m := b.news(); !strings.Contains(m, "for the one who stayed") || p.control.Followers() != 1 {
		t.Errorf("%d follow, and the other viewer is told %v", p.control.Followers(), changed(m))
	}
	b.cancel()
	until(t, "the following to end", func() bool { return p.control.Followers() == 0 })
}

func TestPagesThatAreFollowedAreBounded(t *testing.T) {
	t.Parallel()
	p := serve(t, ofTwelve(), func(o *dashboard.Options) { o.MaxViewers = 2 })
	a, b := p.follow("/"), p.follow("/")
	a.next()
	b.next()
	response, _ := p.do(http.MethodGet, "/live?page=/", "")
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
		t.Errorf("the third viewer gets status %d", response.StatusCode)
	}
	a.cancel()
	until(t, "a place", func() bool {
		f := p.follow("/")
		defer f.cancel()
		return f.status == http.StatusOK
	})
}

func TestASilentPageShowsThatItIsFollowed(t *testing.T) {
	t.Parallel()
	now := moment
	p := serve(t, ofTwelve(), func(o *dashboard.Options) {
		o.Heartbeat = 30 * time.Millisecond
		o.Now = func() time.Time { return now }
	})
	f := p.follow("/collisions")
	f.next()
	for range 3 {
		if m := f.next(); len(changed(m)) != 0 || !strings.Contains(m, `<span hx-swap-oob="true" id="beat">as of <time datetime="2026-11-30T21:30:00Z">`) {
			t.Errorf("a heartbeat is %q", m)
		}
	}
}

func TestTimesThatPassAreNoNews(t *testing.T) {
	t.Parallel()
	clock := newClock(moment)
	p := serve(t, ofTwelve(), func(o *dashboard.Options) { o.Now, o.Heartbeat = clock.now, 30*time.Millisecond })
	f := p.follow("/clusters/k8s-prod")
	f.next()
	clock.add(3 * time.Minute)
	for range 3 {
		if m := f.next(); len(nodesIn(m)) > 0 {
			t.Errorf("time has passed, and the update is of %v", changed(m))
		}
	}
}
