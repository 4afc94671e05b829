// Package qemu runs whole machines: QEMU with real firmware, on a bridge in a
// network namespace of their own. A Machine is what a Redfish service switches
// on and off; each power-on is one QEMU process.
package qemu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/qemu/disk"
)

// Config describes a machine.
type Config struct {
	// Name is for logs and files; letters, digits and dashes.
	Name string
	// Dir is a folder for the machine's files; it must exist and not be shared with another machine.
	Dir string
	// Firmware is UEFI (default), SecureUEFI, BIOS or ARM64.
	Firmware Firmware
	// Serial, UUID, Manufacturer and Product go to SMBIOS type 1, BoardSerial to type 2,
	// ChassisSerial to type 3.
	Serial, BoardSerial, ChassisSerial, UUID, Manufacturer, Product string
	// MAC of the only network card, e.g. 52:54:00:12:34:56.
	MAC string
	// Disk is a raw disk image; empty means one that prints disk.Marker when booted from.
	Disk string
	// DefaultNetworkFirst makes the default boot order network, disk instead of disk, network.
	DefaultNetworkFirst bool
	// HTTPBoot makes a UEFI firmware boot from the network by HTTP only, never by PXE.
	HTTPBoot bool
	// Kernel, Initramfs and Cmdline, when set, are booted directly, without any boot loader.
	Kernel, Initramfs, Cmdline string
	// Memory in MiB; 512 when zero. The real Talos needs 2048.
	Memory int
	// Accelerator for QEMU's -accel; "tcg" when empty, since a KVM device can be present and broken.
	Accelerator string
	// WarmReset, if set, is asked what the machine boots when its system resets it: its BMC's override may
	// still be there. Nil boots by the default order.
	WarmReset func() redfishtest.Boot
	// Log may be nil.
	Log *slog.Logger
}

// Machine is one computer. It implements redfishtest.Machine.
type Machine struct {
	config  Config
	network *Network
	tap     string

	mu     sync.Mutex
	run    *run // nil when off
	boots  []redfishtest.Boot
	closed bool
}

var _ redfishtest.Machine = (*Machine)(nil)

var errClosed = errors.New("the machine was removed")

// NewMachine makes a machine that is off and connects it to the network. The
// caller must Close it before the network.
func NewMachine(ctx context.Context, network *Network, config Config) (*Machine, error) {
	config.Firmware = cmp.Or(config.Firmware, UEFI)
	config.Memory = cmp.Or(config.Memory, 512)
	config.Accelerator = cmp.Or(config.Accelerator, "tcg")
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	m := &Machine{config: config, network: network}
	if config.Disk == "" {
		m.config.Disk = filepath.Join(config.Dir, "disk.img")
		if err := writeDisk(ctx, config.Firmware, m.config.Disk); err != nil {
			return nil, fmt.Errorf("machine %s: %w", config.Name, err)
		}
	}
	tap, err := network.addTap(ctx)
	if err != nil {
		return nil, fmt.Errorf("machine %s: %w", config.Name, err)
	}
	m.tap = tap
	return m, nil
}

func writeDisk(ctx context.Context, firmware Firmware, path string) error {
	if firmware == BIOS {
		return disk.WriteBIOS(path)
	}
	return disk.WriteUEFI(ctx, path)
}

// PowerOn starts the machine and returns when its processor runs. A machine
// that is on stays as it is. The context bounds the call, not the machine.
func (m *Machine) PowerOn(ctx context.Context, boot redfishtest.Boot) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fmt.Errorf("powering on %s: %w", m.config.Name, errClosed)
	}
	if m.run != nil {
		return nil
	}
	return m.start(ctx, boot)
}

// start is called with the lock held.
func (m *Machine) start(ctx context.Context, boot redfishtest.Boot) error {
	m.boots = append(m.boots, boot)
	fail := func(err error) error {
		return fmt.Errorf("powering on %s: %w", m.config.Name, err)
	}
	firmware, err := m.firmwareArgs()
	if err != nil {
		return fail(err)
	}
	rom, err := optionROM(m.config.Firmware)
	if err != nil {
		return fail(err)
	}
	args := append(m.args(boot, m.serialPath(len(m.boots)), rom), firmware...)
	r, err := startRun(ctx, m.network, m.config.Firmware.program(), m.path("qemu.err"), args)
	if err != nil {
		return fail(err)
	}
	m.run = r
	m.config.Log.Info("machine powered on", "machine", m.config.Name, "target", boot.Target, "mode", boot.Mode, "pid", r.process.PID())
	go m.follow(r)
	return nil
}

// follow notices that the machine switched itself off or reset itself. After a
// reset it boots what its BMC says by then: a one-time boot target is used up.
func (m *Machine) follow(r *run) {
	reset := r.awaitShutdown()
	_ = r.process.Kill()
	var boot redfishtest.Boot
	if reset && m.config.WarmReset != nil {
		boot = m.config.WarmReset() // without the lock: the BMC asks this machine for its power
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run != r {
		return // switched off from outside meanwhile
	}
	m.run = nil
	m.config.Log.Info("machine stopped by itself", "machine", m.config.Name, "reset", reset)
	if !reset || m.closed {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := m.start(ctx, boot); err != nil {
		m.config.Log.Error("machine does not come back from a reset", "machine", m.config.Name, "error", err)
	}
}

// PowerOff cuts the power and returns when the process is gone.
func (m *Machine) PowerOff(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stop()
}

// stop is called with the lock held.
func (m *Machine) stop() error {
	if m.run == nil {
		return nil
	}
	r := m.run
	m.run = nil
	if err := r.stop(); err != nil {
		return fmt.Errorf("powering off %s: %w", m.config.Name, err)
	}
	m.config.Log.Info("machine powered off", "machine", m.config.Name)
	return nil
}

// Powered tells whether the machine is on. One that shut itself down is off.
func (m *Machine) Powered() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.run != nil
}

// Boots lists every power-on so far, resets by the machine itself among them
// (those have no target).
func (m *Machine) Boots() []redfishtest.Boot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]redfishtest.Boot(nil), m.boots...)
}

// Name is the machine's name.
func (m *Machine) Name() string { return m.config.Name }

// Close powers the machine off for good and removes its port. It may be called again.
func (m *Machine) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	err := m.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(err, m.network.removeTap(ctx, m.tap))
}

// SerialPath is the file with the output since the last power-on.
func (m *Machine) SerialPath() string { return m.serialPath(len(m.Boots())) }

func (m *Machine) serialPath(powerOn int) string {
	return m.path("serial-" + strconv.Itoa(powerOn) + ".log")
}

func (m *Machine) path(name string) string { return filepath.Join(m.config.Dir, name) }

// startTimeout is how long QEMU may take until it answers on its control channel.
const startTimeout = 20 * time.Second

// run is one power-on: a QEMU process and its control channel.
type run struct {
	process *Process
	control *os.File
	monitor *monitor
}

// startRun starts QEMU in the namespace and waits for its greeting, which
// proves that it took its arguments.
func startRun(ctx context.Context, network *Network, program, errPath string, args []string) (*run, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirs.Close() }()
	stderr, err := os.Create(errPath)
	if err != nil {
		_ = ours.Close()
		return nil, fmt.Errorf("making the error log of QEMU: %w", err)
	}
	defer func() { _ = stderr.Close() }()

	// The process outlives this call; it ends with the machine or with this program.
	cmd := network.Command(context.WithoutCancel(ctx), program, args...)
	cmd.Stdout, cmd.Stderr = stderr, stderr
	cmd.ExtraFiles = []*os.File{theirs} // becomes file descriptor 3
	process, err := startProcess(cmd)
	if err != nil {
		_ = ours.Close()
		return nil, err
	}
	r := &run{process: process, control: ours, monitor: newMonitor(ours)}
	_ = theirs.Close() // or the end of QEMU would not close the channel
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := r.monitor.greet(ctx, ours); err != nil {
		_ = r.stop()
		text, _ := os.ReadFile(errPath)
		return nil, fmt.Errorf("QEMU did not start: %w: %s", err, tail(string(text), 5))
	}
	return r, nil
}

// awaitShutdown returns when the machine has stopped; reset tells that it only wanted to restart.
func (r *run) awaitShutdown() (reset bool) {
	reset, err := r.monitor.shutdown()
	if err != nil && !errors.Is(err, io.EOF) {
		<-r.process.Done()
	}
	return reset
}

func (r *run) stop() error {
	err := r.process.Kill()
	_ = r.control.Close()
	return err
}

// socketPair makes the two ends of the control channel.
func socketPair() (ours, theirs *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a control channel for QEMU: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "qmp"), os.NewFile(uintptr(fds[1]), "qmp-peer"), nil
}
