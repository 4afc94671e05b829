package dhcp

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sys/unix"
)

// inside runs the function on a thread that is in the namespace; sockets that it
// opens stay there.
func inside(t *testing.T, namespace string, do func() error) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		ns, err := os.Open("/run/netns/" + namespace)
		if err != nil {
			ended <- err
			return
		}
		defer func() { _ = ns.Close() }()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			ended <- os.NewSyscallError("setns", err)
			return
		}
		ended <- do()
	}()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// socketIn is a UDP socket on the client's wire, as firmware has it.
func (l *lab) socketIn(address string) *relay {
	l.t.Helper()
	var conn net.PacketConn
	inside(l.t, l.client, func() (err error) {
		config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
			var err error
			_ = raw.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 1)
				if err == nil {
					err = unix.BindToDevice(int(fd), labInterface)
				}
			})
			return err
		}}
		conn, err = config.ListenPacket(l.t.Context(), "udp4", address)
		return err
	})
	l.t.Cleanup(func() { _ = conn.Close() })
	return &relay{t: l.t, conn: conn.(*net.UDPConn), to: netip.MustParseAddrPort("255.255.255.255:67")}
}

// exchange sends a packet as it is and waits for the reply.
func (r *relay) exchange(p packet) (*dhcpv4.DHCPv4, netip.AddrPort) {
	r.t.Helper()
	r.send(p.bytes())
	return r.receive()
}

func (l *lab) setAddress(address string) {
	l.t.Helper()
	l.run("ip", "-n", l.client, "addr", "replace", address, "dev", labInterface)
}

// The cases of firmware with the ports and addresses that it has.
func TestP1RelayOnAWire(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.setAddress("10.20.0.1/24")
	l.setAddress("10.98.0.2/24")
	l.run("ip", "-n", l.server, "route", "add", "10.20.0.0/24", "via", "10.98.0.2")
	l.serve(wireOptions{})
	relay, other := l.socketIn("10.20.0.1:67"), l.socketIn("10.20.0.1:1067")
	relay.to = netip.MustParseAddrPort("10.98.0.1:67")
	other.to = relay.to
	agent := text(82, "\x01\x04eth1")
	q := packet{hops: 1, giaddr: "10.20.0.1", options: with(discover, uefi(), agent)}
	for _, from := range []interface{ send([]byte) }{relay, other} {
		from.send(q.bytes())
		offer, source := relay.receive()
		if source != relay.to || offer.GatewayIPAddr.String() != "10.20.0.1" || offer.YourIPAddr.String() != "10.20.0.100" {
			t.Errorf("from %s giaddr %s yiaddr %s", source, offer.GatewayIPAddr, offer.YourIPAddr)
		}
		wantOption(t, offer, 82, agent[2:])
	}
}

// P7: a client without an address is answered by broadcast, port 67 to 68.
func TestP7BroadcastOnAWire(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.setAddress("10.98.0.200/24") // so that the kernel delivers; the packets say nothing of it
	l.serve(wireOptions{Interfaces: []string{labInterface}})
	rom := l.socketIn("0.0.0.0:68")
	offer, from := rom.exchange(packet{flags: 0x8000, options: with(discover, uefi())})
	if from.String() != "10.98.0.1:67" || offer.Flags != 0x8000 {
		t.Errorf("from %s flags %04x", from, offer.Flags)
	}
	wantOption(t, offer, 67, []byte("snponly.efi\x00"))
	wantNoOptions(t, offer, 60, 43)
}

// P8: UEFI asks from port 4011 and hears from port 4011, BIOS ROMs from port 68.
func TestP8BootPortOnAWire(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.setAddress("10.98.0.57/24")
	l.serve(wireOptions{Mode: ModeProxy})
	rom, efi := l.socketIn("0.0.0.0:68"), l.socketIn("10.98.0.57:4011")
	offer, from := rom.exchange(packet{options: with(discover, uefi())})
	if from.String() != "10.98.0.1:67" || !offer.IsBroadcast() || fromIP(offer.YourIPAddr).IsValid() {
		t.Errorf("from %s: %s", from, offer.Summary())
	}
	rom.send(packet{flags: 0x8000, options: with(request, uefi(), address(54, "10.98.0.3"), address(50, "10.98.0.57"))}.bytes())
	for _, c := range []*relay{efi, rom} {
		c.to = netip.MustParseAddrPort("10.98.0.1:4011")
		ack, from := c.exchange(packet{ciaddr: "10.98.0.57", options: with(request, uefi())})
		wantType(t, ack, dhcpv4.MessageTypeAck)
		wantOption(t, ack, 67, []byte("snponly.efi\x00"))
		if from != c.to {
			t.Errorf("the answer came from %s, firmware drops all but %s", from, c.to)
		}
	}
}

// Options.Unicast, seen on the wire: the frame goes to yiaddr although nobody
// could have resolved it.
func TestFrameOnAWire(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.serve(wireOptions{Unicast: true})
	var wire *os.File
	inside(t, l.client, func() (err error) { wire, err = openWire(labInterface); return err })
	defer func() { _ = wire.Close() }()
	mac := hardwareAddress(t, l.client)
	rom := l.socketIn("0.0.0.0:68")
	rom.send(packet{mac: mac, options: with(discover, uefi())}.bytes())
	_ = wire.SetReadDeadline(time.Now().Add(20 * time.Second))
	b := make([]byte, packetSize)
	n, err := wire.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	to, port := netip.AddrFrom4([4]byte(b[16:20])), binary.BigEndian.Uint16(b[22:])
	offer, err := dhcpv4.FromBytes(b[ipHeader+udpHeader : n])
	if err != nil || to.String() != "10.98.0.100" || port != clientPort || offer.YourIPAddr.String() != "10.98.0.100" {
		t.Errorf("frame to %s:%d, %v", to, port, err)
	}
}

func hardwareAddress(t *testing.T, namespace string) (mac string) {
	t.Helper()
	inside(t, namespace, func() error {
		device, err := net.InterfaceByName(labInterface)
		if err == nil {
			mac = device.HardwareAddr.String()
		}
		return err
	})
	return mac
}

// A second server's broadcast is noticed although nobody chose it.
func TestRivalIsNoticedOnAWire(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.setAddress("10.98.0.3/24")
	l.serve(wireOptions{Interfaces: []string{labInterface}})
	rival := l.socketIn("10.98.0.3:67")
	rival.to = netip.MustParseAddrPort("255.255.255.255:68")
	offer := packet{op: 2, options: [][]byte{kind(2), address(54, "10.98.0.3")}}.bytes()
	for deadline := time.Now().Add(20 * time.Second); ; {
		rival.send(offer) // again: the server may just have begun to listen
		select {
		case p := <-l.problems:
			if p.Kind != RivalServer || p.IP.String() != "10.98.0.3" {
				t.Errorf("problem %+v", p)
			}
			return
		case <-time.After(100 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal("the rival was not noticed")
		}
	}
}

// Two interfaces, each with its own network and address of the server.
func TestSeveralInterfacesOnWires(t *testing.T) {
	t.Parallel()
	udhcpc(t)
	l := newLab(t)
	l.run("ip", "link", "add", "eth1", "netns", l.server, "type", "veth", "peer", "name", "eth1", "netns", l.client)
	l.run("ip", "-n", l.server, "addr", "add", "10.99.0.1/24", "dev", "eth1")
	for _, ns := range []string{l.server, l.client} {
		l.run("ip", "-n", ns, "link", "set", "eth1", "up")
	}
	l.serve(wireOptions{Interfaces: []string{labInterface, "eth1"}})
	for device, network := range map[string]string{labInterface: "10.98.0.", "eth1": "10.99.0."} {
		want(t, l.leaseOn(device, "-V", "PXEClient", "-x", "0x5d:0000", "-x", "0x4d:69505845"), map[string]string{
			"ip": network + "100", "serverid": network + "1", "siaddr": network + "1", "boot_file": "http://" + network + "1:8080/autoexec.ipxe",
		})
	}
}

// Beside a real DHCP server: dnsmasq leases, the proxy says what to boot.
func TestProxyBesideDnsmasq(t *testing.T) {
	t.Parallel()
	path := program(t, "dnsmasq")
	l := newLab(t)
	third := l.client + "d"
	l.run("ip", "netns", "add", third)
	t.Cleanup(func() { _ = exec.CommandContext(context.Background(), "ip", "netns", "del", third).Run() })
	// The server's cable becomes a port of a bridge, the other server is on another port.
	l.run("ip", "-n", l.server, "link", "add", "br0", "type", "bridge")
	l.run("ip", "link", "add", "eth1", "netns", l.server, "type", "veth", "peer", "name", labInterface, "netns", third)
	l.run("ip", "-n", l.server, "addr", "flush", "dev", labInterface)
	l.run("ip", "-n", l.server, "addr", "add", "10.98.0.1/24", "dev", "br0")
	l.run("ip", "-n", third, "addr", "add", "10.98.0.3/24", "dev", labInterface)
	for _, link := range []string{labInterface, "eth1"} {
		l.run("ip", "-n", l.server, "link", "set", link, "master", "br0")
		l.run("ip", "-n", l.server, "link", "set", link, "up")
	}
	l.run("ip", "-n", l.server, "link", "set", "br0", "up")
	l.run("ip", "-n", third, "link", "set", labInterface, "up")
	l.setAddress("10.98.0.200/24")
	leases := l.serve(wireOptions{Mode: ModeProxy, Interfaces: []string{"br0"}})
	rival := exec.CommandContext(t.Context(), "ip", "netns", "exec", third, path, "--conf-file=/dev/null", "-k", "--user=root", "--pid-file=",
		"--port=0", "--interface="+labInterface, "--dhcp-range=10.98.0.50,10.98.0.60,1h", "--no-ping", "--dhcp-leasefile="+filepath.Join(t.TempDir(), "leases"))
	if err := rival.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rival.Process.Kill(); _ = rival.Wait() })

	rom := l.socketIn("0.0.0.0:68")
	var lease, boot *dhcpv4.DHCPv4
	for deadline := time.Now().Add(20 * time.Second); lease == nil || boot == nil; {
		if time.Now().After(deadline) {
			t.Fatalf("offers: a lease %v, a proxy offer %v", lease != nil, boot != nil)
		}
		rom.send(packet{flags: 0x8000, options: with(discover, uefi())}.bytes()) // as OVMF has it
		for _, p := range rom.all(500 * time.Millisecond) {
			if fromIP(p.YourIPAddr).IsValid() {
				lease = p
			} else {
				boot = p
			}
		}
	}
	wantOption(t, boot, 67, []byte("snponly.efi\x00"))
	wantOption(t, boot, 54, []byte{10, 98, 0, 1})
	wantOption(t, lease, 54, []byte{10, 98, 0, 3})
	ip := lease.YourIPAddr.String()
	rom.send(packet{flags: 0x8000, options: with(request, uefi(), address(54, "10.98.0.3"), address(50, ip))}.bytes())
	seen := <-leases
	if seen.Type != TypeProxy || seen.IP.String() != ip || seen.Class != ClassPXE {
		t.Errorf("noted %+v, want the address %s that dnsmasq gave", seen, ip)
	}
	l.setAddress(ip + "/24")
	efi := l.socketIn(ip + ":4011")
	efi.to = netip.MustParseAddrPort("10.98.0.1:4011")
	ack, _ := efi.exchange(packet{ciaddr: ip, options: with(request, uefi())})
	wantOption(t, ack, 67, []byte("snponly.efi\x00"))
	select {
	case p := <-l.problems:
		t.Errorf("problem %+v beside a server that is there by intention", p)
	default:
	}
}

// all receives for a while.
func (r *relay) all(d time.Duration) []*dhcpv4.DHCPv4 {
	r.t.Helper()
	var got []*dhcpv4.DHCPv4
	_ = r.conn.SetReadDeadline(time.Now().Add(d))
	for b := make([]byte, packetSize); ; {
		n, err := r.conn.Read(b)
		if err != nil {
			return got
		}
		if p, err := dhcpv4.FromBytes(b[:n]); err == nil {
			got = append(got, p)
		}
	}
}

// A second copy must not start beside the first, whose clients it would answer.
func TestSecondCopyOnAWireIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.serve(wireOptions{Interfaces: []string{labInterface}})
	for _, devices := range [][]string{nil, {labInterface}} {
		inside(t, l.server, func() error {
			o := testOptions()
			o.Interfaces = devices
			s, err := New(o)
			if err != nil {
				return err
			}
			if s.Listen() == nil {
				_ = s.Close()
				return fmt.Errorf("a second server on %v started", devices)
			}
			return nil
		})
	}
}
