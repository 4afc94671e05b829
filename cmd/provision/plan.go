package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/provisioner"
)

func planCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "plan --cluster NAME",
		Short: "Say what a run would do to each node, and why; touches nothing",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.flags.dryRun = true
			if a.flags.output == "markdown" { // the way is that of a table, only the form is another
				a.flags.markdown, a.flags.output = true, "table"
			}
			return a.provision(cmd.Context())
		},
	}
	c.Flags().StringVar(&a.flags.until, "until", "", "plan as if --until were given to the run")
	c.Flags().StringVar(&a.flags.reinstall, "reinstall", "", "plan as if these nodes were named with --reinstall")
	return c
}

// printPlan tells the plan; machines get one document.
func (a *app) printPlan(p provisioner.Plan, asJSON bool) error {
	switch {
	case asJSON:
		return a.printJSON(p)
	case a.flags.markdown:
		return planMarkdown(a.out, p)
	}
	return a.planTable(p)
}

func (a *app) planTable(p provisioner.Plan) error {
	if p.Resumes != "" {
		say(a.out, "Run %s of %s was not finished; it goes on.\n\n", p.Resumes, p.Cluster)
	}
	rows := make([][]string, 0, len(p.Nodes))
	for _, n := range p.Nodes {
		rows = append(rows, []string{n.Node, string(n.Action), orDash(string(n.Until)), orDash(n.Power), orDash(string(n.IdentifiedBy)), orDash(n.TalosVersion), why(n)})
	}
	if err := table(a.out, []string{"NODE", "ACTION", "UNTIL", "POWER", "IDENTIFIED BY", "TALOS", "WHY"}, rows); err != nil {
		return err
	}
	for _, n := range p.Nodes {
		if n.Hint != "" {
			say(a.out, "\n%s: %s\n  -> %s\n", n.Node, n.Reason, n.Hint)
		}
	}
	_, err := fmt.Fprintf(a.out, "\n%d to install, %d to go on with, %d done, %d skipped, %d held for safety, %d that cannot be done\n",
		p.Count(provisioner.ActionInstall), p.Count(provisioner.ActionResume, provisioner.ActionConfigure, provisioner.ActionFollow), p.Count(provisioner.ActionDone),
		p.Count(provisioner.ActionSkip), p.Count(provisioner.ActionHold), p.Count(provisioner.ActionFail))
	return err
}

// why is short for the table; what stands in the way is told in full below it.
func why(n provisioner.PlanNode) string {
	if n.Cause != "" {
		return string(n.Cause)
	}
	return n.Reason
}

// planStatus is the exit status of `provision plan`: that of a run which did all that can be done.
func planStatus(p provisioner.Plan) error {
	switch {
	case p.Count(provisioner.ActionFail) > 0:
		return &statusError{status: exitFailed}
	case p.Count(provisioner.ActionHold) > 0:
		return &statusError{status: exitRefused}
	}
	return nil
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// plan looks at the fleet, with a line to a waiting person.
func (s *session) plan(ctx context.Context, c *provisioner.Controller) (provisioner.Plan, error) {
	request, err := s.request()
	if err != nil {
		return provisioner.Plan{}, err
	}
	say(s.errOut, "looking at the BMCs ...\n")
	return c.Plan(ctx, request)
}
