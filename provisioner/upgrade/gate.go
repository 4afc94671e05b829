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

// gate waits until nothing speaks against the next batch, and returns the plan
// that it is part of. Findings that do not pass by themselves are returned at once.
func (r *Runner) gate(ctx context.Context) (Plan, []Finding, error) {
	deadline := time.Now().Add(r.o.Timeouts.Gate)
	for {
		plan, err := r.plan(ctx, "")
		if err != nil {
			return plan, nil, err
		}
		found := plan.Blocked()
		waits := len(found) > 0
		if !waits && len(plan.batches) > 0 {
			found = r.health(ctx, plan)
			waits = len(found) > 0
		}
		if !waits && len(plan.batches) == 0 {
			waits = awaitsBudget(plan)
		}
		lasting := slices.ContainsFunc(found, func(f Finding) bool { return !passing[f.Code] })
		if !waits || lasting || time.Now().After(deadline) {
			return plan, found, nil
		}
		if err := sleep(ctx, r.o.Timeouts.Poll); err != nil {
			return plan, nil, err
		}
	}
}

// awaitsBudget says whether nodes are left of which only a disruption budget
// speaks against: the pods of the node before may be starting still.
func awaitsBudget(plan Plan) bool {
	return slices.ContainsFunc(plan.Nodes, onlyBudgets)
}

// awaitFit waits until the cluster is fit with a node that has been upgraded.
// Only what may be of the node's making counts.
func (r *Runner) awaitFit(ctx context.Context, node string) error {
	deadline := time.Now().Add(r.o.Timeouts.Gate)
	for {
		plan, err := r.plan(ctx, node)
		if err != nil {
			return err
		}
		found := slices.DeleteFunc(plan.Blocked(), func(f Finding) bool { return !passing[f.Code] && !strings.HasPrefix(string(f.Code), "etcd-") })
		if len(found) == 0 && len(plan.with(ActionResume)) == 0 {
			found = r.health(ctx, plan)
		}
		if len(found) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return failed(VerdictUnfit, "it runs the new version, and the cluster is not fit: %s", textOf(found))
		}
		if err := sleep(ctx, r.o.Timeouts.Poll); err != nil {
			return err
		}
	}
}

// health has a control plane check the cluster, unless it cannot be healthy in
// its eyes: a node is cordoned, or one that is left out is not Ready.
func (r *Runner) health(ctx context.Context, plan Plan) []Finding {
	if r.o.NoHealth || r.o.NoDrain {
		return nil
	}
	var request talos.HealthRequest
	host := ""
	for _, n := range plan.Nodes {
		k := n.machine.Kubernetes
		if k == nil || k.Unschedulable || !k.Ready {
			return nil
		}
		if n.Role != ControlPlane {
			request.Workers = append(request.Workers, n.Host)
			continue
		}
		request.ControlPlanes = append(request.ControlPlanes, n.Host)
		host = n.Host
	}
	if host == "" {
		return nil
	}
	request.Timeout = r.o.Timeouts.Call * 4
	if err := r.o.Talos.Health(ctx, host, request, nil); err != nil && !errors.Is(err, talos.ErrNotSupported) {
		return []Finding{find(CodeHealth, "", "the cluster is not healthy: %v", err)}
	}
	return nil
}

// etcdNow asks for etcd only, and returns who leads and what speaks against
// taking a control plane away.
func (r *Runner) etcdNow(ctx context.Context) (leader string, found []Finding, err error) {
	members, err := r.o.Members(ctx)
	if err != nil {
		return "", nil, fmt.Errorf("list the nodes of %s: %w", r.o.Cluster, err)
	}
	s := Survey{Machines: make([]Machine, len(members))}
	for i, m := range members {
		s.Machines[i].Member = m
	}
	r.recallRoles(s.Machines)
	for i := range s.Machines {
		// A process that carries a run on has not seen them yet, and counts control planes.
		if m := &s.Machines[i]; m.Running.Role == "" {
			m.Running = r.look(ctx, m.Host)
		}
	}
	r.recallRoles(s.Machines)
	etcd := r.surveyEtcd(ctx, s)
	return etcd.Leader(), EtcdFindings(s.controlPlanes(), etcd, r.o.MaxRaftLag), nil
}

func textOf(found []Finding) string {
	texts := make([]string, 0, len(found))
	for _, f := range found {
		texts = append(texts, strings.TrimSpace(f.Node+" "+f.Text))
	}
	return strings.Join(texts, "; ")
}
