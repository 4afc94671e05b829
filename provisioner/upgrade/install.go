package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/talos-provision/provision/provisioner/talos"
)

const (
	// keptLines and keptLine bound what is kept of an installer's words, in lines and bytes.
	keptLines = 30
	keptLine  = 400
	// attempts is how often an order is given to a node that does not take it.
	attempts = 3
)

// install has the node write its new boot assets. With the legacy API the node
// goes on by itself and reboots.
func install(ctx context.Context, n *node) (transition, error) {
	if n.r.o.NetBoot != nil && !n.record.NetBooted {
		return netBoot(ctx, n)
	}
	deadline := time.Now().Add(n.r.o.Timeouts.Install)
	for attempt := 1; ; attempt++ {
		before, err := n.baseline(ctx)
		switch {
		case err != nil:
			return transition{}, err
		case n.installing() && booted(n.record, before) && (n.record.API == Legacy || sameVersion(before.Version, n.record.Target)):
			return transition{state: Verifying, message: "it has rebooted already"}, nil
		}
		if n.record.API == Legacy {
			if err := n.readyToGoDown(ctx); err != nil {
				return transition{}, err
			}
		}
		err = n.mark(ctx, stepInstalling, "installing "+n.record.Image, func(r *Record) { r.BootID = before.BootID })
		if err != nil {
			return transition{}, err
		}
		next, err := n.installOnce(ctx)
		if err == nil || errors.As(err, new(*failure)) || ctx.Err() != nil {
			return next, err
		}
		if attempt >= attempts && !errors.Is(err, talos.ErrUpgradeInProgress) || time.Now().After(deadline) {
			return transition{}, n.withLines(failed(VerdictUnanswered, "%w", err))
		}
		if err := sleep(ctx, n.r.o.Timeouts.Poll); err != nil {
			return transition{}, err
		}
	}
}

// installing says whether the node was, or may have been, told to install.
func (n *node) installing() bool { return n.record.Step == string(stepInstalling) }

// baseline looks until the node tells its boot ID: without it no reboot could be told.
func (n *node) baseline(ctx context.Context) (talos.Running, error) {
	told := func(_ Record, seen talos.Running) bool { return seen.Reached && seen.BootID != "" }
	verdict, seen, err := n.watch(ctx, n.r.o.Timeouts.Gate, told)
	switch {
	case err != nil:
		return seen, err
	case verdict == VerdictMaintenance || verdict == VerdictOtherMachine:
		return seen, failed(verdict, "%s", describe(n.record, verdict, seen))
	case !told(n.record, seen):
		return seen, failed(VerdictUnanswered, "%s does not tell its boot ID: %w", n.record.Host, seen.Err)
	}
	return seen, nil
}

// refusals are errors of the call after which the node runs what it ran, and
// would answer the same again.
var refusals = []struct {
	err     error
	verdict Verdict
}{
	{talos.ErrInstallerFailed, VerdictInstaller},
	{talos.ErrImageNotFound, VerdictInstaller},
	{talos.ErrNotInstalled, VerdictInstaller},
	{talos.ErrNotAuthorized, VerdictInstaller},
	{talos.ErrInMaintenance, VerdictMaintenance},
	{talos.ErrNotConfirmed, VerdictOtherMachine},
	{talos.ErrEtcdRefuses, VerdictUnfit},
}

// installOnce gives the order once. An error that is no failure leaves open
// whether the node took it.
func (n *node) installOnce(ctx context.Context) (transition, error) {
	ctx, cancel := context.WithTimeout(ctx, n.r.o.Timeouts.Install)
	defer cancel()
	n.record.Lines = nil
	legacy := n.record.API == Legacy
	request := talos.UpgradeRequest{Image: n.record.Image, API: n.record.API, Line: n.keep, Timeout: n.r.o.Timeouts.Install}
	if legacy && n.r.o.PowerCycle {
		request.Mode = talos.RebootPowercycle
	}
	result, err := n.r.o.Talos.Upgrade(ctx, n.record.Host, request)
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return transition{}, n.withLines(failed(r.verdict, "%w", err))
		}
	}
	switch {
	case errors.Is(err, talos.ErrNotSupported) && !legacy:
		return transition{state: Drained, message: "it does not have the newer API", change: func(r *Record) { r.API = Legacy }}, nil
	case legacy && (err == nil || errors.Is(err, talos.ErrOutcomeUnknown) || errors.Is(err, talos.ErrUpgradeInProgress)):
		// Whether it took the order shows in its reboot.
		return transition{state: Rebooting, step: stepOrdered, message: "it installs and reboots by itself"}, nil
	case err != nil:
		return transition{}, fmt.Errorf("install %s on %s: %w", n.record.Image, n.record.Host, err)
	case !result.Exited || result.ExitCode != 0:
		return transition{}, n.withLines(failed(VerdictInstaller, "the installer of %s ended with exit code %d (told: %t)", n.record.Image, result.ExitCode, result.Exited))
	}
	return transition{state: Upgrading, message: "the new boot assets are written"}, nil
}

// keep keeps the last lines of the installer: often only they tell what is wrong
// (home-operations/tuppr#460).
func (n *node) keep(line string) {
	line = strings.TrimSpace(line)
	if line == "" {
		return
	}
	n.r.o.Line(n.record.Node, line)
	line = strings.ToValidUTF8(line[:min(len(line), keptLine)], "")
	// A new slice: records that were handed out keep theirs.
	lines := slices.Concat(n.record.Lines, []string{line})
	n.record.Lines = lines[max(0, len(lines)-keptLines):]
}

// withLines says the last words of the installer in the error.
func (n *node) withLines(f *failure) *failure {
	if len(n.record.Lines) == 0 || strings.Contains(f.err.Error(), n.record.Lines[len(n.record.Lines)-1]) {
		return f
	}
	last := n.record.Lines[max(0, len(n.record.Lines)-3):]
	return failed(f.verdict, "%w: %s", f.err, strings.Join(last, " | "))
}
