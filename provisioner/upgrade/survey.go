package upgrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/talos-provision/provision/provisioner/talos"
)

// survey looks at the whole cluster. It fails only when the nodes cannot be
// listed; what does not answer is part of what was seen.
func (r *Runner) survey(ctx context.Context) (Survey, error) {
	members, err := r.o.Members(ctx)
	if err != nil {
		return Survey{}, fmt.Errorf("list the nodes of %s: %w", r.o.Cluster, err)
	}
	s := Survey{Machines: make([]Machine, len(members))}
	var group errgroup.Group
	group.SetLimit(r.o.Parallel)
	for i, m := range members {
		group.Go(func() error {
			s.Machines[i] = r.inspect(ctx, m)
			return nil
		})
	}
	group.Go(func() error {
		r.surveyKubernetes(ctx, &s)
		return nil
	})
	_ = group.Wait() // none of them fails
	r.recallRoles(s.Machines)
	s.Etcd = r.surveyEtcd(ctx, s)
	r.joinKubernetes(ctx, &s)
	return s, ctx.Err()
}

// inspect asks one node, within the time of a call each.
func (r *Runner) inspect(ctx context.Context, m Member) Machine {
	machine := Machine{Member: m, ServesAPI: r.o.APIHost != "" && m.Host == r.o.APIHost}
	machine.Running = r.look(ctx, m.Host)
	if machine.Running.Reached {
		ctx, cancel := context.WithTimeout(ctx, r.o.Timeouts.Call)
		defer cancel()
		machine.Details, machine.DetailsErr = r.o.Talos.Details(ctx, m.Host)
	}
	return machine
}

// look is one look at a node. The client makes a new connection for it: one that
// was open before a kexec may stay half open for long (siderolabs/talos#14242).
func (r *Runner) look(ctx context.Context, host string) talos.Running {
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeouts.Call)
	defer cancel()
	return r.o.Talos.Inspect(ctx, host)
}

// recallRoles fills in the role of nodes that do not answer now and did before:
// a control plane that is away is a control plane.
func (r *Runner) recallRoles(machines []Machine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	roles := map[string]string{}
	for i := range machines {
		m := &machines[i]
		m.Running.Role = cmp.Or(m.Running.Role, r.roles[m.Name])
		roles[m.Name] = m.Running.Role
	}
	r.roles = roles
}

// surveyEtcd asks the control planes: one for the members and alarms, each for its own view.
func (r *Runner) surveyEtcd(ctx context.Context, s Survey) Etcd {
	var (
		etcd  = Etcd{Status: map[string]EtcdStatus{}, Err: errors.New("no control plane tells the status of its etcd")}
		mu    sync.Mutex
		group errgroup.Group
	)
	group.SetLimit(r.o.Parallel)
	for _, name := range s.controlPlanes() {
		host := s.host(name)
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, r.o.Timeouts.Call)
			defer cancel()
			status, err := r.o.Talos.EtcdStatus(ctx, host)
			mu.Lock()
			defer mu.Unlock()
			etcd.Status[name] = EtcdStatus{MemberStatus: status, Err: err}
			return nil
		})
	}
	_ = group.Wait() // none of them fails
	for _, name := range s.controlPlanes() {
		if etcd.Status[name].Err != nil {
			continue
		}
		if etcd.Members, etcd.Alarms, etcd.Err = r.etcdMembers(ctx, s.host(name)); etcd.Err == nil {
			return etcd
		}
	}
	return etcd
}

func (r *Runner) etcdMembers(ctx context.Context, host string) ([]talos.Member, []talos.Alarm, error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeouts.Call)
	defer cancel()
	members, err := r.o.Talos.EtcdMembers(ctx, host)
	if err != nil {
		return nil, nil, err
	}
	alarms, err := r.o.Talos.EtcdAlarms(ctx, host)
	return members, alarms, err
}

// surveyKubernetes asks for what is the cluster's; the nodes are joined later.
func (r *Runner) surveyKubernetes(ctx context.Context, s *Survey) {
	if r.o.NoDrain {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeouts.Call)
	defer cancel()
	s.Kubernetes, s.KubernetesErr = r.o.Kubernetes.Version(ctx)
	if s.KubernetesErr == nil {
		s.Strangers, s.KubernetesErr = r.o.Kubernetes.Nodes(ctx)
	}
}

// joinKubernetes gives each machine its Node object: that which the node itself
// names, or else that with its address. The rest are strangers.
func (r *Runner) joinKubernetes(ctx context.Context, s *Survey) {
	if r.o.NoDrain || s.KubernetesErr != nil {
		s.Strangers = nil
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeouts.Call)
	defer cancel()
	var budgets map[string][]string
	budgets, s.KubernetesErr = r.o.Kubernetes.Budgets(ctx)
	matches := []func(Machine, KubernetesNode) bool{
		func(m Machine, k KubernetesNode) bool { return m.Running.Kubernetes.Name == k.Name },
		func(m Machine, k KubernetesNode) bool { return slices.Contains(k.Addresses, m.Host) },
	}
	for _, match := range matches {
		for i := range s.Machines {
			m := &s.Machines[i]
			at := slices.IndexFunc(s.Strangers, func(k KubernetesNode) bool { return m.Kubernetes == nil && match(*m, k) })
			if at < 0 {
				continue
			}
			k := s.Strangers[at]
			m.Kubernetes, m.Budgets = &k, budgets[k.Name]
			s.Strangers = slices.Delete(s.Strangers, at, at+1)
		}
	}
}
