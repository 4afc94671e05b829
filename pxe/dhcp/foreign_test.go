package dhcp

import (
	"context"
	"errors"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// ISC's relay between two networks: giaddr, option 82 with its circuit, and the
// way back through it.
func TestDhcrelayBetweenNetworks(t *testing.T) {
	t.Parallel()
	udhcpc(t)
	path := program(t, "dhcrelay")
	l := newLab(t)
	between := l.client + "r"
	l.run("ip", "netns", "add", between)
	t.Cleanup(func() { _ = exec.CommandContext(context.Background(), "ip", "netns", "del", between).Run() })
	// The client's end of the server's cable moves to the relay, and it gets another one.
	l.run("ip", "-n", l.client, "link", "set", labInterface, "netns", between, "name", "up0")
	l.run("ip", "link", "add", "down0", "netns", between, "type", "veth", "peer", "name", labInterface, "netns", l.client)
	l.run("ip", "-n", between, "addr", "add", "10.98.0.2/24", "dev", "up0")
	l.run("ip", "-n", between, "addr", "add", "10.20.0.1/24", "dev", "down0")
	for device, ns := range map[string]string{"up0": between, "down0": between, labInterface: l.client} {
		l.run("ip", "-n", ns, "link", "set", device, "up")
	}
	l.run("ip", "-n", between, "link", "set", "lo", "up")
	l.run("ip", "-n", l.server, "route", "add", "10.20.0.0/24", "via", "10.98.0.2")
	leases := l.serve(wireOptions{})
	relay := exec.CommandContext(t.Context(), "ip", "netns", "exec", between, path, "-4", "-d", "--no-pid", "-a", "-id", "down0", "-iu", "up0", "10.98.0.1")
	if err := relay.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = relay.Process.Kill(); _ = relay.Wait() })
	want(t, l.lease("-V", "PXEClient:Arch:00007:UNDI:003000", "-x", "0x5d:0007"), map[string]string{
		"ip": "10.20.0.100", "serverid": "10.98.0.1", "siaddr": "10.98.0.1", "boot_file": "snponly.efi",
	})
	if first := <-leases; first.Relay.String() != "10.20.0.1" {
		t.Errorf("relayed by %s, want 10.20.0.1", first.Relay)
	}
}

// Kea's load generator acts as a relay with many clients.
func TestPerfdhcpOnAWire(t *testing.T) {
	t.Parallel()
	path := program(t, "perfdhcp")
	l := newLab(t)
	l.setAddress("10.98.0.2/24")
	l.serve(wireOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// 15 clients, 100 exchanges.
	out, err := exec.CommandContext(ctx, "ip", "netns", "exec", l.client, path,
		"-4", "-l", "10.98.0.2", "-R", "15", "-r", "50", "-n", "100", "10.98.0.1").CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	received := regexp.MustCompile(`received packets: (\d+)`).FindAllSubmatch(out, -1)
	if len(received) != 2 {
		t.Fatalf("perfdhcp failed (%v):\n%s", err, out)
	}
	for _, r := range received { // it stops counting when the last one is sent
		if n, err := strconv.Atoi(string(r[1])); err != nil || n < 90 {
			t.Errorf("perfdhcp got too few answers:\n%s", out)
		}
	}
}
