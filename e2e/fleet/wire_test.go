package fleet

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/provisioner/talos"
)

// faulty starts a fleet in which machines have the faults that a test gives each, by index.
func faulty(t *testing.T, network string, nodes int, faults map[int]Fault, change ...func(*Config)) *Fleet {
	t.Helper()
	config := Config{Nodes: nodes, Network: prefix(network), TimeScale: 0.001, Faults: Rates{}, Adjust: func(m *Machine) {
		if f := faults[m.index]; f != "" {
			m.Wrong = []Fault{f}
		}
	}}
	for _, c := range change {
		c(&config)
	}
	return startFleet(t, config)
}

func (f *Fleet) dial(t *testing.T, m *Machine) (*bmc.Client, error) {
	t.Helper()
	return bmc.Dial(t.Context(), bmc.Config{
		Address: m.bmcURL(), Username: bmcUsername, Password: bmcPassword, CAFile: filepath.Join(f.config.Dir, "bmc-ca.pem"),
		Timeouts: bmc.Timeouts{Poll: 10 * time.Millisecond, Power: 10 * time.Second},
	})
}

// cycle identifies, arms and power cycles a machine by its BMC.
func (f *Fleet) cycle(t *testing.T, m *Machine) (err error) {
	t.Helper()
	c, err := f.dial(t, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(context.WithoutCancel(t.Context()))) }()
	if _, err := c.Identify(t.Context()); err != nil {
		return err
	}
	if _, err := c.Arm(t.Context(), bmc.BootRequest{Kind: bmc.BootPXE}); err != nil {
		return err
	}
	return c.PowerCycle(t.Context())
}

func TestBMCsMisbehaveAsTheirFaultsSay(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		network string
		shared  bool
	}{"a listener each": {"127.60.0.0/16", false}, "one listener": {"127.61.0.0/16", true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := faulty(t, tt.network, 6, map[int]Fault{0: BMCAuth, 1: BMCDown, 2: LyingOverride, 3: BMCBusy, 4: BMCReset}, func(c *Config) {
				c.SharedBMCs = tt.shared
				c.Faults = Rates{BMCBusy: {Strength: 0.2}, BMCReset: {Strength: 0.3}}
			})
			for i, want := range map[int]error{0: bmc.ErrUnauthorized, 1: bmc.ErrUnreachable, 2: bmc.ErrOverrideNotKept} {
				m := f.Machines()[i]
				if err := f.cycle(t, m); !errors.Is(err, want) {
					t.Errorf("%v: %v, want %v", m.Wrong, err, want)
				}
				if got := m.truth(); got.PowerOns != 0 || len(got.Sessions) != 0 {
					t.Errorf("%v: %+v, want no power and no session", m.Wrong, got)
				}
			}
			for i, answered := range map[int]int{3: http.StatusServiceUnavailable, 4: 0, 5: -1} {
				f.getsThrough(t, f.Machines()[i], answered)
			}
		})
	}
}

// getsThrough power cycles a machine twice, through a BMC that answers a share of
// the requests with a status; -1 for none.
func (f *Fleet) getsThrough(t *testing.T, m *Machine, answered int) {
	t.Helper()
	for range 2 {
		if err := f.cycle(t, m); err != nil {
			t.Errorf("%v: %v", m.Wrong, err)
		}
	}
	if got := m.truth(); got.PowerOns != 2 || got.PowerOffs != 1 || len(got.Sessions) != 0 {
		t.Errorf("%v: %+v, want on 2 times, off once, no session", m.Wrong, got)
	}
	if hit := answers(m, answered); (hit > 0) != (answered >= 0) {
		t.Errorf("%v: %d requests were answered %d", m.Wrong, hit, answered)
	}
}

// answers counts the requests that a BMC answered with a status; 0 is a broken connection.
func answers(m *Machine, status int) (count int) {
	for _, r := range m.BMC().Requests() {
		if r.Status == status {
			count++
		}
	}
	return count
}

func TestABMCThatIsDownIsInTheInventoryAndRefusesConnections(t *testing.T) {
	t.Parallel()
	for network, shared := range map[string]bool{"127.62.0.0/16": false, "127.63.0.0/16": true} {
		f := faulty(t, network, 2, map[int]Fault{0: BMCDown}, func(c *Config) { c.SharedBMCs = shared })
		_, err := f.dial(t, f.Machines()[0])
		if err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("shared %t: error = %v, want a refused connection", shared, err)
		}
		if c, err := f.dial(t, f.Machines()[1]); err != nil {
			t.Errorf("shared %t: the other BMC: %v", shared, err)
		} else if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// Every BMC of a fleet answers as its own, also where all share one listener.
func TestEachBMCOfASharedListenerIsItsOwn(t *testing.T) {
	t.Parallel()
	f := startFleet(t, Config{Nodes: 20, Network: prefix("127.64.0.0/16"), SharedBMCs: true, Vendors: []VendorShare{{redfishtest.Supermicro(), 1}, {redfishtest.Dell(), 1}}})
	vendors := map[string]bool{}
	for _, m := range f.Machines() {
		c, err := f.dial(t, m)
		if err != nil {
			t.Fatal(err)
		}
		id, err := c.Identify(t.Context())
		if err != nil || id.Facts.BoardSerial != m.Hardware.BoardSerial {
			t.Errorf("%s has board %q, its BMC says %q, %v", m.Name, m.Hardware.BoardSerial, id.Facts.BoardSerial, err)
		}
		vendors[m.profile.Name] = true
		if open := m.truth().Sessions; len(open) != 1 || time.Since(open[0]) > time.Minute {
			t.Errorf("%s: sessions opened at %v, want one that is open now", m.Name, open)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if len(vendors) != 2 {
		t.Errorf("vendors: %v, want two", vendors)
	}
}

// The vendors that cannot have machines with one board serial are those that show none.
func TestHidesBoardIsWhatBMCsShow(t *testing.T) {
	t.Parallel()
	for i, profile := range redfishtest.Profiles() {
		s := redfishtest.New(redfishtest.Config{Profile: profile, Serial: "S4EMU0000001", BoardSerial: "ZM4EMU000001", UUID: "7a1e0000-0000-4000-8000-0cc47a000001"})
		if err := s.Start("127.0.0.1:0"); err != nil {
			t.Fatal(i, err)
		}
		defer s.Close()
		c, err := bmc.Dial(t.Context(), bmc.Config{Address: s.URL(), Username: redfishtest.DefaultUsername, Password: redfishtest.DefaultPassword, Insecure: true})
		if err != nil {
			t.Fatal(profile.Name, err)
		}
		id, err := c.Identify(t.Context())
		if err != nil {
			t.Fatal(profile.Name, err)
		}
		if hides := id.Facts.BoardSerial == ""; hides != hidesBoard[profile.Name] {
			t.Errorf("%s: board serial %q, hides: %t", profile.Name, id.Facts.BoardSerial, hidesBoard[profile.Name])
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// What answers at the addresses of machines before anything was done.
func TestWhatRunsByItselfRunsFromTheStart(t *testing.T) {
	t.Parallel()
	f := faulty(t, "127.65.0.0/16", 3, map[int]Fault{0: Configured, 1: WrongMachine})
	configured, wrong, good := f.Machines()[0], f.Machines()[1], f.Machines()[2]
	var p talos.Prober
	if o := p.Probe(t.Context(), configured.IP.String()); o.State != talos.Configured {
		t.Errorf("at the configured machine: %+v", o)
	}
	o := p.Probe(t.Context(), wrong.IP.String())
	if o.State != talos.Maintenance || !o.Up() || o.Facts.UUID == wrong.Hardware.UUID || o.Facts.Serial == wrong.Hardware.Serial || len(o.Facts.MACs) != 1 || o.Facts.MACs[0] == wrong.Hardware.MACs[0] {
		t.Errorf("at the other one: %+v", o)
	}
	if o := p.Probe(t.Context(), good.IP.String()); o.State != talos.Unreachable {
		t.Errorf("at a machine that is off: %+v", o)
	}
	if got := configured.truth(); got.Up != "configured" || !configured.Powered() || got.PowerOns != 0 {
		t.Errorf("truth of the configured machine: %+v", got)
	}
	if got := wrong.truth(); got.Up != "" || wrong.Powered() {
		t.Errorf("truth of the machine whose address is taken: %+v", got)
	}
	if err := configured.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o := p.Probe(t.Context(), configured.IP.String()); o.State != talos.Unreachable {
		t.Errorf("after its power is off: %+v", o)
	}
}

func TestTwinsHaveOneIdentity(t *testing.T) {
	t.Parallel()
	o := describe(t, Config{Nodes: 2, Faults: Rates{DuplicateSerial: {Share: 1}}})
	for _, m := range o.Machines {
		if len(m.Faults) != 1 || m.Faults[0] != DuplicateSerial || m.Expected.State != "Held" || m.Expected.PowerOns != 0 {
			t.Errorf("%s = %+v", m.Name, m)
		}
	}
	f := &Fleet{config: Config{Nodes: 2, Faults: Rates{DuplicateSerial: {Share: 1}}}.withDefaults()}
	f.makeMachines()
	a, b := f.machines[0].Hardware, f.machines[1].Hardware
	if a.Serial != b.Serial || a.BoardSerial != b.BoardSerial || a.UUID != b.UUID || a.MACs[0] == b.MACs[0] {
		t.Errorf("twins: %+v and %+v", a, b)
	}
}

// The inventory has what is to be installed and what is not, and no stranger.
func TestStrangersAreInNoInventory(t *testing.T) {
	t.Parallel()
	f := faulty(t, "127.66.0.0/16", 3, map[int]Fault{0: Stranger, 1: NotInPlan})
	files, err := filepath.Glob(filepath.Join(f.config.Dir, "nodes/demo/*.yaml"))
	if err != nil || len(files) != 3 { // _defaults, node-02, node-03
		t.Errorf("files: %v, %v", files, err)
	}
	o := f.Oracle()
	for i, want := range []struct{ listed, inPlan bool }{{false, false}, {true, false}, {true, true}} {
		if m := o.Machines[i]; m.Listed != want.listed || m.InPlan != want.inPlan || (m.Expected.State == "") == want.inPlan {
			t.Errorf("%s = %+v, want %+v", m.Name, m, want)
		}
	}
	if !f.Machines()[0].Powered() {
		t.Error("the stranger is off")
	}
}

func TestTheTruthIsServed(t *testing.T) {
	t.Parallel()
	f := faulty(t, "127.67.0.0/16", 2, map[int]Fault{0: SilentPower})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.TruthURL(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(body), `"faults":["silent-power"],"expected":{"state":"Failed","causes":["no DHCP seen"],"powerOns":2}`) {
		t.Errorf("truth = %s, %v", body, err)
	}
}
