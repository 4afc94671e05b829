package firmware_test

import (
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/talos-provision/provision/e2e/firmware"
)

// With Secure Boot on, firmware starts a signed UKI as its Linux, and refuses
// iPXE, however it came.
func TestSecureBootStartsWhatIsSignedAndNothingElse(t *testing.T) {
	t.Parallel()
	uki := firmware.SignedUKI + strings.Repeat("\x00", 1<<20)
	l := newLab(t, func(l *lab) {
		l.pages["/uki/x/amd64.efi"], l.pages["/ipxe/snponly.efi"], l.pages["/late.efi"] = uki, program, strings.Repeat("\x00", 512)+uki
		l.answer = func(request, reply *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
			if class := request.Options.Get(dhcpv4.OptionClassIdentifier); strings.HasPrefix(string(class), "HTTPClient") {
				reply.UpdateOption(dhcpv4.OptClassIdentifier("HTTPClient"))
				reply.UpdateOption(dhcpv4.OptBootFileName(l.httpURL + "/uki/x/amd64.efi\x00"))
			}
			return reply
		}
	})
	secure := l.machine(firmware.EFI)
	secure.SecureBoot = true
	for name, uri := range map[string]string{"the file of DHCP": "", "the file of a BMC": l.httpURL + "/uki/x/amd64.efi"} {
		outcome, err := secure.HTTPBoot(t.Context(), l.relay, uri)
		if err != nil || outcome.Kernel == nil || outcome.Kernel.KernelSize != int64(len(uki)) || outcome.Kernel.Cmdline != "" || outcome.NetworkProgram.Name != "amd64.efi" || outcome.LocalBoot {
			t.Errorf("%s: %+v, %v", name, outcome, err)
		}
	}
	for name, uri := range map[string]string{"iPXE": l.httpURL + "/ipxe/snponly.efi", "a mark that comes late": l.httpURL + "/late.efi", "nothing": l.httpURL + "/none.efi"} {
		outcome, err := secure.HTTPBoot(t.Context(), l.relay, uri)
		if err == nil || outcome.Kernel != nil || !outcome.LocalBoot {
			t.Errorf("%s: %+v, %v, want a local boot", name, outcome, err)
		}
	}
	outcome, err := secure.NetworkBoot(t.Context(), l.relay)
	if err == nil || !strings.Contains(err.Error(), "security violation") || !outcome.LocalBoot {
		t.Errorf("iPXE by TFTP: %+v, %v", outcome, err)
	}
	// The same UKI runs where Secure Boot is off.
	outcome, err = l.machine(firmware.EFI).HTTPBoot(t.Context(), l.relay, "")
	if err != nil || outcome.Kernel == nil {
		t.Errorf("without Secure Boot: %+v, %v", outcome, err)
	}
}
