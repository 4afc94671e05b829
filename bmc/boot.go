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
	Target  string `json:"target"`  // Pxe, UefiHttp, Cd, Hdd, None, …
	Enabled string `json:"enabled"` // Once, Continuous, Disabled
	Mode    string `json:"mode"`    // UEFI, Legacy
	// HTTPBootURI is what UefiHttp loads; empty leaves it to DHCP, or the BMC
	// has no such property.
	HTTPBootURI string `json:"httpBootURI,omitempty"`
}

// Armed tells whether the next boot goes to the network: the override is in
// force (a target alone is not, Supermicro shows Pxe at rest) and its target is
// the network. UefiBootNext counts, as Supermicro shows it in place of Pxe.
// Some BMCs show every override as Continuous (kubevirtbmc#165).
func (b BootOverride) Armed() bool {
	return b.InForce() && (strings.EqualFold(b.Target, targetPXE) ||
		strings.EqualFold(b.Target, targetHTTP) || strings.EqualFold(b.Target, targetUefiBootNext))
}

// InForce tells whether the next boot follows the override, wherever it leads.
func (b BootOverride) InForce() bool {
	return strings.EqualFold(b.Enabled, enabledOnce) || strings.EqualFold(b.Enabled, enabledContinuous)
}

func (b BootOverride) cleared() bool {
	return !b.InForce() || b.Target == "" || strings.EqualFold(b.Target, targetNone)
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
	now, _, err := c.overrideAt(ctx, m, sys)
	return now, err
}

// overrideAt is overrideOf with the path of the resource that shows it. With an
// error it is what the system shows.
func (c *Client) overrideAt(ctx context.Context, m *machine, sys *systemDocument) (BootOverride, string, error) {
	now := sys.Boot.value.override()
	if now.InForce() {
		return now, sys.path, nil
	}
	c.mu.Lock()
	pending := m.bootAt
	c.mu.Unlock()
	if pending == "" {
		pending = sys.settings()
	}
	if pending == "" || samePath(pending, sys.path) {
		return now, sys.path, nil
	}
	settings, err := c.readSystem(ctx, pending, 2)
	if absent(err) {
		return now, sys.path, nil
	}
	if err != nil {
		return now, sys.path, err
	}
	if later := settings.Boot.value.override(); later.InForce() {
		return later, pending, nil
	}
	return now, sys.path, nil
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
