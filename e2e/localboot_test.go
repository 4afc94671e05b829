package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/qemu"
	"github.com/talos-provision/provision/e2e/qemu/disk"
)

// uefiMenu is what OVMF says when it opens its menu.
const uefiMenu = `starting Boot0000 "UiApp"`

// A machine that is not being installed is sent to its own disk in the way that
// its inventory file names; what its firmware does next is what counts. (auto is
// what the bystander of provision_test.go is sent by.)
func TestLocalBootByEachMethod(t *testing.T) {
	t.Parallel()
	for firmware, methods := range map[qemu.Firmware][]struct {
		method string
		shows  string // on the console, in the end; "" means that the machine is off
	}{
		qemu.BIOS: {
			{"exit0", disk.Marker},
			{"http404", disk.Marker},
			{"poweroff", disk.Marker}, // Debian's iPXE for BIOS lacks the command, and goes on
		},
		qemu.UEFI: {
			{"exit0", uefiMenu},
			{"http404", disk.Marker},
			{"poweroff", ""},
		},
	} {
		t.Run(string(firmware), func(t *testing.T) {
			s := newSite(t)
			s.write("provision.yaml", strings.Replace(s.provisionYAML(), "bootTimeout: 2m", "bootTimeout: 10m", 1))
			// The boot services are there while a run lasts; this node lets it last.
			s.addSilent(board("node-00", 1, qemu.UEFI), "ip: 10.98.0.11\ngateway: 10.98.0.1\ninstall: true\n")
			for i, m := range methods {
				machine := board(m.method, i+2, firmware)
				machine.DefaultNetworkFirst = true
				s.add(machine, fmt.Sprintf("ip: 10.98.0.%d\ngateway: 10.98.0.1\nserial: %s\nboardSerial: %s\nlocalBoot: %s\n", 12+i, machine.Serial, machine.BoardSerial, m.method))
			}
			run := s.start()
			run.until("Armed")
			for _, m := range methods {
				if err := s.servers[m.method].PowerOn(t.Context(), redfishtest.Boot{}); err != nil {
					t.Fatal(err)
				}
			}
			waiting, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			for _, m := range methods {
				if err := s.servers[m.method].ended(waiting, m.shows); err != nil {
					t.Errorf("%s: %v", m.method, err)
				}
			}
			if err := run.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			run.finish()
			for _, m := range methods {
				console := s.servers[m.method].SerialLog()
				said := "provision: metal/" + m.method + " no run works on it"
				if m.method == "http404" {
					said = "/boot.ipxe... No" // such file or directory, or: Not found
				}
				if !strings.Contains(console, said) {
					t.Errorf("%s: iPXE did not say %q, so this proved nothing", m.method, said)
				}
				if m.shows != disk.Marker && strings.Contains(console, disk.Marker) {
					t.Errorf("%s: it booted its disk", m.method)
				}
			}
		})
	}
}

// ended waits for a text on the console, or for the machine to switch itself off.
func (s server) ended(ctx context.Context, shows string) error {
	if shows == "" {
		return s.WaitPowered(ctx, false)
	}
	return s.WaitForLog(ctx, shows)
}
