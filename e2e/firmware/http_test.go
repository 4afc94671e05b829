package firmware_test

import (
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/firmware"
)

// UEFI HTTP boot through the real services, by the URL that DHCP gives and by
// one that a BMC would set.
func TestMachinesBootByHTTPFromTheRealServices(t *testing.T) {
	t.Parallel()
	relay := startServices(t, "127.78")
	machine := func(last, board string) firmware.Machine {
		return firmware.Machine{
			MAC: "52:54:00:00:02:0" + last, UUID: "11223344-5566-7788-99aa-bbccddeeff00", Serial: "CHASSIS 1", BoardSerial: board,
			TimeScale: 0.01, Timeout: time.Minute,
		}
	}
	byDHCP, err := machine("1", "armed").HTTPBoot(t.Context(), relay, "")
	if err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(byDHCP.Steps, "\n"))
	}
	if byDHCP.Kernel == nil || byDHCP.NetworkProgram.Name != "snponly.efi" {
		t.Errorf("outcome %+v, want a kernel by way of snponly.efi", byDHCP)
	}
	uri := ""
	for _, step := range byDHCP.Steps {
		if rest, found := strings.CutPrefix(step, "HTTP http://"); found {
			uri, _, _ = strings.Cut("http://"+rest, ",")
		}
	}
	byURI, err := machine("2", "armed").HTTPBoot(t.Context(), relay, uri)
	if err != nil || byURI.Kernel == nil {
		t.Errorf("by the URI %q: outcome %+v, error %v, want a kernel", uri, byURI, err)
	}
	unarmed, err := machine("3", "unarmed").HTTPBoot(t.Context(), relay, "")
	if err != nil || !unarmed.LocalBoot || unarmed.Kernel != nil {
		t.Errorf("unarmed: outcome %+v, error %v, want a local boot", unarmed, err)
	}
	bios := machine("4", "armed")
	bios.Platform = firmware.PCBIOS
	if _, err := bios.HTTPBoot(t.Context(), relay, uri); err == nil || !strings.Contains(err.Error(), "UEFI") {
		t.Errorf("a BIOS booted by HTTP: %v", err)
	}
	if _, err := machine("5", "armed").HTTPBoot(t.Context(), relay, uri+"?query"); err != nil {
		t.Errorf("a query after .efi: %v", err)
	}
	if _, err := machine("6", "armed").HTTPBoot(t.Context(), relay, strings.TrimSuffix(uri, ".efi")); err == nil {
		t.Error("a file that does not end in .efi was booted")
	}
}
