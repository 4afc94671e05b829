package talosnode

import (
	"fmt"
	"slices"

	"github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
)

// boot starts what the machine was told to boot: the decision between
// maintenance mode and a configured node is the disk's. It returns nil when the
// node halts.
func (n *Node) boot() (*system, error) {
	s := &system{node: n, version: n.cfg.Version, schematic: n.cfg.Schematic, args: argsOf(n.cfg.Cmdline)}
	if n.cfg.FromDisk {
		disk := n.cfg.Disk.State()
		s.version, s.schematic, s.args = disk.Version, disk.Schematic, argsOf(disk.Cmdline)
	} else if err := n.wipe(s.args); err != nil {
		return nil, err
	}
	var err error
	if s.act, err = behaviourOf(s.version); err != nil {
		return nil, fmt.Errorf("booting an emulated Talos node: %w", err)
	}
	disk := n.cfg.Disk.State()
	if !n.cfg.FromDisk && disk.Installed() && s.args.halts() {
		n.log.Info("emulated Talos node halts: Talos is already installed to disk but booted from another media and talos.halt_if_installed kernel parameter is set",
			"address", n.cfg.Address)
		return nil, nil //nolint:nilnil // a halted node is neither an error nor a system
	}
	if n.cfg.FromDisk && disk.Unproven && n.cfg.Faults.UpgradeNeverReturns {
		n.log.Info("emulated Talos node hangs in the boot of its upgrade", "address", n.cfg.Address)
		return nil, nil //nolint:nilnil // as above
	}
	s.devices = n.cfg.Devices
	if len(s.devices) == 0 && n.cfg.Disk != nil {
		s.devices = defaultDevices()
	}
	if n.bare != nil {
		s.mode = configured
	} else if disk.Configured() {
		s.mode = configured
		if s.config, err = loadStored(disk.MachineConfig); err != nil {
			return nil, fmt.Errorf("reading the machine config on the disk of the emulated Talos node at %s: %w", n.cfg.Address, err)
		}
		if s.refusesConfig() {
			s.mode, s.config = maintenance, nil
		}
	}
	if err := s.start(n.life); err != nil {
		return nil, fmt.Errorf("starting the emulated Talos node at %s: %w", n.cfg.Address, err)
	}
	return s, nil
}

// wipe does what talos.experimental.wipe= says, once in the life of a machine's
// power: a node that goes on from maintenance mode does not wipe again.
func (n *Node) wipe(a args) error {
	if n.wiped {
		return nil
	}
	n.wiped = true
	all, partitions := a.wipes()
	if all {
		return n.cfg.Disk.Wipe()
	}
	return n.wipePartitions(partitions)
}

func (n *Node) wipePartitions(labels []string) error {
	if len(labels) == 0 {
		return nil
	}
	return n.cfg.Disk.Update(func(s *DiskState) {
		if slices.Contains(labels, "STATE") {
			s.MachineConfig = nil
		}
		if slices.Contains(labels, "EPHEMERAL") {
			s.EtcdMember = 0
		}
		if slices.Contains(labels, "META") {
			s.Meta = nil
		}
	})
}

// loadStored reads a config that was accepted before. What is newer than our
// library was accepted by a node that knows it, and is left out here.
func loadStored(data []byte) (config.Provider, error) {
	return configloader.NewFromBytes(withoutDocuments(data, unknownKinds))
}
