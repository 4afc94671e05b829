package qemu

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/qemu/disk"
	"github.com/talos-provision/provision/e2e/qemu/image"
)

// From the power button to the maintenance API: the firmware's DHCP and TFTP,
// iPXE, kernel and initramfs over HTTP, and an address by DHCP in the guest. After the
// one-time boot from the network the machine boots its disk again.
func bootFromTheNetwork(t *testing.T, built image.Image) {
	for _, firmware := range []Firmware{UEFI, BIOS} {
		t.Run(string(firmware), func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			dir := t.TempDir()
			ipxe := image.FromEnvironment(os.Getenv).IPXEDir()
			for _, file := range []string{built.Kernel, built.Initramfs, filepath.Join(ipxe, "snponly.efi"), filepath.Join(ipxe, "undionly.kpxe")} {
				copyInto(ctx, t, dir, file)
			}
			for name, script := range map[string]string{
				"autoexec.ipxe": "#!ipxe\ndhcp || exit 1\nchain " + bootServerURL + bootServerName + " || exit 1\n",
				bootServerName: "#!ipxe\nkernel " + bootServerURL + image.KernelName + " initrd=initramfs.xz ip=dhcp " + talosArgs + " || exit 1\n" +
					"initrd --name initramfs.xz " + bootServerURL + image.InitramfsName + " || exit 1\nboot\n",
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			network := newTestNetwork(ctx, t, NetworkConfig{})
			startBootServer(ctx, t, network, dir)
			machine := newTestMachine(ctx, t, network, Config{
				Firmware: firmware,
				Serial:   "CHASSIS-1", BoardSerial: "BRD-1", Manufacturer: "Acme", Product: "R1", UUID: "11223344-5566-7788-99aa-bbccddeeff01",
			})
			start := time.Now()
			if err := machine.PowerOn(ctx, redfishtest.Boot{Target: "Pxe"}); err != nil {
				t.Fatal(err)
			}
			if err := machine.WaitForLog(ctx, "guest: kernel command line"); err != nil {
				t.Fatal(err)
			}
			kernel := time.Since(start)
			got := observe(ctx, t, network, bootClientIP)
			t.Logf("kernel after %s, maintenance API after %s", kernel.Round(100*time.Millisecond), time.Since(start).Round(100*time.Millisecond))
			want := observation{Stage: "maintenance", Ready: true, UUID: "11223344-5566-7788-99aa-bbccddeeff01", Serial: "CHASSIS-1", Manufacturer: "Acme", Product: "R1"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the node (-want +got):\n%s", diff)
			}
			if err := machine.PowerOff(ctx); err != nil {
				t.Fatal(err)
			}
			if err := machine.PowerOn(ctx, redfishtest.Boot{}); err != nil {
				t.Fatal(err)
			}
			if err := machine.WaitForLog(ctx, disk.Marker); err != nil {
				t.Error(err)
			}
		})
	}
}
