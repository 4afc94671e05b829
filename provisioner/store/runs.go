package store

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrNoRun is returned by StopRun when the cluster's newest run is another one, or has ended.
var ErrNoRun = errors.New("no such run")

// BeginRun returns the unfinished run of the cluster and site, which is then
// carried on with what the new one asks for (I8) and has its nodes besides the old
// ones, or writes the new one.
func (s *Store) BeginRun(asked Run) (run Run, resumed bool, err error) {
	key := runKey(asked.Cluster, asked.Site)
	err = s.db.update(func(tx writer) error {
		var known Run
		found, err := getJSON(tx, bucketRuns, key, &known)
		if err != nil {
			return err
		}
		run, resumed = asked, found && known.Finished.IsZero()
		if resumed {
			run.ID, run.Started = known.ID, known.Started
			run.Nodes = slices.Compact(slices.Sorted(slices.Values(slices.Concat(known.Nodes, asked.Nodes))))
		}
		return putJSON(tx, bucketRuns, key, run)
	})
	if err != nil {
		return Run{}, false, fmt.Errorf("begin a run of %s in the state %s: %w", asked.Cluster, s.path, err)
	}
	return run, resumed, nil
}

// UnfinishedRun returns the run of a cluster and site that was begun and not
// finished; false when there is none.
func (s *Store) UnfinishedRun(cluster, site string) (Run, bool, error) {
	var run Run
	err := s.db.view(func(tx reader) error {
		_, err := getJSON(tx, bucketRuns, runKey(cluster, site), &run)
		return err
	})
	if err != nil {
		return Run{}, false, fmt.Errorf("read the run of %s from the state %s: %w", cluster, s.path, err)
	}
	return run, run.ID != "" && run.Finished.IsZero(), nil
}

// Runs returns the newest run of every cluster and site, in that order.
func (s *Store) Runs() ([]Run, error) {
	runs, err := listJSON[Run](s.db, bucketRuns, nil)
	if err != nil {
		return nil, fmt.Errorf("read the runs of the state %s: %w", s.path, err)
	}
	return runs, nil
}

// StopRun marks an unfinished run as ended by a person: it can be carried on by
// BeginRun, and no daemon does so by itself.
func (s *Store) StopRun(cluster, site, id string) error {
	err := s.db.update(func(tx writer) error {
		var run Run
		found, err := getJSON(tx, bucketRuns, runKey(cluster, site), &run)
		if err != nil {
			return err
		}
		if !found || run.ID != id || !run.Finished.IsZero() {
			return fmt.Errorf("%w: its newest is %q; look with `provision status`", ErrNoRun, run.ID)
		}
		run.Stopped = true
		return putJSON(tx, bucketRuns, runKey(cluster, site), run)
	})
	if err != nil {
		return fmt.Errorf("stop the run %s of %s in the state %s: %w", id, cluster, s.path, err)
	}
	return nil
}

// FinishRun marks the run as complete: the next one begins afresh.
func (s *Store) FinishRun(run Run, now time.Time) error {
	run.Finished = now
	err := s.db.update(func(tx writer) error {
		return putJSON(tx, bucketRuns, runKey(run.Cluster, run.Site), run)
	})
	if err != nil {
		return fmt.Errorf("finish run %s in the state %s: %w", run.ID, s.path, err)
	}
	return nil
}

// runKey is the cluster's name alone without a site, as it has been since schema 1.
func runKey(cluster, site string) []byte {
	if site == "" {
		return []byte(cluster)
	}
	return nodeKey(cluster, site)
}
