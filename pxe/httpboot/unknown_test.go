package httpboot

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

// everything is the query of a machine that fills in all that iPXE can send.
const everything = "serial=S123&board-serial=BRD%231%3A&uuid=7A1E0000-0000-4000-8000-000000000001&mac=0c-c4-7a-00-00-02&arch=x86_64&platform=efi" +
	"&manufacturer=Acme%20%26%20Co&product=R1&asset=%23%20rack%207&nic=0c-c4-7a-00-00-01&nic=0c-c4-7a-00-00-02&nic=&nic="

// TestAnUnknownMachineIsToldWithAllThatItSent is what `status --unknown` lives on.
func TestAnUnknownMachineIsToldWithAllThatItSent(t *testing.T) {
	t.Parallel()
	told := make(chan Request, 1)
	c := dial(t, start(t, Options{Director: director{}, OnScript: func(r Request, a Answer) {
		if a.Node == "" {
			told <- r
		}
	}}))
	c.do("GET /boot.ipxe?" + everything)
	r := <-told
	got := fmt.Sprint([]any{r.Facts.Serial, r.Facts.BoardSerial, r.Facts.UUID, r.MACs(), r.Arch, r.Platform, r.Manufacturer, r.Product, r.Asset, r.Source})
	want := "[S123 BRD#1: 7A1E0000-0000-4000-8000-000000000001 [0c:c4:7a:00:00:02 0c:c4:7a:00:00:01] amd64 efi Acme & Co R1 # rack 7 127.0.0.1]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAnUnknownMachineAsAnInventoryFile(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ query, want string }{
		"everything": {everything, `# Asked for a boot script from 127.1.2.3; Acme & Co R1; asset # rack 7; booted by efi.
install: false
arch: amd64
serial: S123
boardSerial: 'BRD#1:'
uuid: 7a1e0000-0000-4000-8000-000000000001
macs: ['0c:c4:7a:00:00:02', '0c:c4:7a:00:00:01']
`},
		"one card, placeholders, a number": {"serial=Default%20string&board-serial=0012345&uuid=ffffffff-ffff-ffff-ffff-ffffffffffff&mac=0c-c4-7a-00-00-02&arch=arm64", `# Asked for a boot script from 127.1.2.3.
install: false
arch: arm64
boardSerial: "0012345"
mac: 0c:c4:7a:00:00:02
`},
		"nothing": {"arch=riscv64", `# Asked for a boot script from 127.1.2.3.
# It sent nothing that tells it from other machines: give it a bmc.address.
install: false
`},
	} {
		if diff := cmp.Diff(tc.want, ParseRequest(tc.query, client).InventoryYAML()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// FuzzInventoryYAML: whatever a machine sends, the file says that and no more.
func FuzzInventoryYAML(f *testing.F) {
	f.Add(everything)
	f.Add("serial=a%0abmc:%20{address:%201.2.3.4}&product=%0ainstall:%20true&asset=%E2%80%A8install:%20true")
	f.Add("serial=!!binary%20x&board-serial=%26a&mac=1&mac=%2a&uuid=%3f")
	f.Add("serial=yes&board-serial=1e3&manufacturer=%c2%85x&asset=...")
	f.Fuzz(func(t *testing.T, query string) {
		r := ParseRequest(query, netip.Addr{})
		text := r.InventoryYAML()
		var n unknownNode
		decoder := yaml.NewDecoder(strings.NewReader(text))
		decoder.KnownFields(true)
		if err := decoder.Decode(&n); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if n.Install || n.Serial != known(r.Facts.Serial) || n.BoardSerial != known(r.Facts.BoardSerial) || (n.Arch != "" && n.Arch != r.Arch) {
			t.Errorf("%+v came out as\n%s", r, text)
		}
	})
}
