package fleet

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/firmware"
	"github.com/talos-provision/provision/provisioner/talos"
	"github.com/talos-provision/provision/pxe"
	"github.com/talos-provision/provision/pxe/assets"
	"github.com/talos-provision/provision/pxe/dhcp"
	"github.com/talos-provision/provision/pxe/httpboot"
	"github.com/talos-provision/provision/pxe/tftp"
)

// director installs every machine of the plan, and notes who asked.
type director struct {
	fleet *Fleet
	mu    sync.Mutex
	asked map[string]int // by UUID
}

func (d *director) Direct(_ context.Context, r httpboot.Request) httpboot.Answer {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked[r.Facts.UUID]++
	for _, m := range d.fleet.machines {
		if m.Hardware.UUID == r.Facts.UUID && m.inPlan() {
			args := fmt.Sprintf("ip=%s::%s:255.255.0.0:%s:eth0 talos.platform=metal", m.IP, d.fleet.address(relayOffset), m.Name)
			return httpboot.Answer{Kind: httpboot.Install, Node: m.Name, Schematic: VanillaSchematic, Version: d.fleet.config.TalosVersion, Args: args}
		}
	}
	return httpboot.Answer{Kind: httpboot.LocalBoot, Reason: "not in the plan"}
}

func (d *director) times(m *Machine) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked[m.Hardware.UUID]
}

// serveBoot runs the product's boot services where the fleet's machines look for them.
func serveBoot(t *testing.T, f *Fleet) *director {
	t.Helper()
	d := &director{fleet: f, asked: map[string]int{}}
	cache, err := assets.New(assets.Options{Dir: t.TempDir(), Factory: f.factory.url})
	if err != nil {
		t.Fatal(err)
	}
	at := func(port uint16) string { return netip.AddrPortFrom(f.address(controllerOffset), port).String() }
	ipxe := filepath.Join(f.config.Dir, "ipxe")
	services, err := pxe.New(pxe.Options{
		DHCP: &dhcp.Options{
			Listen: at(dhcpPort), ServerAddress: f.address(controllerOffset), RelayPort: relayPort,
			Subnets: []dhcp.Subnet{{CIDR: f.config.Network, First: f.address(leaseOffset), Last: f.address(leaseEnd)}},
		},
		TFTP: &tftp.Options{Listen: at(tftpPort), IPXEDir: ipxe},
		HTTP: pxe.HTTP{Listen: at(httpPort), Options: httpboot.Options{
			Director: d, Assets: cache, IPXEDir: ipxe, Allow: func(assets.Ref) bool { return true },
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := services.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = services.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return d
}

// What each machine does once it is switched on, on the wire and by its own account.
func TestMachinesMisbehaveAsTheirFaultsSay(t *testing.T) {
	t.Parallel()
	faults := map[int]Fault{1: SilentPower, 2: IPXENever, 3: StuckDownload, 4: NeverReturns, 5: WrongMachine, 6: PacketLoss, 7: SlowPOST, 8: SlowDownload, 9: Stranger, 10: NotInPlan}
	f := faulty(t, "127.68.0.0/16", 11, faults, func(c *Config) {
		c.Faults = Rates{PacketLoss: {Strength: 0.1}, SlowDownload: {Strength: 512}}
		c.ImageSize = 256 << 10
	})
	d := serveBoot(t, f)
	for _, m := range f.Machines() {
		if m.inPlan() {
			if err := m.PowerOn(t.Context(), redfishtest.Boot{Target: "Pxe"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	good, silent, never, stuck, hung, wrong, lossy, post, slow, stranger, spare := f.machines[0], f.machines[1], f.machines[2], f.machines[3],
		f.machines[4], f.machines[5], f.machines[6], f.machines[7], f.machines[8], f.machines[9], f.machines[10]
	for _, m := range []*Machine{good, lossy, slow} {
		eventually(t, fmt.Sprintf("%v is up", m.Wrong), func() bool { return m.truth().Up == "maintenance" })
		if o := (talos.Prober{}).Probe(t.Context(), m.IP.String()); !o.Up() || o.Facts.UUID != m.Hardware.UUID {
			t.Errorf("%v: at its address: %+v", m.Wrong, o)
		}
		if got := m.truth(); got.PowerOns != 1 || got.Scripts != 1 || got.Kernels != 1 || len(got.Leases) != 1 || got.Configs != 0 {
			t.Errorf("%v: %+v", m.Wrong, got)
		}
	}
	eventually(t, "the other machines came as far as they come", func() bool {
		return len(never.Boots()) == 1 && stuck.truth().Scripts == 1 && len(hung.Boots()) == 1 && len(wrong.Boots()) == 1 &&
			len(silent.Boots()) == 1 && len(post.Boots()) == 1 && d.times(stranger) > 0
	})
	for m, want := range map[*Machine][3]int{ // leases, scripts, kernels
		silent: {0, 0, 0}, never: {1, 0, 0}, stuck: {1, 1, 0}, hung: {1, 1, 1}, wrong: {1, 1, 1}, post: {0, 0, 0}, stranger: {1, 0, 0},
	} {
		got := m.truth()
		if [3]int{len(got.Leases), got.Scripts, got.Kernels} != want || got.Up != "" {
			t.Errorf("%v: %+v, want leases, scripts and kernels %v, and not up", m.Wrong, got, want)
		}
		if !m.Powered() {
			t.Errorf("%v: the machine is off, and shows so", m.Wrong)
		}
	}
	if n := spare.truth(); n.PowerOns != 0 || n.Scripts != 0 {
		t.Errorf("a machine outside the plan: %+v", n)
	}
	// The second boot of the machine that hung is like any other's.
	if err := post.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := post.PowerOn(t.Context(), redfishtest.Boot{Target: "Pxe"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is up at the second attempt", func() bool { return post.truth().Up == "maintenance" })
	if v := f.Oracle().Safety(map[string]Seen{"demo/" + good.Name: {State: "Maintenance"}, "demo/" + post.Name: {State: "Maintenance"}}, nil); len(v) != 0 {
		t.Errorf("violations: %v", v)
	}
}

// What firmware does with these, its own tests show.
func TestFirmwareIsToldOfItsFaults(t *testing.T) {
	t.Parallel()
	f := &Fleet{config: Config{Nodes: 3, Faults: Rates{PacketLoss: {0, 0.2}, SlowDownload: {0, 512}}, Adjust: func(m *Machine) {
		m.Wrong = [][]Fault{nil, {PacketLoss, SlowDownload}, {StuckDownload}}[m.index]
	}}.withDefaults()}
	f.makeMachines()
	good, lossy, stuck := f.machines[0].firmwareFaults(0), f.machines[1].firmwareFaults(0), f.machines[2].firmwareFaults(0)
	if good != (firmware.Faults{}) {
		t.Errorf("a good machine: %+v", good)
	}
	again := f.machines[1].firmwareFaults(1)
	if lossy.Loss != 0.2 || lossy.HTTPRate != 512000 || lossy.Seed == again.Seed || lossy != f.machines[1].firmwareFaults(0) {
		t.Errorf("first boot %+v, second %+v: want a fifth lost, others each time, at 512 kB/s", lossy, again)
	}
	if stuck.StallAfter != stallAfter {
		t.Errorf("a machine that hangs: %+v", stuck)
	}
}

// Machines that are on, that boot by themselves and that are not the right ones end with their fleet.
func TestAFleetLeavesNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine() // not parallel: no other test runs meanwhile
	f, err := Start(t.Context(), Config{Nodes: 200, Dir: t.TempDir(), Network: prefix("127.69.0.0/16"), Seed: 3, Faults: Rates{
		Stranger: {Share: 0.1}, WrongMachine: {Share: 0.1}, Configured: {Share: 0.1}, BMCBusy: {Share: 0.2},
	}})
	if err != nil {
		t.Fatal(err)
	}
	running := runtime.NumGoroutine()
	for _, m := range f.Machines()[:50] {
		if m.inPlan() && !m.Has(Configured) {
			if err := m.PowerOn(t.Context(), redfishtest.Boot{Target: "Pxe"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if running < before+200 {
		t.Errorf("%d goroutines before, %d while it runs: the test counts wrongly", before, running)
	}
	eventually(t, "its goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
	if off := slices.IndexFunc(f.Machines(), (*Machine).Powered); off >= 0 {
		t.Errorf("%s is on", f.Machines()[off].Name)
	}
}

// A machine that is off costs no goroutine: thousands of them are one process.
func TestMachinesThatAreOffCostNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine() // not parallel, as above
	f := startFleet(t, Config{Nodes: 500, Network: prefix("127.59.0.0/16"), SharedBMCs: true})
	if n := runtime.NumGoroutine() - before; n > 20 {
		t.Errorf("%d machines cost %d goroutines", len(f.Machines()), n)
	}
}
