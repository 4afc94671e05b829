package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/talos-provision/provision/provisioner"
)

// verify refuses every node whose BMC is not its own, or whose machine cannot
// be told from another node's (I1). All of the inventory counts, and what the
// BMCs of this command reported.
func (r *bmcRun) verify() {
	if r.tree == nil {
		return // --address: nothing to compare with
	}
	fleet := provisioner.NewFleet(r.tree.Nodes)
	for _, e := range r.entries {
		if e.result.Result == "" {
			fleet.Learn(e.target.node.ID(), e.identity.Facts)
		}
	}
	for _, e := range r.entries {
		if e.result.Result != "" {
			continue
		}
		if _, refusal := fleet.Verify(e.target.node, e.identity.Facts); refusal != nil {
			e.result.Result = resultRefused
			e.result.Error = refusal.Err.Error() + "; nothing was done; correct the serials or bmc.address in the inventory, or the cabling"
		}
	}
}

// asked are the machines that a person has to agree to: all that are powered,
// and everything at --address, where no inventory says what is meant.
func (r *bmcRun) asked() []*bmcEntry {
	var asked []*bmcEntry
	for _, e := range r.entries {
		if e.result.Result == "" && (!r.job.arms || e.target.adHoc()) {
			asked = append(asked, e)
		}
	}
	return asked
}

// mayAsk refuses before any BMC is contacted when the question that will come
// has nobody to answer it.
func (c *bmcCommands) mayAsk(r *bmcRun) error {
	if n := len(r.asked()); r.job.do != nil && n > 0 && !c.flags.yes && !c.terminal {
		return &statusError{exitRefused, fmt.Sprintf("%s would be %s and nobody is here to ask: give --yes", machines(n), r.job.asks)}
	}
	return nil
}

// confirm asks the person. What failed so far is not asked about.
func (c *bmcCommands) confirm(ctx context.Context, r *bmcRun) error {
	asked := r.asked()
	if len(asked) == 0 || c.flags.yes {
		return nil
	}
	for _, e := range r.entries {
		if e.result.Error != "" {
			say(c.errOut, "%s left out: %s\n", e.target.name(), e.result.Error)
		}
	}
	names := make([]string, 0, len(asked))
	for _, e := range asked {
		names = append(names, e.describe())
	}
	say(c.errOut, "\n%s will be %s:\n  %s\nGo on? Type yes: ", upperFirst("these "+machines(len(asked))), r.job.asks, strings.Join(names, "\n  "))
	return c.askYes(ctx)
}

func machines(n int) string {
	if n == 1 {
		return "1 machine"
	}
	return fmt.Sprintf("%d machines", n)
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
