// Command bootserver runs the boot services alone, for benchmarks: DHCP with
// reservations and durable leases, TFTP, and HTTP with a controller that knows
// an inventory of many nodes and installs none of them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/talos"
	"github.com/talos-provision/provision/pxe"
	"github.com/talos-provision/provision/pxe/assets"
	"github.com/talos-provision/provision/pxe/dhcp"
	"github.com/talos-provision/provision/pxe/httpboot"
	"github.com/talos-provision/provision/pxe/tftp"
)

// settings are the command line.
type settings struct {
	address      netip.Addr
	subnet       netip.Prefix
	first, last  netip.Addr
	leases       string
	reservations int
	ipxe, cache  string
	nodes        int
	profile      string
}

func main() {
	var s settings
	flag.TextVar(&s.address, "address", netip.MustParseAddr("10.99.0.1"), "this host's address")
	flag.TextVar(&s.subnet, "subnet", netip.MustParsePrefix("10.99.0.0/16"), "network to lease in")
	flag.TextVar(&s.first, "first", netip.MustParseAddr("10.99.1.0"), "first address of the pool")
	flag.TextVar(&s.last, "last", netip.MustParseAddr("10.99.250.254"), "last address of the pool")
	flag.StringVar(&s.leases, "leases", "", "lease file")
	flag.IntVar(&s.reservations, "reservations", 0, "reservations, for the MACs that perfdhcp counts up")
	flag.StringVar(&s.ipxe, "ipxe", "", "folder of the iPXE binaries")
	flag.StringVar(&s.cache, "cache", "", "folder of the images")
	flag.IntVar(&s.nodes, "nodes", 0, "nodes in the inventory")
	flag.StringVar(&s.profile, "pprof", "", "address for profiles; empty serves none")
	flag.Parse()
	if err := run(s); err != nil {
		fmt.Fprintln(os.Stderr, "bootserver:", err)
		os.Exit(1)
	}
}

func run(s settings) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	services, err := s.services()
	if err != nil {
		return err
	}
	if err := services.Listen(ctx); err != nil {
		return err
	}
	if s.profile != "" {
		server := &http.Server{Addr: s.profile, Handler: http.HandlerFunc(profiles), ReadHeaderTimeout: 10 * time.Second}
		go func() { _ = server.ListenAndServe() }()
	}
	defer pxe.RelaxCollector()()
	fmt.Println("ready")
	return services.Run(ctx)
}

func profiles(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/debug/pprof/profile" {
		pprof.Profile(w, r)
		return
	}
	pprof.Index(w, r)
}

// services are those of `provision`, with counters where it has its metrics.
func (s settings) services() (*pxe.Services, error) {
	var transfers, bytes atomic.Int64
	cache, err := assets.New(assets.Options{Dir: s.cache, Factory: "http://127.0.0.1:9"}) // nothing is to be fetched
	if err != nil {
		return nil, err
	}
	controller, err := provisioner.New(provisioner.Options{Inventory: provisioner.Inventory{Nodes: inventoryOf(s.nodes)}, Dial: noBMC, Prober: talos.Prober{}})
	if err != nil {
		return nil, err
	}
	return pxe.New(pxe.Options{
		DHCP: &dhcp.Options{
			ServerAddress: s.address, LeaseFile: s.leases, Reservations: s.reserved(),
			Subnets: []dhcp.Subnet{{CIDR: s.subnet, First: s.first, Last: s.last, Lease: time.Hour}},
			OnLease: func(dhcp.Lease) { transfers.Add(1) },
		},
		// All clients of a benchmark have one address.
		TFTP: &tftp.Options{MaxPerClient: 10_000, OnTransfer: func(t tftp.Transfer) { bytes.Add(t.Sent) }},
		HTTP: pxe.HTTP{Options: httpboot.Options{
			Director: controller, Assets: cache, IPXEDir: s.ipxe,
			OnScript:   func(httpboot.Request, httpboot.Answer) { transfers.Add(1) },
			OnTransfer: func(t httpboot.Transfer) { bytes.Add(t.Bytes) },
		}},
	})
}

// reserved gives the MACs of perfdhcp, which count up from 00:0c:01:02:03:04,
// the addresses of the subnet from its eleventh third byte on.
func (s settings) reserved() map[string]netip.Addr {
	reservations := make(map[string]netip.Addr, s.reservations)
	base := s.subnet.Addr().As4()
	for i := range s.reservations {
		mac := uint64(0x000c01020304) + uint64(i)
		n := 10<<8 + i + 1
		reservations[fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", byte(mac>>40), byte(mac>>32), byte(mac>>24), byte(mac>>16), byte(mac>>8), byte(mac))] =
			netip.AddrFrom4([4]byte{base[0], base[1], byte(n >> 8), byte(n)})
	}
	return reservations
}

func inventoryOf(n int) []inventory.Node {
	nodes := make([]inventory.Node, n)
	for i := range nodes {
		nodes[i] = inventory.Node{
			Name: fmt.Sprintf("node-%05d", i), Cluster: fmt.Sprintf("k8s-%02d", i%40), Arch: "amd64",
			Serial: fmt.Sprintf("SYS%05d", i), BoardSerial: fmt.Sprintf("BRD%05d", i),
			UUID: fmt.Sprintf("7a1e0000-0000-4000-8000-%012x", i+1),
			MACs: []string{fmt.Sprintf("0c:c4:7a:%02x:%02x:%02x", byte(i>>16), byte(i>>8), byte(i))},
		}
	}
	return nodes
}

func noBMC(context.Context, inventory.Node) (provisioner.BMC, error) {
	return nil, errors.New("a benchmark has no BMCs")
}
