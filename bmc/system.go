package bmc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/talos-provision/provision/inventory/identity"
)

const (
	defaultSystems = "/redfish/v1/Systems"
	// maxMembers and maxPages bound a collection; a nextLink that points to
	// itself would otherwise never end.
	maxMembers = 256
	maxPages   = 32
)

// system gives the chosen machine with a fresh reading of its system. The first
// call chooses.
func (c *Client) system(ctx context.Context) (*machine, *systemDocument, error) {
	c.mu.Lock()
	m := c.chosen
	c.mu.Unlock()
	if m != nil {
		sys, err := c.readSystem(ctx, m.path, readTries)
		return m, sys, err
	}
	sys, err := c.choose(ctx)
	if err != nil {
		return nil, nil, err
	}
	m = &machine{path: sys.path, vendor: detect(&c.root, sys, nil)}
	c.mu.Lock()
	c.chosen = m
	c.mu.Unlock()
	c.log.DebugContext(ctx, "system chosen", "system", sys.path, "vendor", m.vendor.name)
	return m, sys, nil
}

func (c *Client) readSystem(ctx context.Context, path string, tries int) (*systemDocument, error) {
	var raw json.RawMessage
	etag, err := c.fetch(ctx, request{method: http.MethodGet, path: path}, tries, &raw)
	if err != nil {
		return nil, fmt.Errorf("read the system: %w", err)
	}
	d := &systemDocument{path: path, raw: raw}
	if err := json.Unmarshal(raw, d); err != nil {
		return nil, fmt.Errorf("read the system: %w", &badDocument{path: path, err: err})
	}
	if d.etag = etag; etag == "" {
		d.etag = string(d.ETag)
	}
	return d, nil
}

// members lists a collection in the service's order.
func (c *Client) members(ctx context.Context, path string) ([]string, error) {
	var out []string
	seen := map[string]bool{}
	for range maxPages {
		if path == "" || seen[path] || len(out) >= maxMembers {
			return out, nil
		}
		seen[path] = true
		var page collectionDocument
		if _, err := c.get(ctx, path, &page); err != nil {
			return out, err
		}
		for _, m := range page.Members {
			if m != "" && !slices.Contains(out, string(m)) {
				out = append(out, string(m))
			}
		}
		path = string(page.NextLink)
	}
	return out, nil
}

// choose finds the system that Config means. Never the first of several: boards
// of accelerators and hypervisors are systems too.
func (c *Client) choose(ctx context.Context) (*systemDocument, error) {
	path := string(c.root.Systems)
	if path == "" {
		path = defaultSystems // CIMC leaves it out of the root now and then (check_redfish#148)
	}
	members, err := c.members(ctx, path)
	if err != nil && !absent(err) {
		return nil, fmt.Errorf("list the systems: %w", err)
	}
	if len(members) == 0 {
		return nil, fmt.Errorf("%w: it has no systems at all, as an enclosure's manager may", ErrNoSystem)
	}
	if c.cfg.System != "" {
		return c.named(ctx, members)
	}
	if len(members) == 1 {
		return c.readSystem(ctx, members[0], readTries)
	}
	systems, failed, err := c.readAll(ctx, members, 1)
	if err != nil {
		return nil, err
	}
	// A member may be out of reach for good, as a GPU board is while the host is
	// off (infra-controller#5418). Insist only where it could matter.
	if len(failed) > 0 && len(bootable(systems)) != 1 {
		again, _, err := c.readAll(ctx, failed, readTries)
		if err != nil {
			return nil, err
		}
		systems = append(systems, again...)
	}
	return c.decide(ctx, systems, len(members))
}

// named finds the system that the inventory names.
func (c *Client) named(ctx context.Context, members []string) (*systemDocument, error) {
	want := strings.TrimSpace(c.cfg.System)
	for _, m := range members {
		if samePath(m, localPath(want)) || strings.EqualFold(lastElement(m), want) {
			return c.readSystem(ctx, m, readTries)
		}
	}
	systems, _, err := c.readAll(ctx, members, 2)
	if err != nil {
		return nil, err
	}
	for _, s := range systems {
		if strings.EqualFold(string(s.ID), want) || strings.EqualFold(string(s.Name), want) {
			return s, nil
		}
	}
	ids := make([]string, 0, len(members))
	for _, m := range members {
		ids = append(ids, lastElement(m))
	}
	return nil, fmt.Errorf("%w: bmc.system is %q, and it has %s", ErrNoSystem, want, strings.Join(ids, ", "))
}

// readAll reads every system and gives the paths of those that failed. Failures
// that the others would share end it.
func (c *Client) readAll(ctx context.Context, members []string, tries int) (systems []*systemDocument, failed []string, err error) {
	for _, m := range members {
		s, err := c.readSystem(ctx, m, tries)
		switch {
		case err == nil:
			systems = append(systems, s)
		case errors.Is(err, ErrUnauthorized) || ctx.Err() != nil:
			return nil, nil, err
		default:
			c.log.DebugContext(ctx, "skip a system", "path", m, "reason", err)
			failed = append(failed, m)
		}
	}
	return systems, failed, nil
}

// decide chooses by identity, then by ability.
func (c *Client) decide(ctx context.Context, systems []*systemDocument, total int) (*systemDocument, error) {
	var reason string
	if expected := c.cfg.Expected; known(expected) {
		s, why, err := c.byIdentity(ctx, systems, expected)
		if s != nil || err != nil {
			return s, err
		}
		reason = why
	}
	able := bootable(systems)
	if len(able) == 1 {
		why, err := c.contradicts(ctx, able[0])
		if err != nil {
			return nil, err
		}
		if why == "" {
			return able[0], nil
		}
		reason = why
	}
	var list []string
	for _, s := range systems {
		list = append(list, s.summary())
	}
	if missing := total - len(systems); missing > 0 {
		list = append(list, fmt.Sprintf("%d that could not be read", missing))
	}
	err := fmt.Errorf("%w, of which %d can be reset and boot from the network: %s", ErrAmbiguousSystem, len(able), strings.Join(list, ", "))
	if reason != "" {
		err = fmt.Errorf("%w; %s", err, reason)
	}
	return nil, err
}

// contradicts says why the only system that could be meant is not the expected
// one. Where several systems answer at one address, another machine is as likely
// as a mistake in the inventory, so nothing is chosen (I1).
func (c *Client) contradicts(ctx context.Context, s *systemDocument) (string, error) {
	if !known(c.cfg.Expected) {
		return "", nil
	}
	id, err := c.describe(ctx, s)
	if err != nil {
		return "", err
	}
	if key, agrees, why := identity.Compare([]identity.Facts{c.cfg.Expected}, id.Facts); key != "" && !agrees {
		return why, nil
	}
	return "", nil
}

func known(f identity.Facts) bool {
	return f.Serial != "" || f.BoardSerial != "" || f.ChassisSerial != "" || f.UUID != "" || len(f.MACs) > 0
}

// byIdentity finds the one system that the expected facts single out, or nil and
// why they do not.
func (c *Client) byIdentity(ctx context.Context, systems []*systemDocument, expected identity.Facts) (*systemDocument, string, error) {
	candidates := make([]identity.Candidate, 0, len(systems))
	byPath := map[string]*systemDocument{}
	for _, s := range systems {
		id, err := c.describe(ctx, s)
		if err != nil {
			return nil, "", err
		}
		candidates = append(candidates, identity.Candidate{Name: s.path, Facts: []identity.Facts{id.Facts}})
		byPath[s.path] = s
	}
	verdict := identity.NewIndex(candidates).Match(expected)
	if verdict.Outcome == identity.Match {
		return byPath[verdict.Name], "", nil
	}
	return nil, verdict.Reason, nil
}

// bootable are the systems that can be reset and network booted; operating
// systems and hypervisors that pose as systems are not.
func bootable(systems []*systemDocument) []*systemDocument {
	var out []*systemDocument
	for _, s := range systems {
		if s.hasReset() && s.bootsNetwork() && !strings.EqualFold(string(s.SystemType), "OS") {
			out = append(out, s)
		}
	}
	return out
}

// summary names a system for a person who has to choose.
func (s *systemDocument) summary() string {
	var about []string
	for _, v := range []string{string(s.Model), string(s.SerialNumber)} {
		if v != "" {
			about = append(about, v)
		}
	}
	if !s.hasReset() || !s.bootsNetwork() {
		about = append(about, "cannot be reset and network booted")
	}
	if len(about) == 0 {
		return s.id()
	}
	return fmt.Sprintf("%s (%s)", s.id(), strings.Join(about, ", "))
}
