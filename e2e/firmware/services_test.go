package firmware_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/firmware"
	"github.com/talos-provision/provision/pxe/assets"
	"github.com/talos-provision/provision/pxe/dhcp"
	"github.com/talos-provision/provision/pxe/httpboot"
	"github.com/talos-provision/provision/pxe/tftp"
)

const (
	schematic = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"
	args      = "ip=10.0.0.7::10.0.0.1:255.255.255.0:node-01:eth0.4000::1.1.1.1:8.8.8.8:pool.ntp.org vlan=eth0.4000:eth0 talos.platform=metal"
)

// director arms the machines with board serial "armed" (I3).
type director struct{}

func (director) Direct(_ context.Context, r httpboot.Request) httpboot.Answer {
	if r.Facts.BoardSerial == "armed" {
		return httpboot.Answer{Kind: httpboot.Install, Node: "node-01", Schematic: schematic, Version: "v1.13.9", Args: args}
	}
	return httpboot.Answer{Kind: httpboot.LocalBoot, Reason: "not armed"}
}

// startServices runs the product's own boot services on SLASH16.5.1 and a relay
// before them, and returns the relay. Tests have a /16 of their own each.
func startServices(t *testing.T, slash16 string) *firmware.Relay {
	t.Helper()
	server := netip.MustParseAddr(slash16 + ".5.1")
	relay, err := firmware.NewRelay(netip.MustParseAddrPort(slash16+".5.2:0"), netip.AddrPortFrom(server, 6767))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = relay.Close() })

	factory := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat(r.URL.Path, 2000))
	}))
	t.Cleanup(factory.Close)
	cache, err := assets.New(assets.Options{Dir: t.TempDir(), Factory: factory.URL})
	if err != nil {
		t.Fatal(err)
	}
	ipxe := t.TempDir()
	for _, name := range []string{"snponly.efi", "undionly.kpxe"} {
		if err := os.WriteFile(filepath.Join(ipxe, name), []byte(strings.Repeat(name+" autoexec.ipxe ", 5000)), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", slash16+".5.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + listener.Addr().String()
	web := httpboot.NewServer(httpboot.New(httpboot.Options{
		Director: director{}, Assets: cache, IPXEDir: ipxe, Allow: func(assets.Ref) bool { return true },
	}), nil)
	t.Cleanup(func() { _ = web.Close() })

	leases, err := dhcp.New(dhcp.Options{
		Listen: slash16 + ".5.1:6767", ServerAddress: server, RelayPort: int(relay.Addr().Port()), BootURL: url,
		Subnets: []dhcp.Subnet{{
			CIDR:  netip.MustParsePrefix(slash16 + ".0.0/16"),
			First: netip.MustParseAddr(slash16 + ".6.1"), Last: netip.MustParseAddr(slash16 + ".6.100"),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	files, err := tftp.New(tftp.Options{
		Listen: slash16 + ".5.1:6969", IPXEDir: ipxe, Autoexec: func(netip.Addr) string { return httpboot.Autoexec(url) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []interface{ Listen() error }{leases, files} {
		if err := s.Listen(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = leases.Serve(ctx) })
	running.Go(func() { _ = files.Serve(ctx) })
	running.Go(func() { _ = web.Serve(listener) })
	t.Cleanup(func() { cancel(); _ = web.Close(); running.Wait() })
	return relay
}

func TestMachinesBootFromTheRealServices(t *testing.T) {
	t.Parallel()
	relay := startServices(t, "127.77")
	for _, platform := range []string{firmware.EFI, firmware.PCBIOS} {
		for _, board := range []string{"armed", "unarmed"} {
			t.Run(platform+" "+board, func(t *testing.T) {
				t.Parallel()
				m := firmware.Machine{
					// Four boards of one chassis share its serial.
					MAC:  "52:54:00:00:01:0" + map[string]string{"efiarmed": "1", "efiunarmed": "2", "pcbiosarmed": "3", "pcbiosunarmed": "4"}[platform+board],
					UUID: "11223344-5566-7788-99aa-bbccddeeff00", Serial: "CHASSIS 1", BoardSerial: board, Platform: platform,
					TFTPPort: 6969, TimeScale: 0.01, Timeout: time.Minute,
				}
				got, err := m.NetworkBoot(t.Context(), relay)
				t.Cleanup(func() {
					if t.Failed() {
						t.Log(strings.Join(got.Steps, "\n"))
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				if pool := netip.MustParsePrefix("127.77.6.0/24"); !pool.Contains(got.Leased) {
					t.Errorf("leased %s, want an address of %s", got.Leased, pool)
				}
				if board == "unarmed" {
					if !got.LocalBoot || got.Kernel != nil {
						t.Errorf("outcome = %+v, want a local boot", got)
					}
					return
				}
				image := func(name string) string { return strings.Repeat("/image/"+schematic+"/v1.13.9/"+name, 2000) }
				kernel, initramfs := image("kernel-amd64"), image("initramfs-amd64.xz")
				want := &firmware.Kernel{
					Cmdline:    "initrd=initramfs.xz " + args,
					KernelSize: int64(len(kernel)), KernelSHA256: sum(kernel),
					InitrdSize: int64(len(initramfs)), InitrdSHA256: sum(initramfs),
				}
				if diff := cmp.Diff(want, got.Kernel); diff != "" {
					t.Errorf("kernel (-want +got):\n%s", diff)
				}
			})
		}
	}
}
