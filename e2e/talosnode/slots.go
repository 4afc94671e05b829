package talosnode

import (
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
)

// slot names the boot slot that runs: a file of systemd-boot, or a label of GRUB.
func (s *system) slot() string {
	if s.node.cfg.GRUB {
		return "A"
	}
	return "Talos-" + s.version + ".efi"
}

// bootResources tell how the system was booted.
func (s *system) bootResources() []resource.Resource {
	security := runtime.NewSecurityStateSpec(runtime.NamespaceName)
	security.TypedSpec().SecureBoot = s.node.cfg.SecureBoot
	security.TypedSpec().BootedWithUKI = s.node.cfg.FromDisk && !s.node.cfg.GRUB || s.node.cfg.SecureBoot
	all := []resource.Resource{security}
	if s.act.cmdlineResource && len(s.args) > 0 {
		cmdline := runtime.NewKernelCmdline()
		cmdline.TypedSpec().Cmdline = s.args.String()
		all = append(all, cmdline)
	}
	if s.act.cmdlineResource && s.node.cfg.FromDisk && !s.node.cfg.GRUB {
		entry := runtime.NewBootedEntrySpec()
		entry.TypedSpec().BootedEntry = s.slot()
		all = append(all, entry)
	}
	return all
}

func setMeta(d *DiskState, tag uint8, value string) {
	if d.Meta == nil {
		d.Meta = map[uint8]string{}
	}
	d.Meta[tag] = value
}

// refreshMeta shows what is in the partition META, after each change of it.
func (s *system) refreshMeta() {
	values := s.disk().Meta
	for tag, value := range values {
		modify(s, runtime.NewMetaKey(runtime.NamespaceName, runtime.MetaKeyTagToID(tag)), func(r *runtime.MetaKey) { r.TypedSpec().Value = value })
	}
	listed, err := safe.StateListAll[*runtime.MetaKey](s.life, s.resources)
	if err != nil {
		s.note(err)
		return
	}
	kept := map[resource.ID]bool{}
	for tag := range values {
		kept[runtime.MetaKeyTagToID(tag)] = true
	}
	for key := range listed.All() {
		if !kept[key.Metadata().ID()] {
			s.note(s.resources.Destroy(s.life, key.Metadata()))
		}
	}
}

// prove is what becomes of an upgrade whose system came up: the next boot takes it
// too, and there is no way back by itself any more.
func (s *system) prove() {
	if !s.disk().Unproven {
		return
	}
	s.note(s.node.cfg.Disk.Update(func(d *DiskState) {
		d.Unproven = false
		delete(d.Meta, upgradeFallback)
	}))
	s.refreshMeta()
}

// revert makes the other boot slot the one to boot.
func revert(d *DiskState) {
	d.Version, d.PreviousVersion = d.PreviousVersion, d.Version
	d.Schematic, d.PreviousSchematic = d.PreviousSchematic, d.Schematic
	d.Cmdline = installedCmdline(d.Version, nil)
	d.Unproven = false
	delete(d.Meta, upgradeFallback)
}

// meetsUpgradeFault does what goes wrong with a reset into an upgraded system,
// and reports whether the machine hangs.
func (n *Node) meetsUpgradeFault() (hangs bool) {
	faults := n.cfg.Faults
	if !n.cfg.Disk.State().Unproven {
		return false
	}
	if faults.UpgradeLosesConfig {
		err := n.cfg.Disk.Update(func(d *DiskState) { d.MachineConfig = nil })
		if err != nil {
			n.log.Error("emulated Talos node cannot lose its config", "address", n.cfg.Address, "error", err)
		}
	}
	if faults.UpgradeHangs || faults.UpgradeNeverReturns {
		n.log.Info("emulated Talos node hangs in the reset after its upgrade", "address", n.cfg.Address)
		return true
	}
	return false
}
