package talosnode

import (
	"bytes"
	"fmt"
	"maps"
	"sync"
)

// DiskState is what is on the system disk of a node. It can be marshalled to
// JSON; it holds the secrets of the machine config.
type DiskState struct {
	// Device is the path of the disk that Talos was installed to, "" while it is not installed.
	Device string
	// Version and Schematic are of the installed system that boots next.
	Version, Schematic string
	// PreviousVersion and PreviousSchematic are of the other boot slot after an upgrade, else empty.
	PreviousVersion, PreviousSchematic string
	// Unproven: the installed system was written by an upgrade and has not been running yet.
	Unproven bool
	// Cmdline is the kernel command line of the installed system.
	Cmdline string
	// MachineConfig is in the partition STATE; empty means that the node is not configured.
	MachineConfig []byte
	// EtcdMember is the id of the member whose data is in the partition EPHEMERAL; 0 means none.
	EtcdMember uint64
	// Meta is the partition META: values by tag.
	Meta map[uint8]string
}

// Installed tells whether Talos is on the disk.
func (s DiskState) Installed() bool { return s.Version != "" }

// Configured tells whether a machine config is on the disk.
func (s DiskState) Configured() bool { return len(s.MachineConfig) > 0 }

func (s DiskState) clone() DiskState {
	s.MachineConfig = bytes.Clone(s.MachineConfig)
	s.Meta = maps.Clone(s.Meta)
	return s
}

// Disk is the system disk of a machine: what survives a power cut and moves
// from one Node to the next. The zero Disk is empty. It is safe for concurrent use.
type Disk struct {
	mu    sync.Mutex
	state DiskState
	save  func(DiskState) error
}

// NewDisk returns a disk with the given content. If save is not nil, it is
// called with the whole new content before every change and can refuse it: this
// is how a disk is kept on a real block device.
func NewDisk(content DiskState, save func(DiskState) error) *Disk {
	return &Disk{state: content.clone(), save: save}
}

// State is a copy of the disk's content. A nil Disk is empty.
func (d *Disk) State() DiskState {
	if d == nil {
		return DiskState{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state.clone()
}

// Wipe empties the disk.
func (d *Disk) Wipe() error {
	return d.Update(func(s *DiskState) { *s = DiskState{} })
}

// Update changes the content in one step: a power cut sees all of it or
// nothing. It does nothing to a nil Disk.
func (d *Disk) Update(change func(*DiskState)) error {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	next := d.state.clone()
	change(&next)
	if d.save != nil {
		if err := d.save(next.clone()); err != nil {
			return fmt.Errorf("writing the emulated system disk (is its block device writable?): %w", err)
		}
	}
	d.state = next
	return nil
}
