package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/provisioner/talos"
)

func clusterHealthCommand(a *app) *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "health NAME",
		Short: "Have the cluster check itself, and compare its nodes with the inventory",
		Long: `health has a control plane node check its cluster, tells what it says while it
does, and asks each node of the cluster what it runs: version, schematic, hostname
and role as the inventory has them, or drifted.

Exit status: 0 healthy, as the inventory says; 1 unhealthy or drifted; 2 usage,
configuration or inventory error.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			asJSON, err := a.json()
			if err != nil {
				return err
			}
			r, err := a.theCluster(args[0])
			if err != nil {
				return err
			}
			return a.clusterHealth(cmd.Context(), r, timeout, asJSON)
		},
	}
	const patience = time.Minute
	c.Flags().DurationVar(&timeout, "timeout", patience, "how long the cluster may take to become healthy")
	return c
}

// healthReport is the whole answer.
type healthReport struct {
	Cluster string       `json:"cluster"`
	Healthy bool         `json:"healthy"` // the check passed, and every node is as the inventory says
	Check   healthCheck  `json:"check"`
	Nodes   []nodeHealth `json:"nodes"`
}

// healthCheck is what the cluster says of itself.
type healthCheck struct {
	Passed   bool     `json:"passed"`
	Messages []string `json:"messages,omitempty"`
	Error    string   `json:"error,omitempty"`
}

func (a *app) clusterHealth(ctx context.Context, r *runningCluster, timeout time.Duration, asJSON bool) error {
	report := healthReport{Cluster: r.name}
	report.Nodes = r.inspect(ctx)
	progress := func(line string) { say(a.errOut, "%s\n", line) }
	if asJSON {
		progress = func(string) {}
	} else if err := healthTable(a.out, report.Nodes); err != nil {
		return err
	}
	var err error
	if report.Check, err = r.check(ctx, timeout, progress); err != nil {
		return err
	}
	report.Healthy = report.Check.Passed && !slices.ContainsFunc(report.Nodes, func(n nodeHealth) bool { return len(n.Problems) > 0 })
	if err := a.tellHealth(report, asJSON); err != nil {
		return err
	}
	if !report.Healthy {
		return &statusError{status: exitFailed}
	}
	return nil
}

func (a *app) tellHealth(report healthReport, asJSON bool) error {
	if asJSON {
		return a.printJSON(report)
	}
	verdict := "healthy, and as the inventory says"
	switch drifted := slices.ContainsFunc(report.Nodes, func(n nodeHealth) bool { return len(n.Problems) > 0 }); {
	case !report.Check.Passed:
		verdict = "unhealthy: " + report.Check.Error
	case drifted:
		verdict = "healthy by its own check, but not as the inventory says"
	}
	_, err := fmt.Fprintf(a.out, "\n%s is %s\n", report.Cluster, verdict)
	return err
}

// check has the cluster check itself. The error is only for an end of the command.
func (r *runningCluster) check(ctx context.Context, timeout time.Duration, progress func(string)) (healthCheck, error) {
	var c healthCheck
	request := talos.HealthRequest{ControlPlanes: r.addresses(true), Workers: r.addresses(false), Timeout: timeout}
	if len(request.ControlPlanes) == 0 {
		request.Workers = nil // who is what is not known: the cluster's discovery is left to find them
	}
	var unhealthy error // what a node found, which the others need not find again
	err := r.firstOf(ctx, func(host string) error {
		err := r.admin.Health(ctx, host, request, func(line string) {
			c.Messages = append(c.Messages, line)
			progress(line)
		})
		if errors.Is(err, talos.ErrUnhealthy) {
			unhealthy, err = err, nil
		}
		return err
	})
	var status *statusError
	switch {
	case errors.As(err, &status), errors.Is(err, context.Canceled):
		return c, err
	case errors.Join(unhealthy, err) != nil:
		c.Error = errors.Join(unhealthy, err).Error()
	default:
		c.Passed = true
	}
	return c, nil
}

// inspect asks the nodes side by side and compares each with the inventory.
func (r *runningCluster) inspect(ctx context.Context) []nodeHealth {
	const parallel = 16
	results := make([]nodeHealth, len(r.nodes))
	turn := make(chan struct{}, parallel)
	var asked sync.WaitGroup
	for i, n := range r.nodes {
		asked.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			results[i] = r.look(ctx, n)
		})
	}
	asked.Wait()
	return results
}

// look asks one node.
func (r *runningCluster) look(ctx context.Context, n clusterNode) nodeHealth {
	h := nodeHealth{Node: n.Name, Host: n.IP, WantedVersion: n.TalosVersion, WantedSchematic: n.SchematicID}
	if n.IP == "" {
		h.Problems = []string{"not asked: the inventory has no ip"}
		return h
	}
	h.fill(n, r.admin.Inspect(ctx, n.IP))
	return h
}
