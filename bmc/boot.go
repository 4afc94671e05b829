package bmc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stmcginnis/gofish/schemas"
)

// Names of the Redfish schema.
const (
	targetPXE          = string(schemas.PxeBootSource)
	targetNone         = string(schemas.NoneBootSource)
	targetHdd          = string(schemas.HddBootSource)
	targetHTTP         = string(schemas.UefiHTTPBootSource)
	targetUefiBootNext = string(schemas.UefiBootNextBootSource)

	enabledOnce       = string(schemas.OnceBootSourceOverrideEnabled)
	enabledContinuous = string(schemas.ContinuousBootSourceOverrideEnabled)
	enabledDisabled   = string(schemas.DisabledBootSourceOverrideEnabled)
)

// BootOverride is what a BMC shows of its boot override; "" where it shows nothing.
type BootOverride struct {
	Target  string `json:"target"`  // Pxe, UefiHttp, Hdd, None, …
	Enabled string `json:"enabled"` // Once, Continuous, Disabled
	Mode    string `json:"mode"`    // UEFI, Legacy
}

// Armed tells whether the next boot goes to the network: the override is in
// force (a target alone is not, Supermicro shows Pxe at rest) and its target is
// the network. UefiBootNext counts, as Supermicro shows it in place of Pxe.
// Some BMCs show every override as Continuous (kubevirtbmc#165).
func (b BootOverride) Armed() bool {
	return b.inForce() && (strings.EqualFold(b.Target, targetPXE) ||
		strings.EqualFold(b.Target, targetHTTP) || strings.EqualFold(b.Target, targetUefiBootNext))
}

func (b BootOverride) inForce() bool {
	return strings.EqualFold(b.Enabled, enabledOnce) || strings.EqualFold(b.Enabled, enabledContinuous)
}

func (b BootOverride) cleared() bool {
	return !b.inForce() || b.Target == "" || strings.EqualFold(b.Target, targetNone)
}

// String is for people: "Pxe Once UEFI".
func (b BootOverride) String() string {
	if s := strings.Join(strings.Fields(b.Target+" "+b.Enabled+" "+b.Mode), " "); s != "" {
		return s
	}
	return "nothing"
}

// BootOverride reads the boot override.
func (c *Client) BootOverride(ctx context.Context) (BootOverride, error) {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	m, sys, err := c.system(ctx)
	if err != nil {
		return BootOverride{}, c.explain("read the boot override", err)
	}
	now, err := c.overrideOf(ctx, m, sys)
	return now, c.explain("read the boot override", err)
}

// overrideOf reads the override where it may be shown: in the system, else in
// the settings resource that takes effect with the next boot.
func (c *Client) overrideOf(ctx context.Context, m *machine, sys *systemDocument) (BootOverride, error) {
	now := sys.Boot.value.override()
	if now.inForce() {
		return now, nil
	}
	c.mu.Lock()
	pending := m.bootAt
	c.mu.Unlock()
	if pending == "" {
		pending = string(sys.Settings.value.Object)
	}
	if pending == "" || samePath(pending, sys.path) {
		return now, nil
	}
	settings, err := c.readSystem(ctx, pending, 2)
	if absent(err) {
		return now, nil
	}
	if err != nil {
		return now, err
	}
	if later := settings.Boot.value.override(); later.inForce() {
		return later, nil
	}
	return now, nil
}

// ArmNetworkBoot makes the machine's next boot, and only that, a PXE boot, and
// reads it back (I4). The error is ErrOverrideNotKept when the BMC said yes and
// does not show it, or shows another boot mode than Config.BootMode; then the
// machine must not be reset. Power is never touched.
func (c *Client) ArmNetworkBoot(ctx context.Context) (BootOverride, error) {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	now, err := c.changeBoot(ctx, func(m *machine) change {
		return change{
			kept:   func(now BootOverride) bool { return m.vendor.keeps(now, c.mode) },
			bodies: func(boot bootDocument, full bool) []bootBody { return armBodies(m.vendor, boot, c.mode, full) },
		}
	})
	if err != nil {
		return now, c.explain("arm the network boot", err)
	}
	c.log.InfoContext(ctx, "network boot armed", "override", now.String())
	return now, nil
}

// ClearBootOverride makes the next boot an ordinary one. It writes nothing when
// no override is in force.
func (c *Client) ClearBootOverride(ctx context.Context) error {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	m, sys, err := c.system(ctx)
	if err != nil {
		return c.explain("clear the boot override", err)
	}
	now, err := c.overrideOf(ctx, m, sys)
	if err != nil {
		return c.explain("clear the boot override", err)
	}
	if now.cleared() {
		return nil
	}
	_, err = c.changeBoot(ctx, func(m *machine) change {
		return change{
			kept:   func(now BootOverride) bool { return now.cleared() || strings.EqualFold(now.Target, targetHdd) },
			bodies: func(boot bootDocument, full bool) []bootBody { return clearBodies(m.vendor, boot, c.mode, full) },
		}
	})
	return c.explain("clear the boot override", err)
}

// keeps tells whether a read-back shows the network boot that was asked for.
func (v vendor) keeps(now BootOverride, mode string) bool {
	if !now.inForce() || now.Mode != "" && !strings.EqualFold(now.Mode, mode) {
		return false
	}
	for _, target := range append([]string{targetPXE}, v.kept...) {
		if strings.EqualFold(now.Target, target) {
			return true
		}
	}
	return false
}

// bootBody is the Boot object of a PATCH.
type bootBody struct {
	Target  string `json:"BootSourceOverrideTarget,omitempty"`
	Enabled string `json:"BootSourceOverrideEnabled,omitempty"`
	Mode    string `json:"BootSourceOverrideMode,omitempty"`
}

// armBodies are the ways to ask for one PXE boot, best first: with or without
// the mode, as the vendor's habit has it, then the other way round.
func armBodies(v vendor, boot bootDocument, mode string, full bool) []bootBody {
	with := bootBody{Target: targetPXE, Enabled: enabledOnce, Mode: mode}
	without := bootBody{Target: targetPXE, Enabled: enabledOnce}
	if full || v.sendsMode(boot, mode) {
		return []bootBody{with, without}
	}
	return []bootBody{without, with}
}

// clearBodies are the ways to disable an override. iLOs refuse Target None
// (metal-operator#998), some AMI want the mode (community.general#11542), and
// emulators that know no Disabled boot the disk instead.
func clearBodies(v vendor, boot bootDocument, mode string, full bool) []bootBody {
	if shown := value(boot.Mode); shown != "" {
		mode = shown
	}
	modes := []string{"", mode}
	if full || v.sendsMode(boot, mode) {
		modes = []string{mode, ""}
	}
	var out []bootBody
	for _, m := range modes {
		for _, target := range []string{targetNone, "", targetPXE} {
			out = append(out, bootBody{Target: target, Enabled: enabledDisabled, Mode: m})
		}
	}
	return append(out, bootBody{Target: targetHdd, Enabled: enabledOnce, Mode: modes[0]})
}

func (v vendor) sendsMode(boot bootDocument, mode string) bool {
	switch v.mode {
	case modeAlways:
		return true
	case modeWhenDifferent:
		return boot.showsMode() && !strings.EqualFold(value(boot.Mode), mode)
	default:
		return boot.showsMode()
	}
}

// notKept says what the BMC shows instead.
func notKept(now BootOverride, mode string, modeRefused error) error {
	if now.Armed() && now.Mode != "" && !strings.EqualFold(now.Mode, mode) {
		err := fmt.Errorf("%w: it shows %s, and its boot mode cannot be changed to %s here", ErrOverrideNotKept, now, mode)
		if modeRefused != nil {
			err = fmt.Errorf("%w: %w", err, modeRefused)
		}
		return err
	}
	return fmt.Errorf("%w: it shows %s", ErrOverrideNotKept, now)
}

var errNothingToWrite = errors.New("no resource takes a boot override")
