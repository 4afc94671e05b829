package qemu

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/machinery/client"
	"github.com/siderolabs/talos/pkg/machinery/constants"
	"github.com/siderolabs/talos/pkg/machinery/resources/hardware"
	talosruntime "github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"google.golang.org/grpc"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/qemu/image"
)

const talosArgs = "console=ttyS0 talos.platform=metal slab_nomerge pti=on"

// TestGuest holds every test that boots the guest, which is built once for all.
func TestGuest(t *testing.T) {
	t.Parallel()
	need(t)
	built := guestImage(t)
	for name, test := range map[string]func(*testing.T, image.Image){
		"serves the maintenance API at its configured address": serveAtConfiguredAddress,
		"powers off on a fatal error":                          powerOffOnFatalError,
		"resets into the default boot order":                   resetIntoDefaultOrder,
		"boots from the network":                               bootFromTheNetwork,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, built)
		})
	}
}

// The guest takes its address from the kernel command line in the form of the
// reference inventory, and its maintenance API answers there as this machine.
func serveAtConfiguredAddress(t *testing.T, built image.Image) {
	for _, tt := range []struct {
		name, cmdline, address string
	}{
		{
			name:    "static, untagged",
			cmdline: "ip=10.98.0.11::10.98.0.1:255.255.255.0:node-01:enp3s0f0::10.98.0.1:10.98.0.1:10.98.0.1 " + talosArgs,
			address: "10.98.0.11",
		},
		{
			name:    "static, VLAN",
			cmdline: "ip=10.99.0.12::10.99.0.1:255.255.255.0:node-02:eno1.1234::10.99.0.1:10.99.0.1:10.99.0.1 vlan=eno1.1234:eno1 talos.e2e.version=v1.9.5 " + talosArgs,
			address: "10.99.0.12",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			network := newTestNetwork(ctx, t, NetworkConfig{
				Addresses: []netip.Prefix{netip.MustParsePrefix("10.98.0.1/24")},
				VLANs:     []VLAN{{ID: 1234, Address: netip.MustParsePrefix("10.99.0.1/24")}},
			})
			machine := newTestMachine(ctx, t, network, Config{
				Firmware: BIOS,
				Kernel:   built.Kernel, Initramfs: built.Initramfs, Cmdline: tt.cmdline,
				Serial: "S, 1", BoardSerial: "BRD-1", ChassisSerial: "CHS-1", Manufacturer: "Acme & Co", Product: "R1",
				UUID: "11223344-5566-7788-99aa-bbccddeeff00",
			})
			start := time.Now()
			if err := machine.PowerOn(ctx, redfishtest.Boot{}); err != nil {
				t.Fatal(err)
			}
			got := observe(ctx, t, network, tt.address)
			t.Logf("maintenance API answered %s after power-on", time.Since(start).Round(100*time.Millisecond))
			want := observation{
				Stage: "maintenance", Ready: true,
				UUID: "11223344-5566-7788-99aa-bbccddeeff00", Serial: "S, 1", Manufacturer: "Acme & Co", Product: "R1",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the node at %s (-want +got):\n%s", tt.address, diff)
			}
		})
	}
}

// A guest that cannot go on says why and switches itself off.
func powerOffOnFatalError(t *testing.T, built image.Image) {
	ctx := testContext(t)
	machine := newTestMachine(ctx, t, newTestNetwork(ctx, t, NetworkConfig{}), Config{
		Firmware: BIOS,
		Kernel:   built.Kernel, Initramfs: built.Initramfs,
		Cmdline: "ip=10.98.0.11::10.98.0.1:255.255.255.0:node-01:eth0 talos.e2e.version=latest " + talosArgs,
	})
	if err := machine.PowerOn(ctx, redfishtest.Boot{}); err != nil {
		t.Fatal(err)
	}
	if err := machine.WaitForLog(ctx, "guest: FATAL: starting the maintenance API"); err != nil {
		t.Fatal(err)
	}
	if err := machine.WaitPowered(ctx, false); err != nil {
		t.Error(err)
	}
}

// A one-time boot target is used up by one boot: a machine that resets itself
// comes back by its default order, as a real one does.
func resetIntoDefaultOrder(t *testing.T, built image.Image) {
	ctx := testContext(t)
	machine := newTestMachine(ctx, t, newTestNetwork(ctx, t, NetworkConfig{}), Config{
		Firmware: BIOS,
		Kernel:   built.Kernel, Initramfs: built.Initramfs,
		Cmdline: "console=ttyS0 panic=-1 rdinit=/none", // panics and resets at once
	})
	if err := machine.PowerOn(ctx, redfishtest.Boot{Target: "Pxe", Mode: "Legacy"}); err != nil {
		t.Fatal(err)
	}
	for len(machine.Boots()) < 2 {
		select {
		case <-ctx.Done():
			t.Fatal("the machine did not come back from its reset")
		case <-time.After(logPoll):
		}
	}
	want := []redfishtest.Boot{{Target: "Pxe", Mode: "Legacy"}, {}}
	if diff := cmp.Diff(want, machine.Boots()[:2]); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
}

type observation struct {
	Stage                               string
	Ready                               bool
	UUID, Serial, Manufacturer, Product string
}

// observe polls the Talos API from inside the namespace until it answers.
func observe(ctx context.Context, t *testing.T, network *Network, address string) observation {
	t.Helper()
	for {
		got, err := observeOnce(ctx, network, address)
		if err == nil {
			return got
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the maintenance API at %s does not answer: %v", address, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func observeOnce(ctx context.Context, network *Network, address string) (observation, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := handshake(ctx, network, net.JoinHostPort(address, "50000")); err != nil {
		return observation{}, err
	}
	talos, err := client.New(ctx,
		client.WithTLSConfig(&tls.Config{InsecureSkipVerify: true}), // maintenance mode has no trusted certificate
		client.WithEndpoints(address),
		client.WithGRPCDialOptions(grpc.WithNoProxy(), grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return network.Dial(ctx, "tcp", address)
		})))
	if err != nil {
		return observation{}, err
	}
	defer func() { _ = talos.Close() }()
	status, err := safe.StateGetByID[*talosruntime.MachineStatus](ctx, talos.COSI, talosruntime.MachineStatusID)
	if err != nil {
		return observation{}, err
	}
	system, err := safe.StateGetByID[*hardware.SystemInformation](ctx, talos.COSI, hardware.SystemInformationID)
	if err != nil {
		return observation{}, err
	}
	spec := system.TypedSpec()
	return observation{
		Stage: status.TypedSpec().Stage.String(), Ready: status.TypedSpec().Status.Ready,
		UUID: spec.UUID, Serial: spec.SerialNumber, Manufacturer: spec.Manufacturer, Product: spec.ProductName,
	}, nil
}

// handshake checks that the certificate is that of maintenance mode.
func handshake(ctx context.Context, network *Network, address string) error {
	conn, err := network.Dial(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err := secure.HandshakeContext(ctx); err != nil {
		return err
	}
	if name := secure.ConnectionState().PeerCertificates[0].Subject.CommonName; name != constants.MaintenanceServiceCommonName {
		return errors.New("the certificate is of " + name)
	}
	return nil
}
