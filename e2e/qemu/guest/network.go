package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/talos-provision/provision/e2e/talosnode"
)

// linkWait is how long a driver may take to show its interface.
const linkWait = 15 * time.Second

type logf func(format string, args ...any)

// bringUp configures the network and returns the addresses it has then. Without
// any configuration every physical link asks DHCP, until one is answered.
func bringUp(ctx context.Context, config networkConfig, log logf) ([]string, error) {
	nics, err := waitForNICs(ctx)
	if err != nil {
		return nil, err
	}
	if config.Hostname != "" {
		if err := unix.Sethostname([]byte(config.Hostname)); err != nil {
			return nil, fmt.Errorf("setting the hostname %q: %w", config.Hostname, err)
		}
	}
	if config, err = resolveMACNames(config, nics); err != nil {
		return nil, err
	}
	if nics, err = adoptName(nics, config, log); err != nil {
		return nil, err
	}
	for _, name := range append([]string{"lo"}, nics...) {
		if err := linkUp(name); err != nil {
			return nil, err
		}
	}
	if err := addVLAN(config.VLAN, log); err != nil {
		return nil, err
	}
	links := config.Links
	if len(links) == 0 {
		for _, name := range nics {
			links = append(links, linkConfig{Link: name, DHCP: true})
		}
	}
	return configure(ctx, links, nics[0], log)
}

// configure gives every link its address: all static ones, then DHCP.
func configure(ctx context.Context, links []linkConfig, first string, log logf) ([]string, error) {
	var addresses []string
	var asking []string
	for _, link := range links {
		name := link.Link
		if name == "" {
			name = first
		}
		if link.Address.IsValid() {
			if err := assign(name, link); err != nil {
				return nil, err
			}
			log("%s has the address %s, gateway %s", name, link.Address, link.Gateway)
			addresses = append(addresses, link.Address.Addr().String())
		}
		if link.DHCP {
			asking = append(asking, name)
		}
	}
	if len(asking) == 0 {
		return addresses, nil
	}
	leased, err := lease(ctx, asking, log)
	return append(addresses, leased...), err
}

// physicalLinks lists the interfaces that a driver made, sorted by name.
func physicalLinks() ([]string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("listing network interfaces: %w", err)
	}
	var names []string
	for _, link := range all {
		if _, err := os.Stat("/sys/class/net/" + link.Name + "/device"); err == nil {
			names = append(names, link.Name)
		}
	}
	sort.Strings(names)
	return names, nil
}

func waitForNICs(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, linkWait)
	defer cancel()
	for {
		names, err := physicalLinks()
		if err != nil || len(names) > 0 {
			return names, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("no network interface appeared in %s: give the machine a NIC whose driver is in the initramfs", linkWait)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// resolveMACNames replaces names of the form enx001122aabbcc, which mean the
// interface with that address, by the name of that interface.
func resolveMACNames(config networkConfig, nics []string) (networkConfig, error) {
	byMAC := map[string]string{}
	for _, name := range nics {
		link, err := net.InterfaceByName(name)
		if err != nil {
			return config, fmt.Errorf("looking up the interface %s: %w", name, err)
		}
		byMAC["enx"+strings.ReplaceAll(link.HardwareAddr.String(), ":", "")] = name
	}
	for i, link := range config.Links {
		config.Links[i].Link = cmp.Or(byMAC[strings.ToLower(link.Link)], link.Link)
	}
	if config.VLAN != nil {
		config.VLAN.Parent = cmp.Or(byMAC[strings.ToLower(config.VLAN.Parent)], config.VLAN.Parent)
	}
	return config, nil
}

// adoptName gives the only NIC the name that the command line uses. On a real
// machine udev named it so; this guest has no udev, and its NIC is eth0.
func adoptName(nics []string, config networkConfig, log logf) ([]string, error) {
	wanted := physicalName(config)
	if wanted == "" || len(nics) != 1 || nics[0] == wanted || strings.HasPrefix(wanted, "enx") {
		return nics, nil // a MAC that is not there must not be hidden by a new name
	}
	link, err := netlink.LinkByName(nics[0])
	if err != nil {
		return nil, fmt.Errorf("looking up the interface %s: %w", nics[0], err)
	}
	if err := netlink.LinkSetName(link, wanted); err != nil {
		return nil, fmt.Errorf("renaming the interface %s to %s: %w", nics[0], wanted, err)
	}
	log("interface %s is called %s, as the kernel command line says", nics[0], wanted)
	return []string{wanted}, nil
}

// physicalName is the NIC that the configuration speaks of: a VLAN's parent, or
// the device of ip=.
func physicalName(config networkConfig) string {
	if config.VLAN != nil {
		return config.VLAN.Parent
	}
	for _, link := range config.Links {
		if link.Link != "" && !strings.Contains(link.Link, ".") {
			return link.Link
		}
	}
	return ""
}

func linkUp(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("looking up the interface %s: %w", name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bringing the interface %s up: %w", name, err)
	}
	return nil
}

func addVLAN(vlan *vlanConfig, log logf) error {
	if vlan == nil {
		return nil
	}
	parent, err := netlink.LinkByName(vlan.Parent)
	if err != nil {
		return fmt.Errorf("VLAN %d on %s: %w", vlan.ID, vlan.Parent, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex = vlan.Name, parent.Attrs().Index
	link := &netlink.Vlan{LinkAttrs: attrs, VlanId: int(vlan.ID), VlanProtocol: netlink.VLAN_PROTOCOL_8021Q}
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("adding VLAN %d on %s: %w", vlan.ID, vlan.Parent, err)
	}
	log("VLAN %d on %s is called %s", vlan.ID, vlan.Parent, vlan.Name)
	return linkUp(vlan.Name)
}

// assign gives a link its static address and the default route.
func assign(name string, config linkConfig) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("the command line configures the interface %s, which does not exist: %w", name, err)
	}
	prefix := config.Address
	address := &netlink.Addr{IPNet: &net.IPNet{
		IP:   prefix.Addr().AsSlice(),
		Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen()),
	}}
	if err := netlink.AddrReplace(link, address); err != nil {
		return fmt.Errorf("giving %s the address %s: %w", name, prefix, err)
	}
	if !config.Gateway.IsValid() {
		return nil
	}
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: config.Gateway.AsSlice()}
	if err := netlink.RouteReplace(route); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("default route by %s on %s (is the gateway inside %s?): %w", config.Gateway, name, prefix, err)
	}
	return nil
}

// describeLinks lists the links as the Talos API reports them.
func describeLinks() ([]talosnode.Link, error) {
	all, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("listing network interfaces: %w", err)
	}
	var links []talosnode.Link
	for _, link := range all {
		attrs := link.Attrs()
		if attrs.Flags&net.FlagLoopback != 0 || len(attrs.HardwareAddr) == 0 {
			continue
		}
		kind := link.Type()
		if kind == "device" {
			kind = "" // a physical interface
		}
		links = append(links, talosnode.Link{Name: attrs.Name, MAC: attrs.HardwareAddr.String(), Kind: kind})
	}
	return links, nil
}
