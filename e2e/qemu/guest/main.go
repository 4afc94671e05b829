// Command guest is the init of the virtual machines that stand in for Talos
// nodes: it takes its address from the kernel command line as Talos does and
// serves the maintenance API. It is packed into an initramfs by package image.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"

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
	config, err := parseNetwork(args)
	if err != nil {
		say(out, "ignoring the network configuration of the command line, as Talos would: %v", err)
		config = networkConfig{}
	}
	addresses, err := bringUp(ctx, config, func(format string, a ...any) { say(out, format, a...) })
	if err != nil {
		return err
	}
	if err := serve(ctx, args, out, addresses); err != nil {
		return err
	}
	reap()
	return nil
}

// serve starts the emulated Talos node with what this machine's SMBIOS says.
func serve(ctx context.Context, args cmdline, out io.Writer, addresses []string) error {
	version := args.first("talos.e2e.version", defaultVersion)
	links, err := describeLinks()
	if err != nil {
		return err
	}
	node := talosnode.Config{
		Version:      version,
		UUID:         dmi("product_uuid"),
		Serial:       dmi("product_serial"),
		Manufacturer: dmi("sys_vendor"),
		Product:      dmi("product_name"),
		Links:        links,
		Cmdline:      strings.Join(args, " "),
		Log:          slog.New(slog.NewTextHandler(out, nil)),
	}
	if _, err := talosnode.Start(ctx, node); err != nil {
		return fmt.Errorf("starting the maintenance API: %w", err)
	}
	say(out, "maintenance API of Talos %s listens at %s, UUID %s", version, strings.Join(addresses, " "), node.UUID)
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

// powerOff ends the machine: one that failed must look off, not hang.
func powerOff() {
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}
