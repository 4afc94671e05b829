package upgrade_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/talos"
	"github.com/talos-provision/provision/provisioner/upgrade"
)

// Inspect and the rest of upgrade.Talos.
func (w *world) Inspect(ctx context.Context, host string) talos.Running {
	r := talos.Running{Host: host}
	err := w.do(ctx, "Inspect", host, func() error {
		b := w.at(host)
		if b == nil || !b.up() {
			return errAway
		}
		if b.maintenance {
			r.State, r.WrongPKI = talos.Maintenance, true
			return talos.ErrInMaintenance
		}
		r.State, r.Reached, r.Version, r.Schematic, r.Role = talos.Configured, true, b.version, b.schematic, b.role
		r.Stage, r.Ready, r.BootID = "running", !b.unready, fmt.Sprintf("%s-boot-%d", b.uuid, b.boot)
		r.Facts, r.SystemDisk = identity.Facts{UUID: b.uuid}, "/dev/sda"
		r.Kubernetes.Name = b.k.Name
		return nil
	})
	r.Err = err
	return r
}

func (w *world) Details(ctx context.Context, host string) (d talos.Details, err error) {
	err = w.node(ctx, "Details", host, func(b *box) error {
		d = talos.Details{SecureBoot: b.secureBoot, SecureBootKnown: true, ExtraKernelArgs: b.args}
		return nil
	})
	return d, err
}

func (w *world) EtcdMembers(ctx context.Context, host string) (members []talos.Member, err error) {
	err = w.node(ctx, "EtcdMembers", host, func(b *box) error {
		if w.elect() == "" || !b.votes() {
			return errAway
		}
		for _, c := range w.controlPlanes() {
			members = append(members, talos.Member{ID: memberID(c.Name), Hostname: c.Name, Learner: w.learns == c.Name})
		}
		members = append(members, w.extra...)
		return nil
	})
	return members, err
}

func (w *world) EtcdStatus(ctx context.Context, host string) (s talos.MemberStatus, err error) {
	err = w.node(ctx, "EtcdStatus", host, func(b *box) error {
		if !b.votes() {
			return errAway
		}
		s = talos.MemberStatus{MemberID: memberID(b.Name), RaftIndex: 5000 - w.lag[b.Name]}
		if leader := w.elect(); leader != "" {
			s.Leader = memberID(leader)
		}
		return nil
	})
	return s, err
}

func (w *world) EtcdAlarms(ctx context.Context, host string) (alarms []talos.Alarm, err error) {
	err = w.node(ctx, "EtcdAlarms", host, func(*box) error {
		alarms = w.alarms
		return nil
	})
	return alarms, err
}

func (w *world) ForfeitLeadership(ctx context.Context, host string) (to string, err error) {
	err = w.node(ctx, "ForfeitLeadership", host, func(b *box) error {
		if w.elect() != b.Name {
			return nil
		}
		for _, o := range w.controlPlanes() {
			if o != b && o.votes() {
				w.leader, to = o.Name, o.Name
			}
		}
		return nil
	})
	return to, err
}

func (w *world) Health(ctx context.Context, host string, _ talos.HealthRequest, _ func(string)) error {
	return w.node(ctx, "Health", host, func(*box) error { return nil })
}

func (w *world) Pull(ctx context.Context, host, image string, _ func(string)) error {
	return w.node(ctx, "Pull", host, func(b *box) error {
		w.pulls = append(w.pulls, b.Name+" "+image)
		if w.badTags[image] {
			return errors.New("not found")
		}
		return nil
	})
}

func (w *world) Upgrade(ctx context.Context, host string, request talos.UpgradeRequest) (result talos.UpgradeResult, err error) {
	image, api, line := request.Image, request.API, request.Line
	err = w.node(ctx, "Upgrade", host, func(b *box) error {
		lifecycle := b.fault != refusesLifecycle
		if v, parseErr := upgrade.ParseVersion(b.version); parseErr != nil || v.Compare(upgrade.Version{Major: 1, Minor: 13}) < 0 {
			lifecycle = false
		}
		if api == upgrade.Lifecycle && !lifecycle {
			return talos.ErrNotSupported
		}
		if b.fault == busy {
			b.fault, b.busyUntil = noFault, time.Now().Add(2*time.Minute)
		}
		if time.Now().Before(b.busyUntil) {
			return talos.ErrUpgradeInProgress
		}
		b.installs++
		line("installing " + image)
		parsed, err := upgrade.ParseImage(image)
		if err != nil {
			return err
		}
		was, wasS := b.version, b.schematic
		switch b.fault {
		case exitsWithCode:
			line("failed to probe bootloader on upgrade")
			b.fault, result = noFault, talos.UpgradeResult{Exited: true, ExitCode: 1}
			return fmt.Errorf("%w with exit code 1", talos.ErrInstallerFailed)
		case exitsSilently:
			b.fault = noFault
			return fmt.Errorf("%w: it told no exit code", talos.ErrInstallerFailed)
		case rollsBack:
			b.flips = func(b *box) { b.version, b.schematic = was, wasS }
		case bootsOther:
			b.flips = func(b *box) { b.version = "v1.10.1" }
		case otherSchematic:
			b.flips = func(b *box) { b.schematic = schematicB }
		case hangs, diesForGood:
			b.flips = func(b *box) { b.away = true }
		case losesConfig:
			b.flips = func(b *box) { b.maintenance = true }
		case staysUnready:
			b.flips = func(b *box) { b.unready = true }
		case swapped:
			b.flips = func(b *box) { b.uuid = "uuid-of-another" }
		default: // the others are not of its next boot
		}
		b.staged, b.stagedS = parsed.Tag, parsed.Schematic
		if api == upgrade.Legacy {
			w.takenDown(b)
			b.orders++
			if b.fault != neverReboots {
				w.goDown(b, 4*time.Minute)
			}
		}
		lost := b.fault == losesAnswers
		if b.fault != diesForGood && (api == upgrade.Legacy || b.fault != neverReboots && b.fault != refusesReboot) {
			b.fault = noFault
		}
		if lost {
			return fmt.Errorf("%w: %w", talos.ErrOutcomeUnknown, errAway)
		}
		result = talos.UpgradeResult{Exited: true}
		return nil
	})
	return result, err
}

func (w *world) Reboot(ctx context.Context, host string, _ talos.RebootMode) error {
	return w.node(ctx, "Reboot", host, func(b *box) error {
		if b.fault == refusesReboot {
			return errors.New("locked")
		}
		w.takenDown(b)
		b.orders++
		if b.fault == neverReboots {
			b.fault = noFault
			return nil
		}
		if b.staged == "" {
			w.blame("%s is rebooted with nothing installed", b.Name)
		}
		w.goDown(b, 3*time.Minute)
		return nil
	})
}
