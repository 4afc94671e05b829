package fleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/talosnode"
)

// startInstalled gives each machine of a cluster a disk as an installation of its
// own machine config leaves it, etcd's data included, and switches it on.
func (f *Fleet) startInstalled(ctx context.Context) error {
	for i, m := range f.machines {
		config, err := f.machineConfigOf(m)
		if err != nil {
			return err
		}
		err = m.Disk.Update(func(s *talosnode.DiskState) {
			*s = talosnode.DiskState{
				Device: "/dev/vda", Version: f.config.TalosVersion, Schematic: VanillaSchematic,
				Cmdline: "talos.platform=metal", MachineConfig: config,
			}
			if m.Role == RoleControlPlane {
				s.EtcdMember = uint64(0xe7cd0000 + i)
			}
		})
		if err != nil {
			return fmt.Errorf("write the disk of %s: %w", m.Name, err)
		}
		if err := m.PowerOn(ctx, redfishtest.Boot{}); err != nil {
			return fmt.Errorf("switch on %s: %w", m.Name, err)
		}
	}
	return nil
}

// machineConfigOf reads what writeMachineConfigs wrote.
func (f *Fleet) machineConfigOf(m *Machine) ([]byte, error) {
	config, err := os.ReadFile(filepath.Join(f.config.Dir, "configs", m.Cluster, m.Name+".yaml"))
	if err != nil {
		return nil, fmt.Errorf("read the machine config of %s: %w", m.Name, err)
	}
	return config, nil
}

// AwaitReady returns when every machine of the clusters runs Talos and is ready,
// also in the eyes of Kubernetes where there is one.
func (f *Fleet) AwaitReady(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ready := 0
		for _, c := range f.clusters.Report() {
			for _, n := range c.Nodes {
				if n.Ready && n.InKubernetes {
					ready++
				}
			}
		}
		if ready >= len(f.machines) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the emulated clusters: %d of %d nodes are ready: %w", ready, len(f.machines), ctx.Err())
		case <-tick.C:
		}
	}
}
