package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/provisioner/store"
)

func stateCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "state",
		Short: "Back up, restore and check the state",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return usageError("say what to do: backup, restore or check") },
	}
	c.AddCommand(
		&cobra.Command{
			Use:   "backup FILE",
			Short: "Write the whole state, and the DHCP leases beside it, into one file",
			Long: `The backup is of one moment, also while a daemon works with the state. Its form is
the same for a state in a file and in etcd. An existing FILE is not overwritten.`,
			Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return a.backup(cmd.Context(), args[0]) },
		},
		&cobra.Command{
			Use:   "restore FILE",
			Short: "Make a new state from a backup",
			Long: `The state that --state names must not exist: a file is moved aside first, a prefix of
etcd must be empty. A backup of a file can be restored into etcd, and the other way round.`,
			Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return a.restore(cmd.Context(), args[0]) },
		},
		&cobra.Command{
			Use:   "check",
			Short: "Read the whole state and say whether it is sound",
			Args:  cobra.NoArgs,
			RunE:  func(cmd *cobra.Command, _ []string) error { return a.check(cmd.Context()) },
		},
	)
	return c
}

// attachedLeases is the name of the DHCP lease file in a backup.
const attachedLeases = "leases"

// backupTimeout bounds a backup that a daemon sends.
const backupTimeout = 10 * time.Minute

// backup writes a file that is whole from its first moment on.
func (a *app) backup(ctx context.Context, file string) error {
	asJSON, c, err := a.reading()
	if err != nil {
		return err
	}
	bytes, err := writeBackup(ctx, c, file)
	if err != nil {
		return &statusError{exitFailed, err.Error()}
	}
	if asJSON {
		return a.printJSON(map[string]any{"file": file, "bytes": bytes})
	}
	say(a.out, "%s: %d bytes\n", file, bytes)
	return nil
}

func writeBackup(ctx context.Context, c config, file string) (bytes int64, err error) {
	fresh, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".new-*")
	if err != nil {
		return 0, fmt.Errorf("write the backup: %w; give another FILE", err)
	}
	defer func() { err = errors.Join(err, os.Remove(fresh.Name())) }()
	if err := errors.Join(copyState(ctx, c, fresh), fresh.Close()); err != nil {
		return 0, err
	}
	if !store.IsEtcd(c.stateLocation()) {
		leases, err := os.ReadFile(c.leaseFile())
		if err == nil {
			err = store.Attach(fresh.Name(), attachedLeases, leases)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, fmt.Errorf("back up the DHCP leases: %w", err)
		}
	}
	info, err := os.Stat(fresh.Name())
	if err != nil {
		return 0, err
	}
	if err := os.Link(fresh.Name(), file); err != nil {
		return 0, fmt.Errorf("write the backup: %w; give another FILE", err)
	}
	return info.Size(), nil
}

// copyState writes the state, or has whoever holds it do so, and brings it to the disk.
func copyState(ctx context.Context, c config, out *os.File) error {
	s, err := c.readState(ctx)
	switch {
	case errors.Is(err, store.ErrInUse):
		if errLive := askBackup(ctx, c, out); errLive != nil {
			return errors.Join(err, errLive)
		}
		return out.Sync()
	case err != nil:
		return err
	}
	return errors.Join(s.Backup(out), s.Close(), out.Sync())
}

// askBackup has the process that holds the state write it: a daemon, or a run.
func askBackup(ctx context.Context, c config, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, backupTimeout)
	defer cancel()
	client := c.local(ctx)
	if client == nil {
		return errors.New("whoever holds it cannot be asked for a backup: try again when it has ended")
	}
	defer client.Close()
	if err := client.Backup(ctx, w); err != nil {
		return fmt.Errorf("ask for a backup: %w", err)
	}
	return nil
}

func (a *app) restore(ctx context.Context, file string) error {
	asJSON, c, err := a.reading()
	if err != nil {
		return err
	}
	target := c.stateLocation()
	switch err := restoreState(ctx, c, file, target); {
	case errors.Is(err, store.ErrTaken):
		return &statusError{exitRefused, err.Error()}
	case err != nil:
		return &statusError{exitFailed, err.Error()}
	}
	if asJSON {
		return a.printJSON(map[string]string{"file": file, "state": target})
	}
	say(a.out, "%s is restored from %s\n", target, file)
	return nil
}

// restoreState puts the leases in place first: a state that is there counts as whole.
func restoreState(ctx context.Context, c config, file, target string) (err error) {
	backup, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("read the backup: %w", err)
	}
	defer func() { _ = backup.Close() }()
	if !store.IsEtcd(target) {
		if _, err := os.Lstat(target); err == nil { // told here, before anything is written
			return fmt.Errorf("restore into the state %s: %w: move it aside first: mv %s %s.aside", target, store.ErrTaken, target, target)
		}
		written, err := restoreLeases(file, c.leaseFile())
		if err != nil {
			return err
		}
		if written {
			defer func() {
				if err != nil {
					_ = os.Remove(c.leaseFile())
				}
			}()
		}
	}
	return store.Restore(ctx, backup, target, c.storeOptions(nil))
}

// restoreLeases writes the DHCP lease file of a backup, if there is one in it.
func restoreLeases(file, target string) (written bool, err error) {
	leases, found, err := store.Attached(file, attachedLeases)
	if err != nil || !found {
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return false, fmt.Errorf("restore the DHCP leases: %w", err)
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return false, fmt.Errorf("restore the DHCP leases: %w: move them aside first: mv %s %s.aside", store.ErrTaken, target, target)
	}
	if err != nil {
		return false, fmt.Errorf("restore the DHCP leases: %w", err)
	}
	_, err = f.Write(leases)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return false, errors.Join(fmt.Errorf("restore the DHCP leases: %w", err), os.Remove(target))
	}
	return true, nil
}

func (a *app) check(ctx context.Context) error {
	asJSON, c, err := a.reading()
	if err != nil {
		return err
	}
	report, err := checkState(ctx, c)
	if err != nil {
		return &statusError{exitFailed, err.Error()}
	}
	if asJSON {
		err = a.printJSON(report)
	} else {
		err = a.stateReport(report)
	}
	if err == nil && len(report.Problems) > 0 {
		err = &statusError{exitFailed, fmt.Sprintf("the state %s is damaged: %d problems; move it aside and restore a backup", report.Location, len(report.Problems))}
	}
	return err
}

// checkState checks the state itself, or a copy of it from the daemon or the run that
// has it open.
func checkState(ctx context.Context, c config) (store.Report, error) {
	s, err := c.readState(ctx)
	if errors.Is(err, store.ErrInUse) {
		return checkCopy(ctx, c)
	}
	if err != nil {
		return store.Report{}, err
	}
	report, err := s.Check()
	return report, errors.Join(err, s.Close())
}

func checkCopy(ctx context.Context, c config) (report store.Report, err error) {
	dir, err := os.MkdirTemp("", "provision-check-")
	if err != nil {
		return report, fmt.Errorf("make place for a copy of the state: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "state.db")
	copied, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return report, fmt.Errorf("make a copy of the state: %w", err)
	}
	if err := errors.Join(copyState(ctx, c, copied), copied.Close()); err != nil {
		return report, err
	}
	s, err := store.OpenReadOnly(file)
	if err != nil {
		return report, err
	}
	report, err = s.Check()
	report.Location = c.stateLocation() + " (a copy from whoever has it open)"
	return report, errors.Join(err, s.Close())
}

func (a *app) stateReport(r store.Report) error {
	say(a.out, "%s: %s, schema %s, %d bytes\n", r.Location, r.Backend, r.Schema, r.Bytes)
	rows := make([][]string, 0, len(r.Buckets))
	for _, b := range r.Buckets {
		rows = append(rows, []string{b.Name, strconv.Itoa(b.Keys), strconv.FormatInt(b.Bytes, 10)})
	}
	if err := table(a.out, []string{"RECORDS", "COUNT", "BYTES"}, rows); err != nil {
		return err
	}
	if e := r.NewestEvent; e != nil {
		say(a.out, "newest event: %d, %s, %s/%s %s\n", r.LastEvent, e.Time.Local().Format(time.DateTime), e.Cluster, e.Node, e.State)
	}
	for _, run := range r.UnfinishedRuns {
		say(a.out, "unfinished run: %s of %s, since %s\n", run.ID, run.Cluster, run.Started.Local().Format(time.DateTime))
	}
	for _, p := range r.Problems {
		say(a.out, "problem: %s\n", p)
	}
	return nil
}
