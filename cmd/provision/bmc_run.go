package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner"
)

// bmcParallel is how many BMCs are talked to at a time; each gets one request
// at a time (I10).
const bmcParallel = 64

// bmcRun is one `provision bmc` command at work.
type bmcRun struct {
	job     bmcJob
	asJSON  bool
	log     *slog.Logger
	trace   io.Writer // nil without --trace
	tree    *inventory.Tree
	entries []*bmcEntry
	window  *provisioner.PowerWindow
}

// bmcEntry is one BMC in a command.
type bmcEntry struct {
	target   bmcTarget
	client   *bmc.Client // while it is logged in
	identity bmc.Identity
	result   bmcResult
}

// The words of bmcResult.Result.
const (
	resultDone    = "done"
	resultFailed  = "failed"
	resultRefused = "refused"
)

// bmcResult is what came of one BMC, as -o json prints it.
type bmcResult struct {
	Cluster    string            `json:"cluster,omitempty"`
	Node       string            `json:"node,omitempty"`
	Address    string            `json:"address"`
	Action     string            `json:"action"`
	Result     string            `json:"result"` // done, failed or refused; empty: not tried
	PowerState bmc.PowerState    `json:"powerState,omitempty"`
	Boot       *bmc.BootOverride `json:"boot,omitempty"`
	Media      []bmc.Medium      `json:"media,omitempty"`
	Error      string            `json:"error,omitempty"`
}

// run carries one command out: select, look at all, check who they are, ask, do.
func (c *bmcCommands) run(ctx context.Context, job bmcJob) (err error) {
	r, err := c.prepare(job)
	if err != nil {
		return err
	}
	if err := c.mayAsk(r); err != nil {
		return err
	}
	closeTrace, err := c.openTrace(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeTrace()) }()

	r.each(ctx, func(ctx context.Context, e *bmcEntry) error {
		err := r.dial(ctx, e)
		if err == nil {
			err = job.look(ctx, e)
		}
		if err != nil || job.do == nil {
			r.hangUp(ctx, e)
		}
		return err
	})
	if job.do != nil {
		if err := c.change(ctx, r); err != nil {
			return err
		}
	}
	if ctx.Err() == nil {
		r.succeed()
	}
	show := job.show
	if show == nil {
		show = c.printResults
	}
	if err := show(r); err != nil {
		return err
	}
	return r.status(ctx)
}

// prepare reads everything that has to do with files, before a BMC is asked.
func (c *bmcCommands) prepare(job bmcJob) (*bmcRun, error) {
	r := &bmcRun{job: job}
	var err error
	if r.asJSON, err = c.json(); err != nil {
		return nil, err
	}
	if r.log, err = c.logger(); err != nil {
		return nil, err
	}
	conf, err := c.loadConfig()
	if err != nil {
		return nil, err
	}
	r.window = provisioner.NewPowerWindow(provisioner.Power{Parallel: conf.Power.Parallel, Window: conf.Power.Window})
	targets, tree, err := c.targets(conf)
	if err != nil {
		return nil, err
	}
	r.tree = tree
	for _, t := range targets {
		r.entries = append(r.entries, &bmcEntry{target: t, result: bmcResult{
			Cluster: t.node.Cluster, Node: t.node.Name, Address: t.bmc.Address, Action: job.verb,
		}})
	}
	return r, nil
}

// openTrace makes the file of --trace. It holds serials and addresses, so that
// only its owner may read it.
func (c *bmcCommands) openTrace(r *bmcRun) (done func() error, err error) {
	if c.given.trace == "" {
		return func() error { return nil }, nil
	}
	f, err := os.OpenFile(c.given.trace, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err == nil {
		err = f.Chmod(0o600) // it may have been there
	}
	if err != nil {
		return nil, usageError("--trace: %v", err)
	}
	r.trace = f
	return func() error {
		if err := f.Close(); err != nil {
			return &statusError{exitFailed, fmt.Sprintf("write the trace: %v", err)}
		}
		return nil
	}, nil
}

// each works on all BMCs that nothing went wrong with so far, side by side.
func (r *bmcRun) each(ctx context.Context, do func(context.Context, *bmcEntry) error) {
	var group errgroup.Group
	group.SetLimit(bmcParallel)
	for _, e := range r.entries {
		if e.result.Result != "" {
			continue
		}
		group.Go(func() error {
			err := ctx.Err()
			if err == nil {
				err = do(ctx, e)
			}
			if err != nil {
				e.fail(err)
			}
			return nil
		})
	}
	_ = group.Wait() // errors are in the results
}

func (e *bmcEntry) fail(err error) {
	e.result.Result, e.result.Error = resultFailed, e.target.tell(err)
}

// dial logs in. The password is read at that moment and kept nowhere else (I9).
func (r *bmcRun) dial(ctx context.Context, e *bmcEntry) error {
	b := e.target.bmc
	if b.Address == "" {
		return errors.New("no BMC is configured: give the node a bmc.address in the inventory")
	}
	password, err := b.Password(ctx, inventory.Secrets{})
	if err != nil {
		return err
	}
	client, err := bmc.Dial(ctx, bmc.Config{
		Address: b.Address, Username: b.Username, Password: password, Insecure: b.Insecure, CAFile: b.CAFile,
		Fingerprint: b.Fingerprint, LegacyTLS: b.LegacyTLS, System: b.System, BootMode: b.BootMode, Boot: bmc.BootKind(b.Boot),
		Expected: e.target.node.Facts(), Log: r.log, Trace: r.trace,
	})
	if err == nil {
		e.client = client
	}
	return err
}

// hangUp logs out, also when ctx has ended: BMCs have few sessions.
func (r *bmcRun) hangUp(ctx context.Context, e *bmcEntry) {
	if e.client == nil {
		return
	}
	if err := e.client.Close(ctx); err != nil {
		r.log.Warn("could not end the BMC session", "bmc", e.target.bmc.Address, "error", e.target.tell(err))
	}
	e.client = nil
}

// succeed marks what nothing went wrong with.
func (r *bmcRun) succeed() {
	for _, e := range r.entries {
		if e.result.Result == "" {
			e.result.Result = resultDone
		}
	}
}

// change is the second half of a command that changes machines.
func (c *bmcCommands) change(ctx context.Context, r *bmcRun) error {
	defer func() {
		for _, e := range r.entries {
			r.hangUp(ctx, e)
		}
	}()
	r.verify()
	if ctx.Err() == nil {
		if err := c.confirm(ctx, r); err != nil {
			return err
		}
	}
	r.each(ctx, func(ctx context.Context, e *bmcEntry) error {
		defer r.hangUp(ctx, e)
		if r.job.starts && (e.identity.PowerState != bmc.On || r.job.verb != "power on") {
			if err := r.window.Wait(ctx); err != nil {
				return err
			}
		}
		return r.job.do(ctx, e)
	})
	return nil
}

// status is the command's exit status.
func (r *bmcRun) status(ctx context.Context) error {
	if ctx.Err() != nil {
		return &statusError{exitInterrupted, "interrupted: what the table does not call done may have been begun"}
	}
	worst := exitDone
	for _, e := range r.entries {
		switch {
		case e.result.Result == resultFailed:
			worst = exitFailed
		case e.result.Result == resultRefused && worst == exitDone:
			worst = exitRefused
		}
	}
	if worst == exitDone {
		return nil
	}
	return &statusError{status: worst}
}
