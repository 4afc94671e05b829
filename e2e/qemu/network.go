package qemu

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bridge is the name of the bridge inside every Network.
const Bridge = "br0"

// bridgeMAC is fixed: a bridge without one takes the lowest of its ports, and
// then changes it under its neighbours as machines come and go. It is outside of
// QEMU's range, where tests choose the addresses of their machines.
const bridgeMAC = "06:00:00:00:00:01"

// NetworkConfig describes a Network.
type NetworkConfig struct {
	// Addresses are the host's on the untagged boot network, e.g. 10.98.0.1/24.
	Addresses []netip.Prefix
	// VLANs are tagged networks beside it.
	VLANs []VLAN
}

// Network is a bridge in a network namespace of its own, with a port for each
// Machine. Several can exist side by side, and nothing outside is touched.
type Network struct {
	*NetNS

	mu        sync.Mutex
	taps      int
	taggers   []*tagger
	processes []*Process
}

// NewNetwork makes the namespace and the bridge. The caller must Close it.
func NewNetwork(ctx context.Context, config NetworkConfig) (*Network, error) {
	sweep(ctx)
	ns, err := newNetNS(ctx, fmt.Sprintf("%s%d-%s", namePrefix, os.Getpid(), strings.ToLower(rand.Text()[:8])))
	if err != nil {
		return nil, err
	}
	n := &Network{NetNS: ns}
	if err := n.setUp(ctx, config); err != nil {
		_ = n.Close()
		return nil, fmt.Errorf("setting up the bridge: %w", err)
	}
	return n, nil
}

func (n *Network) setUp(ctx context.Context, config NetworkConfig) error {
	commands := []string{
		"link set lo up",
		"link add " + Bridge + " address " + bridgeMAC + " type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
		"link set " + Bridge + " up",
	}
	for _, address := range config.Addresses {
		commands = append(commands, fmt.Sprintf("addr add %s dev %s", address, Bridge))
	}
	for _, vlan := range config.VLANs {
		err := n.Do(func() error {
			t, err := startTagger(vlan)
			if err != nil {
				return err
			}
			n.taggers = append(n.taggers, t)
			return nil
		})
		if err != nil {
			return err
		}
		commands = append(commands,
			"link set "+vlan.trunk()+" master "+Bridge,
			"link set "+vlan.trunk()+" up",
			"link set "+vlan.name()+" up")
		if vlan.Address.IsValid() {
			commands = append(commands, fmt.Sprintf("addr add %s dev %s", vlan.Address, vlan.name()))
		}
	}
	return n.batch(ctx, commands)
}

func (n *Network) batch(ctx context.Context, commands []string) error {
	return runIP(ctx, strings.Join(commands, "\n")+"\n", "-n", n.name, "-batch", "-")
}

// addTap makes a port of the bridge for one machine.
func (n *Network) addTap(ctx context.Context) (string, error) {
	n.mu.Lock()
	name := "tap" + strconv.Itoa(n.taps)
	n.taps++
	n.mu.Unlock()
	err := n.batch(ctx, []string{
		"tuntap add dev " + name + " mode tap",
		"link set " + name + " master " + Bridge,
		"link set " + name + " up",
	})
	if err != nil {
		return "", fmt.Errorf("making the port %s (is there a /dev/net/tun?): %w", name, err)
	}
	return name, nil
}

func (n *Network) removeTap(ctx context.Context, name string) error {
	return n.batch(ctx, []string{"link delete " + name})
}

// Start starts a command, usually one made by Command, and stops it at the
// latest in Close.
func (n *Network) Start(cmd *exec.Cmd) (*Process, error) {
	p, err := startProcess(cmd)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.processes = append(n.processes, p)
	return p, nil
}

// Close kills what was started in the namespace and removes it with all its
// links. Close the machines first. It may be called again.
func (n *Network) Close() error {
	n.mu.Lock()
	processes, taggers := n.processes, n.taggers
	n.processes, n.taggers = nil, nil
	n.mu.Unlock()
	for _, p := range processes {
		_ = p.Kill()
	}
	for _, t := range taggers {
		t.close()
	}
	if !n.handle.IsOpen() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return n.remove(ctx)
}

// namePrefix begins the names of all namespaces of this package; the process id follows.
const namePrefix = "provision-e2e-"

// sweep removes namespaces of test processes that were killed before they could
// clean up. Nobody uses those: their children died with them.
func sweep(ctx context.Context) {
	names, err := filepath.Glob("/run/netns/" + namePrefix + "*")
	if err != nil {
		return
	}
	for _, path := range names {
		name := filepath.Base(path)
		pid, _, _ := strings.Cut(strings.TrimPrefix(name, namePrefix), "-")
		if _, err := os.Stat("/proc/" + pid); pid != "" && errors.Is(err, os.ErrNotExist) {
			_ = runIP(ctx, "", "netns", "delete", name)
		}
	}
}
