package redfishtest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

func resetPath(system string) string {
	return "/redfish/v1/Systems/" + system + "/Actions/ComputerSystem.Reset"
}

func resetBody(kind string) string { return `{"ResetType":"` + kind + `"}` }

var (
	networkBoot = redfishtest.Boot{Target: "Pxe", Mode: "UEFI"}
	defaultBoot = redfishtest.Boot{Mode: "UEFI"}
)

func TestResets(t *testing.T) {
	t.Parallel()
	type boots = []redfishtest.Boot
	tests := []struct {
		name    string
		profile redfishtest.Profile
		on      bool
		kind    string
		status  int
		message string
		powered bool
		boots   boots
	}{
		{"on", redfishtest.Generic(), false, "On", 204, "", true, boots{networkBoot}},
		{"on while on", redfishtest.Generic(), true, "On", 204, "", true, nil},
		{"off", redfishtest.Generic(), true, "ForceOff", 204, "", false, nil},
		{"off while off", redfishtest.Generic(), false, "ForceOff", 204, "", false, nil},
		{"shutdown", redfishtest.Generic(), true, "GracefulShutdown", 204, "", false, nil},
		{"restart", redfishtest.Generic(), true, "ForceRestart", 204, "", true, boots{networkBoot}},
		{"cycle", redfishtest.Generic(), true, "PowerCycle", 204, "", true, boots{networkBoot}},
		{"button turns on", redfishtest.Generic(), false, "PushPowerButton", 204, "", true, boots{networkBoot}},
		{"button turns off", redfishtest.Generic(), true, "PushPowerButton", 204, "", false, nil},
		{"unknown type", redfishtest.Generic(), false, "Explode", 400, "Base.1.13.ActionParameterNotSupported", false, nil},
		{"restart while off does nothing", redfishtest.Generic(), false, "ForceRestart", 204, "", false, nil},
		{"supermicro nmi", redfishtest.Supermicro(), true, "Nmi", 200, "", true, nil},
		{"supermicro has no cycle", redfishtest.Supermicro(), true, "PowerCycle", 400, "Base.v1_10_3.ActionParameterNotSupported", true, nil},
		{"dell on while on", redfishtest.Dell(), true, "On", 409, "Base.1.12.ActionParameterValueConflict", true, nil},
		{"hpe on", redfishtest.HPE(), false, "On", 200, "Base.1.4.Success", true, boots{networkBoot}},
		{"hpe restart while off", redfishtest.HPE(), false, "ForceRestart", 400, "iLO.0.10.InvalidOperationForSystemState", false, nil},
		{"hpe off while off", redfishtest.HPE(), false, "ForceOff", 400, "iLO.0.10.InvalidOperationForSystemState", false, nil},
		{"lenovo on", redfishtest.Lenovo(), false, "On", 204, "", true, boots{networkBoot}},
		{"ami force restart", redfishtest.AMI(), true, "ForceRestart", 204, "", true, boots{networkBoot}},
		{"ami soft restart ignores the override", redfishtest.AMI(), true, "GracefulRestart", 204, "", true, boots{defaultBoot}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			machine := new(redfishtest.NullMachine)
			if tt.on {
				_ = machine.PowerOn(t.Context(), redfishtest.Boot{})
			}
			before := len(machine.Boots())
			s := start(t, redfishtest.Config{Profile: tt.profile, Machine: machine})
			s.SetOverride(armed)
			got := newClient(t, s).do("POST", resetPath(tt.profile.SystemID), resetBody(tt.kind))
			wantEqual(t, "status", got.status, tt.status)
			wantEqual(t, "message", messageID(got), tt.message)
			wantEqual(t, "powered", machine.Powered(), tt.powered)
			wantEqual(t, "shown", s.PowerState(), map[bool]string{true: "On", false: "Off"}[tt.powered])
			wantEqual(t, "boots", append(boots(nil), machine.Boots()[before:]...), tt.boots)
			wantEqual(t, "power-ons", s.PowerOns(), len(tt.boots))
			wantEqual(t, "resets", len(s.Resets()) == 1, tt.status < 300)
			if used := len(tt.boots) == 1 && tt.boots[0] == networkBoot; used {
				wantEqual(t, "Once is used up", s.Override().Enabled, "Disabled")
			} else {
				wantEqual(t, "Once is kept", s.Override(), armed)
			}
		})
	}
}

func TestContinuousIsKept(t *testing.T) {
	t.Parallel()
	machine := new(redfishtest.NullMachine)
	s := start(t, redfishtest.Config{Machine: machine})
	s.SetOverride(redfishtest.Override{Target: "Pxe", Enabled: "Continuous", Mode: "Legacy"})
	c := newClient(t, s)
	for _, kind := range []string{"On", "ForceRestart"} {
		c.do("POST", resetPath("1"), resetBody(kind))
	}
	legacy := redfishtest.Boot{Target: "Pxe", Mode: "Legacy"}
	wantEqual(t, "boots", machine.Boots(), []redfishtest.Boot{legacy, legacy})
	wantEqual(t, "resets", s.Resets(), []string{"On", "ForceRestart"})
}

// gate is a machine whose switches wait to be let through.
type gate struct {
	redfishtest.NullMachine
	on, off chan error
}

func (g *gate) PowerOn(ctx context.Context, b redfishtest.Boot) error {
	if err := <-g.on; err != nil {
		return err
	}
	return g.NullMachine.PowerOn(ctx, b)
}

func (g *gate) PowerOff(ctx context.Context) error {
	if err := <-g.off; err != nil {
		return err
	}
	return g.NullMachine.PowerOff(ctx)
}

func TestPowerLagShowsTheWayBetween(t *testing.T) {
	t.Parallel()
	g := &gate{on: make(chan error), off: make(chan error)}
	s := start(t, redfishtest.Config{Machine: g, PowerLag: time.Millisecond})
	c := newClient(t, s)
	shown := func() string { return c.get("/redfish/v1/Systems/1")["PowerState"].(string) }
	reset := func(kind string) {
		t.Helper()
		wantEqual(t, kind, c.do("POST", resetPath("1"), resetBody(kind)).status, 204)
	}

	wantEqual(t, "at first", shown(), "Off")
	reset("On")
	wantEqual(t, "after On", shown(), "PoweringOn")
	g.on <- nil
	eventually(t, "On", func() bool { return shown() == "On" })

	reset("ForceRestart")
	wantEqual(t, "after ForceRestart", shown(), "PoweringOff")
	reset("ForceOff") // waits its turn
	g.off <- nil
	eventually(t, "PoweringOn", func() bool { return shown() == "PoweringOn" })
	g.on <- nil
	g.off <- nil
	eventually(t, "Off", func() bool { return shown() == "Off" })

	s.SetOverride(armed)
	reset("On")
	g.on <- errors.New("no coal left")
	eventually(t, "back to Off", func() bool { return shown() == "Off" })
	wantEqual(t, "override kept for the next try", s.Override(), armed)
	wantEqual(t, "power-ons", s.PowerOns(), 2)
}

// ironic bug 2162995: iDRAC refuses On while the machine is going off.
func TestDellRefusesWhileChanging(t *testing.T) {
	t.Parallel()
	g := &gate{on: make(chan error), off: make(chan error)}
	_ = g.NullMachine.PowerOn(t.Context(), redfishtest.Boot{})
	s := start(t, redfishtest.Config{Profile: redfishtest.Dell(), Machine: g, PowerLag: time.Nanosecond})
	c := newClient(t, s)
	path := resetPath("System.Embedded.1")
	wantEqual(t, "ForceOff", c.do("POST", path, resetBody("ForceOff")).status, 204)
	wantEqual(t, "On at once", c.do("POST", path, resetBody("On")).status, 409)
	g.off <- nil
	eventually(t, "Off", func() bool { return s.PowerState() == "Off" })
	wantEqual(t, "On later", c.do("POST", path, resetBody("On")).status, 204)
	g.on <- nil
	eventually(t, "On", func() bool { return s.PowerState() == "On" })
}

func TestAMachineThatFailsIsReportedWithoutLag(t *testing.T) {
	t.Parallel()
	g := &gate{on: make(chan error, 1)}
	g.on <- errors.New("no coal left")
	s := start(t, redfishtest.Config{Machine: g})
	got := newClient(t, s).do("POST", resetPath("1"), resetBody("On"))
	wantEqual(t, "status", got.status, 500)
	wantEqual(t, "resets", s.Resets(), []string(nil))
}

func TestPowerFollowsTheMachine(t *testing.T) {
	t.Parallel()
	machine := new(redfishtest.NullMachine)
	s := start(t, redfishtest.Config{Machine: machine})
	newClient(t, s).do("POST", resetPath("1"), resetBody("On"))
	wantEqual(t, "running", s.PowerState(), "On")
	_ = machine.PowerOff(t.Context()) // as "poweroff" in the guest does
	wantEqual(t, "shut down by itself", s.PowerState(), "Off")
}

// One machine is never switched from two sides at once.
func TestManyResetsAtOnceAreOneAfterAnother(t *testing.T) {
	t.Parallel()
	m := new(exclusive)
	s := start(t, redfishtest.Config{Machine: m})
	var wg sync.WaitGroup
	for _, kind := range []string{"On", "ForceOff", "ForceRestart", "PowerCycle", "On", "PushPowerButton"} {
		c := newClient(t, s)
		wg.Go(func() {
			for range 5 {
				c.do("POST", resetPath("1"), resetBody(kind))
			}
		})
	}
	wg.Wait()
	if m.overlapped {
		t.Error("two switches at the same time")
	}
}

type exclusive struct {
	redfishtest.NullMachine
	busy       sync.Mutex
	overlapped bool
}

func (e *exclusive) alone(f func() error) error {
	if !e.busy.TryLock() {
		e.overlapped = true
		return nil
	}
	defer e.busy.Unlock()
	return f()
}

func (e *exclusive) PowerOn(ctx context.Context, b redfishtest.Boot) error {
	return e.alone(func() error { return e.NullMachine.PowerOn(ctx, b) })
}

func (e *exclusive) PowerOff(ctx context.Context) error {
	return e.alone(func() error { return e.NullMachine.PowerOff(ctx) })
}
