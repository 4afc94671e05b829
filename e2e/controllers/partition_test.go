package controllers_test

import (
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/needs"
	"github.com/talos-provision/provision/provisioner/store/storetest"
	"github.com/talos-provision/provision/provisioner/web"
)

// Where things are in the namespaces: the machines' network and etcd's, each with an
// address of ours, of the first controller, or of both.
const (
	machines = "10.77.0.0/16"
	etcdHere = "10.78.0.1"
	// addresses of the machines' network that belong to the emulated fleet and to the
	// second controller; the first one has its own in another namespace.
	fleetHosts = "10.77.0.0/30 10.77.0.4/32 10.77.0.6/32 10.77.1.0/24 10.77.64.0/18 10.77.128.0/17"
)

// inside tells a test that it runs in a network namespace of its own.
const inside = "TEST_CONTROLLERS_INSIDE"

// A leader on another host whose packets to etcd are lost, and no others, gives its
// site up. The other controller takes over in time and goes on.
func TestAPartitionedLeaderIsReplaced(t *testing.T) {
	t.Parallel()
	if os.Getenv(inside) == "" {
		again(t)
		return
	}
	for _, m := range some(moments()[1:], 1) { // one after the other: there is one network
		t.Run(m.name, func(t *testing.T) {
			m.post += 6 * time.Second // it needs no boot services while nobody leads
			config := m.machine()
			config.Network = netip.MustParsePrefix(machines)
			way := newNamespaces(t)
			l := newLab(t, config, storetest.Listen(etcdHere))
			leader, standby := l.controller(0, nil), l.controller(1, nil)
			leader.prefix = []string{"nsenter", "--target", way.host, "--net", "--"}
			leader.start()
			leader.awaitLead()
			standby.start()
			standby.awaitStandby()
			run := leader.run(web.RunRequest{Cluster: "demo"})
			l.state.await(m.name, m.at)
			way.cut()
			l.awaitTakeover(standby, time.Now())
			l.state.awaitFinished(run)
			await(t, "the first has ended its work", func() bool {
				return lost(leader) && strings.Contains(leader.log(), "the site is not led by this controller")
			})
			l.heals(leader, way.heal)
			l.well(m.powerOns())
		})
	}
}

// again runs this test, and no other, in a network namespace of its own.
func again(t *testing.T) {
	t.Helper()
	needs.Program(t, "ip")
	needs.Program(t, "nsenter")
	if os.Geteuid() != 0 {
		needs.Lacking(t, "network namespaces need root")
	}
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	self := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	self.Env = append(os.Environ(), inside+"=yes", built+"="+binary)
	runtime.LockOSThread() // the thread is the parent in the eyes of Pdeathsig
	defer runtime.UnlockOSThread()
	self.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	out, err := self.CombinedOutput()
	if err != nil {
		t.Errorf("in a network namespace: %v", err)
	}
	t.Logf("%s", out)
}

// namespaces are this process's own, which has the machines, etcd and a controller,
// and that of another host. Two bridges join them: one for the machines and their
// BMCs, one for etcd.
type namespaces struct {
	t    *testing.T
	host string // the process whose namespace is the other host's
}

func newNamespaces(t *testing.T) *namespaces {
	t.Helper()
	holder := exec.Command("sleep", "infinity") //nolint:noctx // killed at the end
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	ended, err := launch(holder)
	if err != nil {
		needs.Lacking(t, "a network namespace cannot be made: %v", err)
	}
	n := &namespaces{t: t, host: strconv.Itoa(holder.Process.Pid)}
	t.Cleanup(func() {
		for _, link := range []string{"machines-port", "machines", "etcd-port", "etcd"} {
			_ = exec.Command("ip", "link", "delete", link).Run() //nolint:noctx // ends by itself
		}
		_ = holder.Process.Kill()
		<-ended
	})
	n.ip("link", "set", "lo", "up")
	n.join("machines", "10.77.255.253/16", "10.77.0.5/16")
	n.join("etcd", etcdHere+"/24", "10.78.0.2/24")
	for host := range strings.FieldsSeq(fleetHosts) {
		n.ip("route", "replace", "local", host, "dev", "lo")
	}
	return n
}

// join makes a bridge with an address here, and a port of it on the other host.
func (n *namespaces) join(bridge, here, there string) {
	n.t.Helper()
	port := bridge + "-port"
	n.ip("link", "add", bridge, "type", "bridge", "stp_state", "0", "forward_delay", "0", "mcast_snooping", "0")
	n.ip("address", "add", here, "dev", bridge)
	n.ip("link", "add", port, "type", "veth", "peer", "name", bridge, "netns", n.host)
	n.ip("link", "set", port, "master", bridge)
	n.ip("link", "set", port, "up")
	n.ip("link", "set", bridge, "up")
	n.there("link", "set", "lo", "up")
	n.there("address", "add", there, "dev", bridge)
	n.there("link", "set", bridge, "up")
}

// cut loses every packet between the other host and etcd; nobody is told.
func (n *namespaces) cut() { n.ip("link", "set", "etcd-port", "nomaster") }

// heal ends that.
func (n *namespaces) heal() { n.ip("link", "set", "etcd-port", "master", "etcd") }

func (n *namespaces) ip(args ...string) { n.run("ip", args...) }

func (n *namespaces) there(args ...string) {
	n.run("nsenter", append([]string{"--target", n.host, "--net", "--", "ip"}, args...)...)
}

func (n *namespaces) run(name string, args ...string) {
	n.t.Helper()
	if out, err := exec.CommandContext(n.t.Context(), name, args...).CombinedOutput(); err != nil {
		n.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}
