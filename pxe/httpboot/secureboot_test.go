package httpboot

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/talos-provision/provision/pxe/assets"
)

// byMAC answers by the only fact that firmware gives, and counts the requests
// that are the machine's own.
type byMAC struct {
	answers map[string]Answer
	counted atomic.Int64
}

func (d *byMAC) Direct(_ context.Context, r Request) Answer {
	if !r.Head {
		d.counted.Add(1)
	}
	if len(r.Facts.MACs) == 1 {
		if a, ok := d.answers[r.Facts.MACs[0]]; ok {
			return a
		}
	}
	return Answer{Reason: "unknown machine"}
}

// TestAnArmedSecureBootMachineGetsItsSignedUKI speaks as UEFI HTTP boot does:
// HEAD, then GET, on the URL that DHCP gave.
func TestAnArmedSecureBootMachineGetsItsSignedUKI(t *testing.T) {
	t.Parallel()
	uki := assets.UKI(schematic, "v1.13.9", "amd64", true)
	cache, content := cacheOf(t, 5000, uki)
	install := Answer{Kind: Install, SecureBoot: true, Node: "node-01", Schematic: schematic, Version: "v1.13.9"}
	plain := install
	plain.SecureBoot = false
	d := &byMAC{answers: map[string]Answer{
		"52:54:00:00:00:01": install, "52:54:00:00:00:02": {Node: "node-02", SecureBoot: true}, "52:54:00:00:00:03": plain, "52:54:00:00:00:04": {Kind: Wait, Node: "node-04"},
	}}
	told := make(chan Answer, 10)
	transfers := make(chan Transfer, 10)
	addr := start(t, Options{
		Director: d, Assets: cache, MaxTransfers: 1,
		OnScript:   func(_ Request, a Answer) { told <- a },
		OnTransfer: func(tr Transfer) { transfers <- tr },
	})
	url, err := UKIURL("http://"+addr, "52-54-00-00-00-01", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	path := strings.TrimPrefix(url, "http://"+addr)
	c := dial(t, addr)
	head := c.do("HEAD " + path)
	if head.status != "200 OK" || head.header.Get("Content-Length") != "5000" || head.header.Get("Content-Type") != "application/efi" {
		t.Errorf("HEAD: %s %v", head.status, head.header)
	}
	if n := d.counted.Load(); n != 0 || len(told) != 0 {
		t.Errorf("a HEAD counts as %d requests, %d told", n, len(told))
	}
	<-transfers
	got := c.do("GET " + path)
	if got.status != "200 OK" || got.body != string(content) || got.header.Get("Content-Type") != "application/efi" {
		t.Errorf("GET: %s %v", got.status, got.header)
	}
	if a := <-told; a.Kind != Install || a.Node != "node-01" || d.counted.Load() != 1 {
		t.Errorf("told %+v, counted %d", a, d.counted.Load())
	}
	if tr := <-transfers; tr.Name != uki.String() || tr.Bytes != 5000 {
		t.Errorf("transfer %+v", tr)
	}
	// I3: not armed, not a machine with Secure Boot, waiting, unknown: 404, and the firmware goes on to the disk.
	for key, reason := range map[string]string{
		"52-54-00-00-00-02": "", "52-54-00-00-00-03": "inventory does not say secureBoot", "52-54-00-00-00-04": "", "52-54-00-00-00-05": "unknown machine",
		"7a1e0000-0000-4000-8000-000000000001": "unknown machine",
	} {
		if got := c.do("GET /uki/" + key + "/amd64.efi"); got.status != "404 Not Found" {
			t.Errorf("%s: %s", key, got.status)
		}
		if a := <-told; !strings.Contains(a.Reason, reason) {
			t.Errorf("%s: told %+v", key, a)
		}
	}
	for _, path := range []string{"/uki/", "/uki/x/amd64.efi", "/uki/52-54-00-00-00-01/riscv.efi", "/uki/52-54-00-00-00-01/amd64", "/uki/52-54-00-00-00-01/x/amd64.efi", "/uki/ff-ff-ff-ff-ff-ff/amd64.efi"} {
		if got := c.do("GET " + path); got.status != "404 Not Found" {
			t.Errorf("%s: %s", path, got.status)
		}
	}
	if len(told) != 0 {
		t.Errorf("%d requests that name no machine are told", len(told))
	}
	// The same file by its plain name, as a BMC or a person asks for it.
	if got := c.do("GET /image/" + uki.String()); got.status != "200 OK" || got.header.Get("Content-Type") != "application/efi" {
		t.Errorf("by name: %s %v", got.status, got.header)
	}
}

func TestTheURLOfAUKIIsOneThatFirmwareTakes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ base, key, arch, want, err string }{
		{"http://10.0.0.1:8080", "52:54:00:AA:BB:CC", "amd64", "http://10.0.0.1:8080/uki/52-54-00-aa-bb-cc/amd64.efi", ""},
		{"http://192.168.100.200:65535/", "7A1E0000-0000-4000-8000-000000000001", "arm64", "/arm64.efi", ""},
		{"http://10.0.0.1", "node-01", "amd64", "", "neither a MAC nor a UUID"},
		{"http://10.0.0.1", "00:00:00:00:00:00", "amd64", "", "neither a MAC nor a UUID"},
		{"http://10.0.0.1", "52:54:00:aa:bb:cc", "x86_64", "", "amd64 or arm64"},
		{"https://10.0.0.1", "52:54:00:aa:bb:cc", "amd64", "", "not a plain http URL"},
		{"", "52:54:00:aa:bb:cc", "amd64", "", "not a plain http URL"},
		{"http://" + strings.Repeat("a", 100), "52:54:00:aa:bb:cc", "amd64", "", "DHCP takes 127"},
	} {
		got, err := UKIURL(tc.base, tc.key, tc.arch)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%+v: error is %v", tc, err)
			}
			continue
		}
		if err != nil || !strings.HasSuffix(got, tc.want) || len(got) > 127 {
			t.Errorf("%+v: %q, %v", tc, got, err)
		}
	}
	for text, want := range map[string]string{
		"http://10.0.0.1:8080/ipxe/snponly.efi": "", "http://10.0.0.1/a.efi?x=1": "query", "http://10.0.0.1/a.efi#x": "query",
		"http://10.0.0.1/a.efi?": "query", "http://10.0.0.1/boot.ipxe": ".efi", "tftp://10.0.0.1/a.efi": "plain http", "http://%zz/a.efi": "boot URL",
	} {
		if err := CheckBootURL(text); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestAHeadIsNotTheMachinesRequest: nobody boots a HEAD (I4), but its length is
// the true one.
func TestAHeadIsNotTheMachinesRequest(t *testing.T) {
	t.Parallel()
	d := &byMAC{answers: map[string]Answer{"52-54-00-00-00-01": installed(node01)}}
	c := dial(t, start(t, Options{Director: d, OnScript: func(Request, Answer) { t.Error("a HEAD is told") }}))
	got := c.do("HEAD /boot.ipxe?mac=52-54-00-00-00-01&platform=efi")
	want := script(installed(node01), Request{Arch: "amd64", Platform: "efi"}, "http://"+c.RemoteAddr().String())
	if got.header.Get("Content-Length") != strconv.Itoa(len(want)) || d.counted.Load() != 0 {
		t.Errorf("length %s, want %d; counted %d", got.header.Get("Content-Length"), len(want), d.counted.Load())
	}
}
