package provisioner

import (
	"context"

	"github.com/talos-provision/provision/provisioner/talos"
)

// elsewherePolls is how many looks in a row, one PollInterval apart, must find a node at another
// address than its own: one with several ports may have a lease before it takes ip=.
const elsewherePolls = 20

// lookElsewhere looks for a node that is silent at its static address at the
// address that DHCP gave it. Talos drops a kernel argument ip= that it cannot
// read, such as one with a name for its time server, and comes up by DHCP.
func (n *node) lookElsewhere(ctx context.Context) error {
	seen := n.sighted()
	if n.IP == "" || !seen.source.IsValid() || seen.source.String() == n.IP || stages[seen.stage].rank < stages[stageInitramfs].rank {
		return nil
	}
	if n.silent++; n.silent%looksOften != 0 {
		return nil
	}
	host := seen.source.String()
	o := n.c.opts.Prober.Probe(ctx, host)
	if o.State != talos.Maintenance || n.c.confirm(n.Node, o) != "" {
		n.elsewhere = 0
		return nil
	}
	if n.elsewhere++; n.elsewhere < elsewherePolls {
		return nil
	}
	return failed(CauseOtherAddress, "Talos is up in maintenance at %s, which DHCP gave it, and silent at its own address %s", host, n.IP)
}
