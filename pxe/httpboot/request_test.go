package httpboot

import (
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/talos-provision/provision/inventory/identity"
)

var client = netip.MustParseAddr("127.1.2.3")

var cmpRequest = cmp.Options{cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty()}

func TestParseRequestReadsWhatIPXESends(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, query string
		want        Request
	}{
		{
			"as observed from iPXE 1.21.1 under OVMF",
			"serial=SN%200001%2FA&board-serial=BRD%231&uuid=11223344-5566-7788-99aa-bbccddeeff00&mac=52-54-00-12-34-56&asset=&manufacturer=Acme%20%26%20Co&product=R1&arch=x86_64&platform=efi",
			Request{
				Facts: identity.Facts{Serial: "SN 0001/A", BoardSerial: "BRD#1", UUID: "11223344-5566-7788-99aa-bbccddeeff00", MACs: []string{"52-54-00-12-34-56"}},
				Arch:  "amd64", Platform: "efi", Manufacturer: "Acme & Co", Product: "R1",
			},
		},
		{"BIOS builds say i386 on every machine", "arch=i386&platform=pcbios", Request{Arch: "amd64", Platform: "pcbios"}},
		{"arm64", "arch=arm64&platform=efi", Request{Arch: "arm64", Platform: "efi"}},
		{"an architecture without Talos", "arch=riscv64&platform=efi", Request{Platform: "efi"}},
		{"no architecture", "serial=A1", Request{Facts: identity.Facts{Serial: "A1"}, Arch: "amd64"}},
		{"a plus is a plus", "serial=A+B%2BC", Request{Facts: identity.Facts{Serial: "A+B+C"}, Arch: "amd64"}},
		{"a percent sign that escapes nothing", "serial=50%&product=%zz", Request{Facts: identity.Facts{Serial: "50%"}, Arch: "amd64", Product: "%zz"}},
		{"several MACs", "mac=52:54:00:00:00:01&mac=&mac=52:54:00:00:00:02", Request{Facts: identity.Facts{MACs: []string{"52:54:00:00:00:01", "52:54:00:00:00:02"}}, Arch: "amd64"}},
		{"all network cards", "mac=52-54-00-00-00-02&nic=52-54-00-00-00-01&nic=52-54-00-00-00-02&nic=&nic=", Request{
			Facts: identity.Facts{MACs: []string{"52-54-00-00-00-02"}}, NICs: []string{"52-54-00-00-00-01", "52-54-00-00-00-02"}, Arch: "amd64",
		}},
		{"the first of two serials", "serial=A&serial=B", Request{Facts: identity.Facts{Serial: "A"}, Arch: "amd64"}},
		{"padding and control characters", "serial=%20A1%00%0a%20%20&product=%1b%5B31mR%C2%A0%FF", Request{Facts: identity.Facts{Serial: "A1"}, Arch: "amd64", Product: "[31mR"}},
		{"a value too long is not cut into another machine's", "serial=" + strings.Repeat("A", maxValue+1) + "&product=R1", Request{Arch: "amd64", Product: "R1"}},
		{"waits", "wait=7", Request{Arch: "amd64", Waits: 7}},
		{"senseless waits", "wait=-7", Request{Arch: "amd64"}},
		{"unknown keys", "serial=A&foo=bar&=x&&", Request{Facts: identity.Facts{Serial: "A"}, Arch: "amd64"}},
		{"nothing", "", Request{Arch: "amd64"}},
	} {
		tc.want.Source = client
		if diff := cmp.Diff(tc.want, ParseRequest(tc.query, client), cmpRequest); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	for _, seed := range []string{
		"", "&&&===", "serial=%", "serial=%00%ff&mac=" + strings.Repeat("a", 300), "arch=i386&platform=pcbios&wait=99999999999999999999",
		"serial=SN%200001%2FA&board-serial=BRD%231&uuid=11223344-5566-7788-99aa-bbccddeeff00&mac=52-54-00-12-34-56&asset=&manufacturer=Acme%20%26%20Co&product=R1&arch=x86_64&platform=efi",
		strings.Repeat("mac=1&", 5000), strings.Repeat("nic=1&", 500) + "nic=2&nic=%31", "serial=${serial}&product=a||exit%0aboot",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		r := ParseRequest(query, client)
		if len(r.Facts.MACs) > maxMACs || len(r.NICs) > maxMACs {
			t.Errorf("%d MACs, %d NICs", len(r.Facts.MACs), len(r.NICs))
		}
		values := append([]string{r.Facts.Serial, r.Facts.BoardSerial, r.Facts.UUID, r.Manufacturer, r.Product, r.Asset}, r.Facts.MACs...)
		values = append(values, r.NICs...)
		for _, v := range values {
			if len(v) > maxValue || !utf8.ValidString(v) || strings.ContainsAny(v, "\n\r\x00\x1b") || v != strings.TrimSpace(v) {
				t.Errorf("value %q got through", v)
			}
		}
		if r.Arch != "" && r.Arch != "amd64" && r.Arch != "arm64" {
			t.Errorf("arch %q", r.Arch)
		}
		if r.Platform != "" && r.Platform != "efi" && r.Platform != "pcbios" {
			t.Errorf("platform %q", r.Platform)
		}
		if r.Waits < 0 {
			t.Errorf("waits %d", r.Waits)
		}
	})
}
