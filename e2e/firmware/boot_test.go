package firmware_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/talos-provision/provision/e2e/firmware"
)

const facts = "?serial=${serial:uristring}&board-serial=${board-serial:uristring}&uuid=${uuid}&mac=${mac:hexhyp}&arch=${buildarch}&platform=${platform}"

// install puts an armed machine's scripts and files into the lab.
func install(l *lab) {
	l.files["autoexec.ipxe"] = "#!ipxe\ndhcp || dhcp || exit 1\nchain --autofree " + l.httpURL + "/boot.ipxe" + facts + " ||\nexit 1\n"
	l.pages["/boot.ipxe"] = "#!ipxe\nkernel /vmlinuz initrd=initramfs.xz talos.platform=metal\ninitrd --name initramfs.xz /initramfs-amd64.xz\nboot\n"
	l.pages["/vmlinuz"] = strings.Repeat("kernel", 10_000)
	l.pages["/initramfs-amd64.xz"] = strings.Repeat("initramfs", 20_000)
}

func sum(s string) string {
	digest := sha256.Sum256([]byte(s))
	return hex.EncodeToString(digest[:])
}

func (l *lab) installed(name string) firmware.Outcome {
	return firmware.Outcome{
		Leased:         netip.MustParseAddr("127.66.0.86"),
		NetworkProgram: firmware.Image{Name: name, Size: int64(len(program)), SHA256: sum(program)},
		Kernel: &firmware.Kernel{
			Cmdline:    "initrd=initramfs.xz talos.platform=metal",
			KernelSize: 60_000, KernelSHA256: sum(l.pages["/vmlinuz"]),
			InitrdSize: 180_000, InitrdSHA256: sum(l.pages["/initramfs-amd64.xz"]),
		},
	}
}

var (
	withoutSteps = cmpopts.IgnoreFields(firmware.Outcome{}, "Steps")
	addresses    = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
)

func TestUEFIMachineBootsLinux(t *testing.T) {
	t.Parallel()
	l := newLab(t, install)
	got, err := l.boot(l.machine(firmware.EFI))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(l.installed("snponly.efi"), got, withoutSteps, addresses); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	_, tftpRead, urls := l.seen()
	// The size is asked for before the file; the script is fetched without.
	if diff := cmp.Diff([]string{"snponly.efi", "snponly.efi", "autoexec.ipxe"}, tftpRead); diff != "" {
		t.Errorf("TFTP requests (-want +got):\n%s", diff)
	}
	wantURLs := []string{
		"/boot.ipxe?serial=SN%200001%2FA&board-serial=BRD%231&uuid=11223344-5566-7788-99aa-bbccddeeff00&mac=52-54-00-12-34-56&arch=x86_64&platform=efi",
		"/vmlinuz", "/initramfs-amd64.xz",
	}
	if diff := cmp.Diff(wantURLs, urls); diff != "" {
		t.Errorf("HTTP requests (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"127.66.0.86": true}, l.httpFrom); diff != "" {
		t.Errorf("HTTP sources (-want +got):\n%s", diff)
	}
}

func TestBIOSMachineBootsLinux(t *testing.T) {
	t.Parallel()
	l := newLab(t, install)
	got, err := l.boot(l.machine(firmware.PCBIOS))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(l.installed("undionly.kpxe"), got, withoutSteps, addresses); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	_, tftpRead, urls := l.seen()
	if diff := cmp.Diff([]string{"undionly.kpxe", "undionly.kpxe"}, tftpRead); diff != "" {
		t.Errorf("TFTP requests (-want +got):\n%s", diff)
	}
	// iPXE expands the file name that DHCP gave it.
	if want := "/boot.ipxe?mac=52-54-00-12-34-56"; urls[0] != want {
		t.Errorf("first URL = %s, want %s", urls[0], want)
	}
}

func TestPacketsAreThoseOfFirmware(t *testing.T) {
	t.Parallel()
	uuid := "004433221166558877" + "99aabbccddeeff00" // type 0, then SMBIOS memory order
	tests := []struct {
		platform  string
		rom, ipxe map[uint8]string
	}{
		{firmware.EFI, map[uint8]string{
			57: "05c0", 55: "0102030405060c0d0f111216171c28292a2b3233363a3b3c424361", 97: uuid, 94: "010300", 93: "0007",
			60: hex.EncodeToString([]byte("PXEClient:Arch:00007:UNDI:003000")), 77: "", 175: "", 61: "",
		}, map[uint8]string{77: "69505845", 61: "01525400123456", 97: uuid, 93: "0007", 60: hex.EncodeToString([]byte("PXEClient:Arch:00007:UNDI:003010"))}},
		{firmware.PCBIOS, map[uint8]string{
			97: uuid, 94: "010201", 93: "0000", 60: hex.EncodeToString([]byte("PXEClient:Arch:00000:UNDI:002001")), 77: "", 175: "", 61: "",
		}, map[uint8]string{77: "69505845", 61: "01525400123456", 93: "0000", 60: hex.EncodeToString([]byte("PXEClient:Arch:00000:UNDI:002001"))}},
	}
	for _, tt := range tests {
		t.Run(tt.platform, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, install)
			if _, err := l.boot(l.machine(tt.platform)); err != nil {
				t.Fatal(err)
			}
			packets, _, _ := l.seen()
			// On a busy host the answer may come too late, and the packet again.
			packets = slices.CompactFunc(packets, func(a, b *dhcpv4.DHCPv4) bool {
				return a.TransactionID == b.TransactionID && a.MessageType() == b.MessageType()
			})
			if len(packets) != 4 {
				t.Fatalf("%d packets, want DISCOVER and REQUEST of the ROM and of iPXE", len(packets))
			}
			for i, want := range []map[uint8]string{tt.rom, tt.rom, tt.ipxe, tt.ipxe} {
				packet, got := packets[i], map[uint8]string{}
				for code := range want {
					got[code] = hex.EncodeToString(packet.Options.Get(dhcpv4.GenericOptionCode(code)))
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("packet %d (-want +got):\n%s", i, diff)
				}
				if isROM := i < 2; packet.IsBroadcast() != isROM {
					t.Errorf("packet %d: broadcast = %v, want %v", i, packet.IsBroadcast(), isROM)
				}
				agent := hex.EncodeToString(packet.Options.Get(dhcpv4.OptionRelayAgentInformation))
				if packet.HopCount != 1 || packet.GatewayIPAddr.String() != "127.0.0.1" || agent != "010465746831" {
					t.Errorf("packet %d: hops %d, giaddr %s, option 82 %s; want 1, 127.0.0.1, the circuit eth1", i, packet.HopCount, packet.GatewayIPAddr, agent)
				}
			}
			if got := len(packets[2].Options.Get(dhcpv4.GenericOptionCode(175))); got == 0 {
				t.Error("iPXE sends no option 175")
			}
		})
	}
}

// I3: what is not armed boots its own disk.
func TestMachineBootsItsDisk(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, platform, script, autoexec string
	}{
		{"UEFI, exit 1", firmware.EFI, "#!ipxe\nexit 1\n", ""},
		{"UEFI, no script", firmware.EFI, "", ""},
		{"UEFI, no script and no autoexec", firmware.EFI, "", "none"},
		{"BIOS, sanboot", firmware.PCBIOS, "#!ipxe\nsanboot --no-describe --drive 0x80 || exit\n", ""},
		{"BIOS, exit", firmware.PCBIOS, "#!ipxe\nexit\n", ""},
		{"BIOS, broken script", firmware.PCBIOS, "#!ipxe\nfrobnicate\n", ""},
		{"BIOS, no script", firmware.PCBIOS, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, install, func(l *lab) {
				l.pages["/boot.ipxe"] = tt.script
				if tt.autoexec == "none" {
					delete(l.files, "autoexec.ipxe")
				}
			})
			got, err := l.boot(l.machine(tt.platform))
			if err != nil || !got.LocalBoot || got.Kernel != nil {
				t.Errorf("outcome = %+v, %v, want a local boot", got, err)
			}
		})
	}
}

func TestWithoutAutoexecUEFIMachineAsksDHCPAsIPXE(t *testing.T) {
	t.Parallel()
	l := newLab(t, install, func(l *lab) { delete(l.files, "autoexec.ipxe") })
	got, err := l.boot(l.machine(firmware.EFI))
	if err != nil {
		t.Fatal(err)
	}
	if got.Kernel == nil {
		t.Errorf("outcome = %+v, want a kernel", got)
	}
}

func TestAssertiveOfferIsTaken(t *testing.T) {
	t.Parallel()
	l := newLab(t, install, func(l *lab) {
		l.answer = func(_, reply *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
			reply.UpdateOption(dhcpv4.OptClassIdentifier("PXEClient"))
			reply.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, []byte{6, 1, 8, 255}))
			return reply
		}
	})
	if got, err := l.boot(l.machine(firmware.EFI)); err != nil || got.Kernel == nil {
		t.Errorf("outcome = %+v, %v, want a kernel", got, err)
	}
}

func TestManyMachinesShareARelay(t *testing.T) {
	t.Parallel()
	l := newLab(t, install)
	var all sync.WaitGroup
	for i := range 100 {
		m := l.machine([]string{firmware.EFI, firmware.PCBIOS}[i%2])
		m.MAC = fmt.Sprintf("52:54:00:00:00:%02x", i+1)
		all.Go(func() {
			got, err := m.NetworkBoot(t.Context(), l.relay)
			if want := netip.AddrFrom4([4]byte{127, 66, 0, byte(i + 1)}); err != nil || got.Kernel == nil || got.Leased != want {
				t.Errorf("machine %d: %+v, %v, want a kernel and the address %s", i, got, err, want)
			}
		})
	}
	all.Wait()
}

func TestTimeScaleOneIsRealTime(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	m := l.machine(firmware.EFI)
	m.TimeScale = 0
	m.Faults.StopAfterLease = true
	began := time.Now()
	if _, err := l.boot(m); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 4*time.Second {
		t.Errorf("the lease took %v, want EDK2's wait of 4 s for offers", took)
	}
}
