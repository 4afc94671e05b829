package talosnode

import (
	"time"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// service is one system service as ServiceList shows it.
type service struct{ id, state, message string }

const (
	stateRunning   = "Running"
	statePreparing = "Preparing"
	stateWaiting   = "Waiting"
)

func (s service) running() bool { return s.state == stateRunning }

// services are those of this moment; s.mu is held.
func (s *system) services() []service {
	up := func(id string) service { return service{id, stateRunning, "Health check successful"} }
	if s.mode == maintenance {
		return []service{up("apid"), up("containerd"), up("machined"), up("syslogd"), up("udevd")}
	}
	all := []service{up("apid"), up("auditd"), up("containerd"), up("cri"), up("dashboard")}
	if s.config != nil && s.config.Machine().Type().IsControlPlane() {
		etcd := service{"etcd", statePreparing, "Running pre state"}
		switch {
		case s.progress.etcd:
			etcd = up("etcd")
		case !s.progress.etcdWaits:
			etcd = service{"etcd", stateWaiting, `Waiting for service "cri" to be "up", time sync, network, etcd spec`}
		}
		all = append(all, etcd)
	}
	kubelet := up("kubelet")
	if s.config != nil && !s.progress.kubelet {
		kubelet = service{"kubelet", stateWaiting, `Waiting for service "cri" to be "up", time sync, network`}
	}
	all = append(all, kubelet, up("machined"), up("syslogd"))
	if s.config != nil && s.config.Machine().Type().IsControlPlane() {
		all = append(all, up("trustd"))
	}
	return append(all, up("udevd"))
}

func (s service) info(since time.Time) *machine.ServiceInfo {
	stamp := timestamppb.New(since)
	return &machine.ServiceInfo{
		Id: s.id, State: s.state,
		Events: &machine.ServiceEvents{Events: []*machine.ServiceEvent{{State: s.state, Msg: s.message, Ts: stamp}}},
		Health: &machine.ServiceHealth{Healthy: s.running(), Unknown: !s.running(), LastMessage: "", LastChange: stamp},
	}
}
