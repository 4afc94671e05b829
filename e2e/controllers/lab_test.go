package controllers_test

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/e2e/loopback"
	"github.com/talos-provision/provision/provisioner/store/storetest"
	"github.com/talos-provision/provision/provisioner/web"
)

// lab is a state in etcd, and the machines of one site.
type lab struct {
	t     *testing.T
	etcd  *storetest.Etcd
	at    string // etcd's host:port
	fleet *fleet.Fleet
	base  netip.Addr // the first of the machines' network
	state *watch
	plan  []string     // the nodes that runs are over, as cluster/name; nil for all
	hosts []netip.Addr // of the controllers, which all get what machines broadcast
}

// Ports and addresses of the machines' network. Controllers is how many a site has at
// most, from firstController on.
const (
	dhcpPort        = 6767
	relayPort       = 6768
	fanOut          = 2 // where the emulated relay sends to
	firstController = 5
	controllers     = 2
	otherRelay      = 7
)

const (
	// sessionTimeout is after how long a BMC ends a session that nobody uses: those of
	// a controller that died.
	sessionTimeout = 4 * time.Second
	// patientFirmware asks for an address for 18 s, where the real one has a minute: longer
	// than it takes another controller to lead.
	patientFirmware = 0.3
)

// newLab starts etcd and a fleet.
func newLab(t *testing.T, config fleet.Config, options ...storetest.Option) *lab {
	t.Helper()
	at, etcd := storetest.StartEtcd(t, options...)
	l := &lab{t: t, etcd: etcd, at: at}
	l.state = newWatch(t, l.location())
	l.startFleet(config)
	return l
}

// beside is another site on the same state.
func (l *lab) beside(config fleet.Config) *lab {
	l.t.Helper()
	other := &lab{t: l.t, etcd: l.etcd, at: l.at, state: l.state}
	other.startFleet(config)
	return other
}

func (l *lab) location() string { return "etcd://" + l.at + "/fleet" }

func (l *lab) startFleet(config fleet.Config) {
	t := l.t
	t.Helper()
	if _, err := program(); err != nil { // it takes its time, in which no machine need wait
		t.Fatal(err)
	}
	config.Dir = folder(t)
	config.SessionTimeout = sessionTimeout
	config.TimeScale = patientFirmware
	if !config.Network.IsValid() {
		config.Network = loopback.Reserve(t, 100, 249)
	}
	f, err := fleet.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	l.fleet, l.base = f, config.Network.Masked().Addr()
	for i := range controllers {
		l.hosts = append(l.hosts, l.address(firstController+i))
	}
	l.startFanOut()
}

// address is the nth of the machines' network.
func (l *lab) address(n int) netip.Addr {
	base := l.base.As4()
	return netip.AddrFrom4([4]byte{base[0], base[1], 0, byte(n)})
}

// startFanOut passes what the relay sends on to every controller, as a network
// segment does. They answer to the relay.
func (l *lab) startFanOut() {
	l.t.Helper()
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(l.address(fanOut), dhcpPort)))
	if err != nil {
		l.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		packet := make([]byte, 2048)
		for {
			n, err := conn.Read(packet)
			if err != nil {
				return // closed
			}
			for _, host := range l.hosts {
				_, _ = conn.WriteToUDPAddrPort(packet[:n], netip.AddrPortFrom(host, dhcpPort)) // as lost as on a wire
			}
		}
	}()
	l.t.Cleanup(func() {
		_ = conn.Close()
		<-ended
	})
}

// controller makes the nth controller of the site, from 0. It is not started.
// Changes are laid over its provision.yaml.
func (l *lab) controller(n int, changes map[string]any) *controller {
	l.t.Helper()
	dir := folder(l.t)
	c := &controller{t: l.t, name: fmt.Sprintf("controller %d", n), config: filepath.Join(dir, "provision.yaml"), local: dir}
	text, err := os.ReadFile(l.fleet.ConfigFile())
	if err != nil {
		l.t.Fatal(err)
	}
	// Everything that belongs to this host is at its own address and in its own folder.
	moved := strings.ReplaceAll(string(text), l.address(fanOut).String()+"\n", l.hosts[n].String()+"\n")
	moved = strings.ReplaceAll(moved, l.address(fanOut).String()+":", l.hosts[n].String()+":")
	config := map[string]any{}
	if err := yaml.Unmarshal([]byte(moved), &config); err != nil {
		l.t.Fatal(err)
	}
	config["state"], config["local"] = l.location(), dir
	config["assets"].(map[string]any)["cache"] = filepath.Join(dir, "cache")
	maps.Copy(config, changes)
	written, err := yaml.Marshal(config)
	if err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(c.config, written, 0o600); err != nil {
		l.t.Fatal(err)
	}
	if c.admin, err = web.NewClient(web.Endpoint{Socket: filepath.Join(dir, "run.sock")}); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		c.kill()
		c.admin.Close()
		if l.t.Failed() {
			l.t.Logf("%s wrote:\n%s", c.name, tail(c.log()))
		}
	})
	return c
}

// tail is the end of a text.
func tail(text string) string {
	const most = 12_000
	if len(text) > most {
		return "...\n" + text[len(text)-most:]
	}
	return text
}

// pair starts two controllers, and returns the one that leads and the one that stands by.
func (l *lab) pair() (leader, standby *controller) {
	l.t.Helper()
	leader, standby = l.controller(0, nil), l.controller(1, nil)
	leader.start()
	leader.awaitLead()
	standby.start()
	standby.awaitStandby()
	return leader, standby
}
