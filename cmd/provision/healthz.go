package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/provisioner/web"
)

// healthzCommand asks the daemon what its /healthz or /readyz says, for the probes
// of containers that hold no other client.
func healthzCommand(a *app) *cobra.Command {
	var (
		ready   bool
		timeout time.Duration
	)
	c := &cobra.Command{
		Use:   "healthz",
		Short: "Ask the daemon whether it is well, as a health check of a container does",
		Long: `healthz asks the daemon of this host, by its socket, or the one of --server, what
its /healthz says: whether the process is of use, or should be started anew. With
--ready it asks /readyz: whether it leads its site and works.

Exit status: 0 it is well; 1 it is not, or nobody answers; 2 usage or configuration error.`,
		Example: `  provision healthz
  provision healthz --ready --config /etc/provision/provision.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return a.healthz(ctx, ready)
		},
	}
	c.Flags().BoolVar(&ready, "ready", false, "ask whether it leads its site and works, not only whether it lives")
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for the answer")
	return c
}

func (a *app) healthz(ctx context.Context, ready bool) error {
	asJSON, err := a.json()
	if err != nil {
		return err
	}
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	client, err := c.remote()
	if err != nil {
		return err
	}
	if client == nil {
		if client, err = web.NewClient(web.Endpoint{Socket: c.liveSocket()}); err != nil {
			return usageError("%v", err)
		}
	}
	defer client.Close()
	ask := client.Alive
	if ready {
		ask = client.Ready
	}
	health, err := ask(ctx)
	if err != nil {
		return &statusError{exitFailed, err.Error()}
	}
	if err := a.printHealth(health, asJSON); err != nil {
		return err
	}
	if !health.OK {
		return &statusError{status: exitFailed} // what is wrong was printed
	}
	return nil
}

func (a *app) printHealth(health web.Health, asJSON bool) error {
	if asJSON {
		return a.printJSON(health)
	}
	rows := make([][]string, 0, len(health.Checks))
	for _, check := range health.Checks {
		verdict := "ok"
		if !check.OK {
			verdict = "not ok"
		}
		rows = append(rows, []string{check.Name, verdict, check.What})
	}
	return table(a.out, []string{"CHECK", "STATE", "WHAT"}, rows)
}
