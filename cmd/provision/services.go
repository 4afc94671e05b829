package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/pxe"
	"github.com/talos-provision/provision/pxe/assets"
	"github.com/talos-provision/provision/pxe/httpboot"
	"github.com/talos-provision/provision/pxe/tftp"
)

// bootServices makes the boot services of a run, which ask the controller what
// a machine may boot and tell it what they saw. They listen to nothing yet.
func (s *session) bootServices(c *provisioner.Controller, cache *assets.Cache, nodes []inventory.Node) (*pxe.Services, error) {
	if err := pxe.CheckIPXEDir(s.config.IPXEDir); err != nil {
		return nil, &statusError{exitUsage, err.Error()}
	}
	dhcpOptions, err := s.dhcpOptions(c, nodes)
	if err != nil {
		return nil, err
	}
	services, err := pxe.New(pxe.Options{
		DHCP: dhcpOptions,
		TFTP: &tftp.Options{
			Listen: s.config.TFTP.Listen, IPXEDir: s.config.IPXEDir, OnTransfer: each(s.metrics.TFTP, c.ObserveTFTP),
			MaxTransfers: s.config.TFTP.MaxTransfers, MaxPerClient: s.config.TFTP.MaxPerClient,
		},
		HTTP: pxe.HTTP{
			Listen: s.config.HTTP.Listen,
			Options: httpboot.Options{
				Director: c, Assets: cache, IPXEDir: s.config.IPXEDir, OnTransfer: c.ObserveHTTP, OnProgress: c.ObserveProgress,
				OnScript: func(r httpboot.Request, a httpboot.Answer) {
					s.metrics.Script(r, a)
					c.ObserveScript(r, a)
				},
				OnRequest:    s.metrics.HTTP,
				HandOut:      c.HandOut,
				MaxTransfers: s.config.HTTP.MaxTransfers,
			},
		},
		Log: s.log,
	})
	if err != nil {
		return nil, &statusError{exitUsage, err.Error()}
	}
	s.serving.Store(services)
	s.metrics.Serving(services)
	return services, nil
}

// each calls several observers, one after the other.
func each[T any](observers ...func(T)) func(T) {
	return func(seen T) {
		for _, observe := range observers {
			observe(seen)
		}
	}
}

// leasesByMAC is which addresses the DHCP server of this process gave; none while it
// does not listen, or where another gives them.
func (s *session) leasesByMAC() map[string]netip.Addr {
	addresses := map[string]netip.Addr{}
	if services := s.serving.Load(); services != nil {
		for _, l := range services.Leases() {
			addresses[l.MAC] = l.IP
		}
	}
	return addresses
}

// assetCache is the cache, which knows the schematics of these nodes.
func (s *session) assetCache(nodes []inventory.Node) (*assets.Cache, error) {
	cache, err := s.config.assetCache(assets.Options{Log: s.log, OnOpen: s.metrics.AssetOpened, OnFetch: s.metrics.AssetFetched})
	if err != nil {
		return nil, err
	}
	s.metrics.Caching(cache)
	return cache, know(cache, nodes)
}

// pullParallel bounds the downloads from the Image Factory.
const pullParallel = 4

// pullImages fetches every image that nodes need before any machine is touched:
// one that cannot be had would leave machines at iPXE.
func (s *session) pullImages(ctx context.Context, cache *assets.Cache, refs []assets.Ref) error {
	var group errgroup.Group
	group.SetLimit(pullParallel)
	for _, ref := range refs {
		group.Go(func() error {
			if _, err := cache.Ensure(ctx, ref); err != nil {
				return fmt.Errorf("%w; no machine was touched", err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &statusError{exitFailed, err.Error()}
	}
	return nil
}

// images are the boot files of the nodes that a run would boot, each once.
func images(plan provisioner.Plan) []assets.Ref {
	var refs []assets.Ref
	for _, n := range plan.Nodes {
		if n.Action != provisioner.ActionInstall && n.Action != provisioner.ActionResume {
			continue
		}
		refs = append(refs, n.Images()...)
	}
	return eachOnce(refs)
}

func eachOnce(refs []assets.Ref) []assets.Ref {
	slices.SortFunc(refs, func(a, b assets.Ref) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(refs)
}
