package pxe

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pin/tftp/v3"

	"github.com/talos-provision/provision/pxe/dhcp"
	"github.com/talos-provision/provision/pxe/httpboot"
	ours "github.com/talos-provision/provision/pxe/tftp"
)

const loopback = "127.0.0.1:0"

func ipxeDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// good are stand-ins for iPXE binaries of a usable build.
var good = map[string]string{"snponly.efi": "MZ autoexec.ipxe", "undionly.kpxe": "bios"}

func all(t *testing.T) Options {
	t.Helper()
	return Options{
		HTTP: HTTP{Listen: loopback, Options: httpboot.Options{IPXEDir: ipxeDir(t, good)}},
		TFTP: &ours.Options{Listen: loopback},
		DHCP: &dhcp.Options{
			Listen: loopback,
			Subnets: []dhcp.Subnet{{
				CIDR:  netip.MustParsePrefix("127.0.0.0/8"),
				First: netip.MustParseAddr("127.7.0.1"), Last: netip.MustParseAddr("127.7.0.9"),
			}},
		},
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func getTFTP(t *testing.T, server netip.AddrPort, name string) string {
	t.Helper()
	c, err := tftp.NewClient(server.String())
	if err != nil {
		t.Fatal(err)
	}
	from, err := c.Receive(name, "octet")
	if err != nil {
		t.Fatal(err)
	}
	var content bytes.Buffer
	if _, err := from.WriteTo(&content); err != nil {
		t.Fatal(err)
	}
	return content.String()
}

func TestRunServesEverythingUntilTheContextEnds(t *testing.T) {
	t.Parallel()
	s, err := New(all(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	at := s.Addresses()
	for name, a := range map[string]netip.AddrPort{"HTTP": at.HTTP, "TFTP": at.TFTP, "DHCP": at.DHCP} {
		if !a.IsValid() || a.Port() == 0 {
			t.Errorf("%s is at %v", name, a)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()

	want := httpboot.Autoexec("http://" + at.HTTP.String())
	if got := get(t, "http://"+at.HTTP.String()+"/autoexec.ipxe"); got != want {
		t.Errorf("HTTP gives\n%s", got)
	}
	if got := getTFTP(t, at.TFTP, "autoexec.ipxe"); got != want {
		t.Errorf("TFTP gives\n%s", got)
	}
	if got := getTFTP(t, at.TFTP, "snponly.efi"); got != good["snponly.efi"] {
		t.Errorf("TFTP gives %q", got)
	}
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Run does not end")
	}
	if (s.Addresses() != Addresses{}) {
		t.Errorf("after the end: %+v", s.Addresses())
	}
	l := listen(t, at.HTTP.String())
	_ = l.Close()
}

// TestAHangingClientDoesNotDelayTheEnd: a machine that is being sent something
// and does not take it must not keep the process.
func TestAHangingClientDoesNotDelayTheEnd(t *testing.T) {
	t.Parallel()
	big := map[string]string{"snponly.efi": strings.Repeat("x", 16<<20), "undionly.kpxe": ""}
	s, err := New(Options{HTTP: HTTP{Listen: loopback, Options: httpboot.Options{IPXEDir: ipxeDir(t, big)}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Addresses().HTTP.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, "GET /ipxe/snponly.efi HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2*shutdownGrace + 5*time.Second):
		t.Fatal("Run does not end")
	}
}

// TestListenBindsAllOrNothing: the port of each service in turn is taken.
func TestListenBindsAllOrNothing(t *testing.T) {
	t.Parallel()
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = udp.Close() })
	tcp := listen(t, loopback)
	t.Cleanup(func() { _ = tcp.Close() })
	_, tcpPort, _ := net.SplitHostPort(tcp.Addr().String())
	_, udpPort, _ := net.SplitHostPort(udp.LocalAddr().String())
	for name, tc := range map[string]struct {
		change func(*Options)
		want   []string
	}{
		"HTTP": {func(o *Options) { o.HTTP.Listen = tcp.Addr().String() }, []string{
			"listen for HTTP on " + tcp.Addr().String() + ": ", "address already in use", "`ss -tlpn 'sport = :" + tcpPort + "'`"}},
		"TFTP": {func(o *Options) { o.TFTP.Listen = udp.LocalAddr().String() }, []string{
			"listen for TFTP on " + udp.LocalAddr().String(), "address already in use", "`ss -ulpn 'sport = :" + udpPort + "'`"}},
		"DHCP": {func(o *Options) { o.DHCP.Listen = udp.LocalAddr().String() }, []string{
			"listen for DHCP on " + udp.LocalAddr().String(), "address already in use", "`ss -ulpn 'sport = :" + udpPort + "'`"}},
		"an address of another host": {func(o *Options) { o.HTTP.Listen = "192.0.2.1:0" }, []string{"listen for HTTP on 192.0.2.1:0: ", "no interface of this host has that address"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := all(t)
			o.HTTP.Listen = freeAddress(t)
			free := o.HTTP.Listen
			tc.change(&o)
			s, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			err = s.Listen(t.Context())
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error is %q, want one with %q", err, want)
				}
			}
			if err := s.Run(t.Context()); err == nil {
				t.Error("Run goes ahead")
			}
			if at := s.Addresses(); at != (Addresses{}) {
				t.Errorf("still bound: %+v", at)
			}
			_ = listen(t, free).Close() // fails when HTTP's port is still held
		})
	}
}

func TestWhatIsLeftOutIsNotServed(t *testing.T) {
	t.Parallel()
	o := all(t)
	o.DHCP, o.TFTP = nil, nil
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if at := s.Addresses(); !at.HTTP.IsValid() || at.TFTP.IsValid() || at.DHCP.IsValid() {
		t.Errorf("bound at %+v", at)
	}
	if err := s.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "call Listen once") {
		t.Errorf("a second Listen: %v", err)
	}
}

func TestNewSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"https":        {func(o *Options) { o.BaseURL = "https://10.0.0.1" }, "not a plain http URL"},
		"password":     {func(o *Options) { o.BaseURL = "http://u:secret@10.0.0.1" }, "not a plain http URL"},
		"script break": {func(o *Options) { o.BaseURL = "http://10.0.0.1/${x}" }, "not a plain http URL"},
		"no subnet":    {func(o *Options) { o.DHCP.Subnets = nil }, "DHCP"},
		"no binaries":  {func(o *Options) { o.HTTP.IPXEDir = "" }, "iPXE binaries"},
	} {
		o := all(t)
		tc.change(&o)
		_, err := New(o)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

func TestBootURLsPointAtAnAddressThatMachinesCanReach(t *testing.T) {
	t.Parallel()
	wildcard := netip.MustParseAddrPort("[::]:8080")
	concrete := netip.MustParseAddrPort("10.0.0.1:8080")
	server := netip.MustParseAddr("10.0.0.2")
	for name, tc := range map[string]struct {
		base         string
		server       netip.Addr
		http         netip.AddrPort
		local        netip.Addr
		boot, script string
	}{
		"advertised":                   {"http://boot:1", server, wildcard, server, "http://boot:1", "http://boot:1"},
		"server address":               {"", server, wildcard, netip.Addr{}, "http://10.0.0.2:8080", "http://10.0.0.2:8080"},
		"HTTP on one address":          {"", netip.Addr{}, concrete, netip.Addr{}, "http://10.0.0.1:8080", "http://10.0.0.1:8080"},
		"the address TFTP was used at": {"", server, wildcard, netip.MustParseAddr("::ffff:10.9.0.2"), "http://10.0.0.2:8080", "http://10.9.0.2:8080"},
		"unknown":                      {"", netip.Addr{}, wildcard, netip.MustParseAddr("10.9.0.2"), "", "http://10.9.0.2:8080"},
	} {
		o, err := Options{BaseURL: tc.base, DHCP: &dhcp.Options{ServerAddress: tc.server}}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		if got := bootURL(o, tc.http); got != tc.boot {
			t.Errorf("%s: boot URL %q, want %q", name, got, tc.boot)
		}
		if got := scriptURL(o, tc.http, tc.local); got != tc.script {
			t.Errorf("%s: script URL %q, want %q", name, got, tc.script)
		}
	}
}

func TestTheCallersOptionsStayAsTheyWere(t *testing.T) {
	t.Parallel()
	o := all(t)
	o.TFTP.Listen = ":0"
	o.Log = slog.New(slog.DiscardHandler)
	if _, err := New(o); err != nil {
		t.Fatal(err)
	}
	if o.TFTP.Listen != ":0" || o.TFTP.IPXEDir != "" || o.TFTP.Log != nil || o.DHCP.Log != nil {
		t.Errorf("TFTP options are now %+v", o.TFTP)
	}
}

func TestCheckIPXEDir(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"good":               {good, nil},
		"another name":       {map[string]string{"snp.efi": "autoexec.ipxe", "undionly.kpxe": ""}, nil},
		"no EFI":             {map[string]string{"undionly.kpxe": ""}, []string{"snponly.efi is missing", "make deps"}},
		"no BIOS":            {map[string]string{"snponly.efi": "autoexec.ipxe"}, []string{"undionly.kpxe is missing", "make deps"}},
		"Debian 12's build":  {map[string]string{"snponly.efi": "MZ iPXE 1.0.0", "ipxe.efi": "MZ", "undionly.kpxe": ""}, []string{"ipxe.efi, snponly.efi: too old", "Debian 13's package ipxe", "ipxeDir"}},
		"an old arm64 build": {map[string]string{"snponly.efi": "autoexec.ipxe", "undionly.kpxe": "", "ipxe-arm64.efi": "MZ"}, []string{"ipxe-arm64.efi: too old"}},
		"nothing":            {nil, []string{"snponly.efi is missing"}},
	} {
		dir := ipxeDir(t, tc.files)
		err := CheckIPXEDir(dir)
		if (err == nil) != (tc.want == nil) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range append(tc.want, "check the iPXE binaries in "+dir) {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error is %q, want one with %q", name, err, want)
			}
		}
	}
	for _, dir := range []string{"", filepath.Join(t.TempDir(), "none")} {
		if err := CheckIPXEDir(dir); err == nil || !strings.Contains(err.Error(), "ipxeDir") {
			t.Errorf("%q: %v", dir, err)
		}
	}
}

func ExampleServices() {
	s, err := New(Options{HTTP: HTTP{Listen: loopback}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // a program would wait for a signal
	fmt.Println(s.Run(ctx))
	// Output: <nil>
}

func listen(t testing.TB, addr string) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// freeAddress was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l := listen(t, loopback)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
