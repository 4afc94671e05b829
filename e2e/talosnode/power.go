package talosnode

import (
	"context"

	"github.com/siderolabs/talos/pkg/machinery/api/common"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/config"
	configres "github.com/siderolabs/talos/pkg/machinery/resources/config"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
)

// stageOf is the stage that a sequence shows.
var stageOf = map[string]runtime.MachineStage{
	"reboot": runtime.MachineStageRebooting, "shutdown": runtime.MachineStageShuttingDown,
	"reset": runtime.MachineStageResetting, "upgrade": runtime.MachineStageUpgrading,
	"stageUpgrade": runtime.MachineStageUpgrading,
}

// sequence runs one of the node's sequences, at whose end this boot ends as
// said. While one runs, a second is not started, which only an event tells.
func (s *system) sequence(name, actor string, how ending) {
	s.sequenceAfter(name, actor, how, func() error { return nil })
}

// sequenceAfter does work first, off the caller's goroutine; if that fails, the
// sequence ends and the node goes on.
func (s *system) sequenceAfter(name, actor string, how ending, work func() error) {
	s.mu.Lock()
	busy := s.running != ""
	if !busy {
		s.running, s.progress.stage = name, stageOf[name]
	}
	s.mu.Unlock()
	if busy {
		s.events.publish(&machine.SequenceEvent{
			Sequence: name, Action: machine.SequenceEvent_NOOP,
			Error: &common.Error{Code: common.Code_LOCKED, Message: "sequence not started: locked"},
		}, actor)
		return
	}
	s.events.publish(&machine.SequenceEvent{Sequence: name, Action: machine.SequenceEvent_START}, actor)
	s.refresh()
	s.work.Go(func() {
		if err := work(); err != nil {
			s.events.publish(&machine.SequenceEvent{
				Sequence: name, Action: machine.SequenceEvent_STOP, Error: &common.Error{Code: common.Code_FATAL, Message: err.Error()},
			}, actor)
			s.mu.Lock()
			s.running, s.progress.stage = "", runtime.MachineStageUnknown
			s.mu.Unlock()
			s.refresh()
			return
		}
		s.events.publish(&machine.SequenceEvent{Sequence: name, Action: machine.SequenceEvent_STOP}, actor)
		s.finish(how)
	})
}

// Reboot resets the machine; the answer comes first.
func (s *machineService) Reboot(context.Context, *machine.RebootRequest) (*machine.RebootResponse, error) {
	actor := newUUID()
	s.system.sequenceAfter("reboot", actor, ending{kind: endsInReset}, s.system.chooseSlot)
	return &machine.RebootResponse{Messages: []*machine.Reboot{{ActorId: actor}}}, nil
}

// chooseSlot is what becomes of an upgrade that was written and not booted yet:
// with the fault UpgradeRollsBack the new system reverts to the old one.
func (s *system) chooseSlot() error {
	if !s.node.cfg.Faults.UpgradeRollsBack {
		return nil
	}
	return s.node.cfg.Disk.Update(func(d *DiskState) {
		if d.Unproven {
			revert(d)
		}
	})
}

// Shutdown switches the machine off.
func (s *machineService) Shutdown(context.Context, *machine.ShutdownRequest) (*machine.ShutdownResponse, error) {
	actor := newUUID()
	s.system.sequence("shutdown", actor, ending{kind: endsInPowerOff})
	return &machine.ShutdownResponse{Messages: []*machine.Shutdown{{ActorId: actor}}}, nil
}

// Reset takes the node out of its cluster and empties its disk, or the named
// partitions of it. Then it resets the machine or switches it off.
func (s *machineService) Reset(_ context.Context, req *machine.ResetRequest) (*machine.ResetResponse, error) {
	sys, actor := s.system, newUUID()
	how := ending{kind: endsInPowerOff}
	if req.GetReboot() {
		how.kind = endsInReset
	}
	sys.sequenceAfter("reset", actor, how, func() error {
		if req.GetGraceful() && sys.cluster != nil {
			sys.leaveCluster()
		}
		if req.GetMode() == machine.ResetRequest_USER_DISKS {
			return nil
		}
		var labels []string
		for _, partition := range req.GetSystemPartitionsToWipe() {
			if partition.GetWipe() {
				labels = append(labels, partition.GetLabel())
			}
		}
		if len(req.GetSystemPartitionsToWipe()) == 0 {
			return sys.node.cfg.Disk.Wipe()
		}
		return sys.node.wipePartitions(labels)
	})
	return &machine.ResetResponse{Messages: []*machine.Reset{{ActorId: actor}}}, nil
}

// leaveCluster removes the node from etcd and Kubernetes.
func (s *system) leaveCluster() {
	s.cluster.change(func() { s.self.etcd, s.self.serves, s.self.registered, s.self.ready = 0, false, false, false })
}

// reconfigure puts a new config into effect without a reset.
func (s *system) reconfigure(cfg config.Provider) {
	s.mu.Lock()
	stale := configres.NewMachineConfig(s.config)
	s.config = cfg
	s.hostname = s.chooseHostname()
	name := s.hostname
	s.note(s.resources.Destroy(s.life, stale.Metadata()))
	s.mu.Unlock()
	s.cluster.change(func() { s.self.hostname = name })
	s.refresh()
}
