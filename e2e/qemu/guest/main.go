// Command guest is the init of the virtual machines that stand in for Talos
// nodes: it takes its address from the kernel command line as Talos does, or from
// the machine config on its disk, serves the Talos API and installs itself. It is
// packed into an initramfs by package image.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talos-provision/provision/e2e/talosnode"
)

// defaultVersion is the Talos version played when talos.e2e.version= does not say.
const defaultVersion = "v1.13.9"

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guest: this is the init of a test machine and runs as process 1 only")
		os.Exit(2)
	}
	out := console()
	defer powerOff()
	defer func() {
		// A dying process 1 is a kernel panic, which hides the reason.
		if reason := recover(); reason != nil {
			say(out, "FATAL: %v", reason)
		}
	}()
	if err := run(context.Background(), out); err != nil {
		say(out, "FATAL: %v", err)
	}
}

// run brings the machine up and then never returns without an error.
func run(ctx context.Context, out io.Writer) error {
	if err := mountAll(); err != nil {
		return err
	}
	data, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return fmt.Errorf("reading the kernel command line: %w", err)
	}
	args := cmdline(strings.Fields(string(data)))
	say(out, "kernel command line: %s", strings.TrimSpace(string(data)))
	if err := loadModules("/lib/modules"); err != nil {
		return err
	}
	log := func(format string, a ...any) { say(out, format, a...) }
	disk, err := openDisk(args, log)
	if err != nil {
		return err
	}
	config, err := chooseNetwork(args, disk.State().MachineConfig, log)
	if err != nil {
		return err
	}
	addresses, err := bringUp(ctx, config, log)
	if err != nil {
		return err
	}
	if err := serve(ctx, args, disk, out, addresses); err != nil {
		return err
	}
	reap()
	return nil
}

// chooseNetwork takes the network of the machine config before that of the
// kernel command line, as Talos does.
func chooseNetwork(args cmdline, machineConfig []byte, log logf) (networkConfig, error) {
	config, found, err := configuredNetwork(machineConfig)
	if err != nil || found {
		return config, err
	}
	if config, err = parseNetwork(args); err != nil {
		log("ignoring the network configuration of the command line, as Talos would: %v", err)
		return networkConfig{}, nil
	}
	return config, nil
}

// fromDiskArg is in the kernel command line of an installed system only.
const fromDiskArg = "talos.e2e.boot"

// readyTime is how long etcd and kubelet take to start, each.
const readyTime = 300 * time.Millisecond

// serve starts the emulated Talos node with what this machine's SMBIOS and its
// disk say.
func serve(ctx context.Context, args cmdline, disk *talosnode.Disk, out io.Writer, addresses []string) error {
	links, err := describeLinks()
	if err != nil {
		return err
	}
	devices, err := describeDevices()
	if err != nil {
		return err
	}
	node := talosnode.Config{
		Version:      args.first("talos.e2e.version", defaultVersion),
		UUID:         dmi("product_uuid"),
		Serial:       dmi("product_serial"),
		Manufacturer: dmi("sys_vendor"),
		Product:      dmi("product_name"),
		Links:        links,
		Devices:      devices,
		Cmdline:      strings.Join(args, " "),
		Disk:         disk,
		FromDisk:     args.first(fromDiskArg, "") == "disk",
		ReadyTime:    readyTime,
		Reboot:       func() { restart(out) },
		PowerOff:     powerOff,
		Log:          slog.New(slog.NewTextHandler(out, nil)),
	}
	source, mode := "the network", "maintenance"
	if node.FromDisk {
		node.Version, source = disk.State().Version, "the disk"
	}
	if disk.State().Configured() && len(addresses) > 0 {
		node.Address = addresses[0] // which the cluster knows it by
	}
	if _, err := talosnode.Start(ctx, node); err != nil {
		return fmt.Errorf("starting the maintenance API: %w", err)
	}
	if disk.State().Configured() { // unless the command line had it wiped
		mode = "configured"
	}
	say(out, "%s API of Talos %s listens at %s, UUID %s, booted from %s", mode, node.Version, strings.Join(addresses, " "), node.UUID, source)
	return nil
}

// say prints one line of progress, with a prefix that tests look for.
func say(out io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(out, "guest: "+format+"\r\n", args...)
}

// reap waits for orphans for ever, the duty of every process 1.
func reap() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGCHLD)
	for range signals {
		for {
			if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}

// restart is a warm reset.
func restart(out io.Writer) {
	say(out, "resets itself")
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART); err != nil {
		say(out, "FATAL: the reset: %v", err)
	}
}

// powerOff ends the machine: one that failed must look off, not hang.
func powerOff() {
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}
