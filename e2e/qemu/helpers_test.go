package qemu

import (
	"context"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/qemu/image"
)

// bootTimeout bounds everything that waits for a machine. Under TCG and with
// other tests beside it, a boot takes up to half a minute.
const bootTimeout = 3 * time.Minute

// need skips the test where machines cannot run, and says why.
func need(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("boots machines, which takes too long for -short")
	}
	if err := Missing(); err != nil {
		lacking(t, err)
	}
}

// lacking skips the test because of what this host lacks; where E2E=required is
// set, as in `make test`, it fails it: a silent skip would look like a pass.
func lacking(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("E2E") == "required" {
		t.Fatal(err)
	}
	t.Skip(err)
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bootTimeout)
	t.Cleanup(cancel)
	return ctx
}

func newTestNetwork(ctx context.Context, t *testing.T, config NetworkConfig) *Network {
	t.Helper()
	if len(config.Addresses) == 0 {
		config.Addresses = []netip.Prefix{netip.MustParsePrefix("10.98.0.1/24")}
	}
	network, err := NewNetwork(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Errorf("closing the network: %v", err)
		}
	})
	return network
}

// newTestMachine makes a machine; a failed test shows what it printed.
func newTestMachine(ctx context.Context, t *testing.T, network *Network, config Config) *Machine {
	t.Helper()
	if config.Name == "" {
		config.Name = "node-01"
	}
	if config.MAC == "" {
		config.MAC = "52:54:00:12:34:56"
	}
	config.Dir = t.TempDir()
	machine, err := NewMachine(ctx, network, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := machine.Close(); err != nil {
			t.Errorf("closing the machine: %v", err)
		}
		if t.Failed() {
			t.Log(tail(machine.SerialHistory(), 60))
		}
	})
	return machine
}

// guestImage builds the guest, or skips where its kernel is missing. With a
// cold cache the compiler takes longer than any boot, so only the test bounds it.
func guestImage(t *testing.T) image.Image {
	t.Helper()
	options := image.FromEnvironment(os.Getenv)
	if err := options.Missing(); err != nil {
		lacking(t, err)
	}
	built, err := image.Build(t.Context(), t.TempDir(), options)
	if err != nil {
		t.Fatal(err)
	}
	if built.Replaced {
		t.Skip("TALOS_KERNEL replaces the guest that this test looks into")
	}
	return built
}
