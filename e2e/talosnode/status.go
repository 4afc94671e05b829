package talosnode

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/siderolabs/talos/pkg/machinery/config/machine"
	clusterres "github.com/siderolabs/talos/pkg/machinery/resources/cluster"
	"github.com/siderolabs/talos/pkg/machinery/resources/config"
	"github.com/siderolabs/talos/pkg/machinery/resources/k8s"
	"github.com/siderolabs/talos/pkg/machinery/resources/network"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"github.com/siderolabs/talos/pkg/machinery/resources/v1alpha1"
)

// progress is how far a boot has come.
type progress struct {
	// etcdWaits: etcd of a control plane takes a bootstrap from here on. etcd: the member of this node runs.
	// kubelet: it runs. booted: the boot sequence has ended.
	etcdWaits, etcd, kubelet, booted bool
	stage                            runtime.MachineStage // of the sequence in progress, if any
}

// refresh brings the resources that change up to date with the progress and
// the cluster. It is called after every change of either.
func (s *system) refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return
	}
	hostname := network.NewHostnameStatus(network.NamespaceName, network.HostnameID)
	modify(s, hostname, func(r *network.HostnameStatus) {
		r.TypedSpec().Hostname, r.TypedSpec().Domainname, _ = strings.Cut(s.hostname, ".")
	})
	if s.config != nil {
		s.refreshCluster()
	}
	services := s.services()
	if s.mode == configured {
		for _, one := range services {
			modify(s, v1alpha1.NewService(one.id), func(r *v1alpha1.Service) {
				r.TypedSpec().Running, r.TypedSpec().Healthy, r.TypedSpec().Unknown = one.running(), one.running(), false
			})
		}
	}
	s.refreshStatus(services)
}

// refreshStatus sets the machine's stage and readiness, and publishes a change as an event.
func (s *system) refreshStatus(services []service) {
	stage, unmet := s.stage(services)
	changed := false
	modify(s, runtime.NewMachineStatus(), func(r *runtime.MachineStatus) {
		next := runtime.MachineStatusSpec{Stage: stage, Status: runtime.MachineStatusStatus{Ready: len(unmet) == 0, UnmetConditions: unmet}}
		changed = fmt.Sprint(next) != fmt.Sprint(*r.TypedSpec())
		*r.TypedSpec() = next
	})
	if changed {
		s.events.publish(statusEvent(stage, unmet), "")
	}
}

// stage is the machine's stage and what keeps it from being ready; the lock is held.
func (s *system) stage(services []service) (runtime.MachineStage, []runtime.UnmetCondition) {
	switch {
	case s.progress.stage != runtime.MachineStageUnknown:
		return s.progress.stage, nil
	case s.mode == maintenance:
		return runtime.MachineStageMaintenance, nil
	case s.config == nil:
		return runtime.MachineStageRunning, nil
	}
	stage := runtime.MachineStageBooting
	if s.progress.booted {
		stage = runtime.MachineStageRunning
	}
	var unmet []runtime.UnmetCondition
	var down []string
	for _, one := range services {
		if !one.running() {
			down = append(down, one.id+" not running")
		}
	}
	if len(down) > 0 {
		unmet = append(unmet, runtime.UnmetCondition{Name: "services", Reason: strings.Join(down, ", ")})
	}
	var registered, ready bool
	s.cluster.read(func() { registered, ready = s.self.registered && !s.self.unlisted(), s.self.kubernetesReady() })
	switch {
	case !registered:
		unmet = append(unmet, runtime.UnmetCondition{Name: "nodeReady", Reason: fmt.Sprintf("node %q status is not available yet", s.nodename())})
	case !ready:
		unmet = append(unmet, runtime.UnmetCondition{Name: "nodeReady", Reason: fmt.Sprintf("node %q is not ready", s.nodename())})
	}
	return stage, unmet
}

// nodename is the node's name in Kubernetes.
func (s *system) nodename() string {
	short, _, _ := strings.Cut(s.hostname, ".")
	return strings.ToLower(short)
}

// refreshCluster sets what comes of the config and the cluster; the lock is held.
func (s *system) refreshCluster() {
	kind := s.config.Machine().Type()
	modify(s, config.NewMachineType(), func(r *config.MachineType) { r.SetMachineType(kind) })
	modify(s, k8s.NewNodename(k8s.NamespaceName, k8s.NodenameID), func(r *k8s.Nodename) { r.TypedSpec().Nodename = s.nodename() })
	// A config that was applied later is another object: it cannot be changed in place.
	current := config.NewMachineConfig(s.config)
	if _, err := s.resources.Get(s.life, current.Metadata()); state.IsNotFoundError(err) {
		s.note(s.resources.Create(s.life, current))
	}
	var peers []peer
	s.cluster.read(func() {
		for _, p := range s.cluster.sorted() {
			peers = append(peers, *p)
		}
	})
	present := map[resource.ID]bool{}
	for _, p := range peers {
		name := strings.ToLower(p.hostname)
		present[name] = true
		modify(s, clusterres.NewMember(clusterres.NamespaceName, name), func(r *clusterres.Member) { *r.TypedSpec() = memberOf(p) })
		if p.key == s.self.key && p.registered && !p.unlisted() {
			modify(s, k8s.NewNodeStatus(k8s.NamespaceName, s.nodename()), func(r *k8s.NodeStatus) {
				r.TypedSpec().Nodename, r.TypedSpec().NodeReady = s.nodename(), p.kubernetesReady()
				r.TypedSpec().Unschedulable = p.object != nil && p.object.Unschedulable
			})
		}
	}
	s.forgetMembers(present)
}

// forgetMembers removes the member resources of nodes that left, or changed their names.
func (s *system) forgetMembers(present map[resource.ID]bool) {
	listed, err := safe.StateListAll[*clusterres.Member](s.life, s.resources)
	if err != nil {
		s.note(err)
		return
	}
	for member := range listed.All() {
		if !present[member.Metadata().ID()] {
			s.note(s.resources.Destroy(s.life, member.Metadata()))
		}
	}
}

func memberOf(p peer) clusterres.MemberSpec {
	spec := clusterres.MemberSpec{
		NodeID: p.key, Hostname: p.hostname, MachineType: machine.TypeWorker,
		OperatingSystem: "Talos (" + p.version + ")",
	}
	if address, err := netip.ParseAddr(p.address); err == nil {
		spec.Addresses = []netip.Addr{address}
	}
	if p.controlPlane {
		spec.MachineType = machine.TypeControlPlane
		spec.ControlPlane = &clusterres.ControlPlane{APIServerPort: 6443}
	}
	return spec
}

// modify creates or changes one resource.
func modify[R resource.Resource](s *system, empty R, change func(R)) {
	s.note(safe.StateModify(s.life, s.resources, empty, func(r R) error {
		change(r)
		return nil
	}))
}

// note logs what must not happen; the end of a boot may interrupt anything.
func (s *system) note(err error) {
	if err != nil && s.life.Err() == nil {
		s.node.log.Error("emulated Talos node cannot change a resource", "address", s.node.cfg.Address, "error", err)
	}
}
