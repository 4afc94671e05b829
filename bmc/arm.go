package bmc

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ArmNetworkBoot makes the machine's next boot, and only that, a PXE boot, and
// reads it back (I4). The error is ErrOverrideNotKept when the BMC said yes and
// does not show it, or shows another boot mode than Config.BootMode; then the
// machine must not be reset. Power is never touched.
func (c *Client) ArmNetworkBoot(ctx context.Context) (BootOverride, error) {
	return c.Arm(ctx, BootRequest{Kind: BootPXE})
}

// Arm makes the machine's next boot, and only that, the requested one, and reads
// it back (I4). For BootMedia the image is inserted first, in place of any other
// in the same drive, and ejected again when the override is refused; when ctx
// ends in between, the error says that it stays. The kinds of error are those of
// ArmNetworkBoot, and ErrNoMedia and ErrMediaRefused. Power is never touched.
func (c *Client) Arm(ctx context.Context, r BootRequest) (BootOverride, error) {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	if r.Kind == "" {
		r.Kind = c.boot
	}
	what := "arm the " + string(r.Kind) + " boot"
	if r.Kind == BootPXE {
		what = "arm the network boot"
	}
	want, err := aimOf(r, c.mode)
	if err != nil {
		return BootOverride{}, c.explain(what, err)
	}
	inserted := false
	if r.Kind == BootMedia {
		if inserted, err = c.insert(ctx, r.MediaURI); err != nil {
			return BootOverride{}, c.explain(what, err)
		}
	}
	now, err := c.changeBoot(ctx, func(m *machine) change {
		return change{
			mode:   want.mode,
			kept:   func(now BootOverride) bool { return want.keptBy(m.vendor, now) },
			bodies: func(boot bootDocument, full bool) []bootBody { return armBodies(m.vendor, boot, want, full) },
		}
	})
	if err != nil {
		if inserted {
			err = c.takeBack(ctx, r.MediaURI, err)
		}
		return now, c.explain(what, err)
	}
	c.log.InfoContext(ctx, "boot armed", "kind", r.Kind, "override", now.String())
	return now, nil
}

// takeBack ejects the medium of a boot that could not be armed.
func (c *Client) takeBack(ctx context.Context, uri string, reason error) error {
	err := context.Cause(ctx)
	if err == nil {
		err = c.eject(ctx, uri)
	}
	if err != nil {
		return fmt.Errorf("%w; the medium %s stays inserted: %w", reason, uri, err)
	}
	return reason
}

// Disarm makes the next boot an ordinary one: it clears the boot override and
// ejects the medium that Arm inserted. A client that inserted none looks for
// media only if Config.Boot is BootMedia, and then ejects every image that a BMC
// fetched from a URI, so that a new process can clean up after an old one.
func (c *Client) Disarm(ctx context.Context) error {
	err := c.ClearBootOverride(ctx)
	c.mu.Lock()
	used := c.medium != ""
	c.mu.Unlock()
	if used || c.boot == BootMedia {
		err = errors.Join(err, c.EjectMedia(ctx))
	}
	return err
}

// ClearBootOverride makes the next boot an ordinary one. It writes nothing when
// no override is in force, and leaves virtual media alone.
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
	_, err = c.changeFrom(ctx, m, sys, change{
		mode:   c.mode,
		kept:   func(now BootOverride) bool { return now.cleared() || strings.EqualFold(now.Target, targetHdd) },
		bodies: func(boot bootDocument, full bool) []bootBody { return clearBodies(m.vendor, boot, c.mode, full) },
	})
	return c.explain("clear the boot override", err)
}
