package e2e_test

import (
	"cmp"
	"os"

	"github.com/talos-provision/provision/e2e/qemu"
)

// Where TALOS_KERNEL and TALOS_INITRAMFS replace the guest, the same tests boot
// real Talos, as far as they need nothing that only the guest does.

// bootedVersion is the version of the Talos that the machines boot: that of
// TALOS_VERSION for real files.
func bootedVersion(b built) string {
	if !b.image.Replaced {
		return talosVersion
	}
	return cmp.Or(os.Getenv("TALOS_VERSION"), talosVersion)
}

// needsGuest skips a test of what only the guest does.
func (s *site) needsGuest(why string) {
	s.t.Helper()
	if s.built.image.Replaced {
		s.t.Skip("not with real Talos files: " + why)
	}
}

// fitTalos gives a machine what real Talos needs; E2E_ACCEL=kvm makes it quicker
// where KVM works.
func (s *site) fitTalos(config *qemu.Config) {
	if s.built.image.Replaced {
		config.Memory = max(config.Memory, 2048)
		config.Accelerator = os.Getenv("E2E_ACCEL")
	}
}

// bootTimeout is how long a machine may take to maintenance mode.
func (s *site) bootTimeout() string {
	if s.built.image.Replaced {
		return "15m"
	}
	return "2m"
}

// vlanInterface is a name that the machine's network card has, or takes: the
// guest has no udev and gives its card any name, to prove that the name arrives.
func (s *site) vlanInterface() string {
	if s.built.image.Replaced {
		return "eth0" // as net.ifnames=0 has it
	}
	return "ens1"
}
