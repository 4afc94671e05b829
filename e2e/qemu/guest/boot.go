package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// console opens the first serial port, whatever console= says: that is what
// the test reads. Go's own panics go there too.
func console() io.Writer {
	// The initramfs has no device nodes; devtmpfs does.
	_ = unix.Mount("devtmpfs", "/dev", "devtmpfs", 0, "")
	port, err := firstPort()
	if err != nil {
		return os.Stdout
	}
	_ = unix.Dup3(int(port.Fd()), 1, 0)
	_ = unix.Dup3(int(port.Fd()), 2, 0)
	return port
}

// firstPort opens the first serial port: it is called ttyS0 on a PC and ttyAMA0
// on QEMU's 64-bit ARM machine.
func firstPort() (port *os.File, err error) {
	for _, name := range []string{"/dev/ttyAMA0", "/dev/ttyS0"} {
		if port, err = os.OpenFile(name, os.O_WRONLY|unix.O_NOCTTY, 0); err == nil {
			return port, nil
		}
	}
	return nil, err
}

func mountAll() error {
	for _, fs := range []struct{ kind, target string }{
		{"proc", "/proc"},
		{"sysfs", "/sys"},
	} {
		if err := os.MkdirAll(fs.target, 0o755); err != nil {
			return fmt.Errorf("making the mount point %s: %w", fs.target, err)
		}
		if err := unix.Mount(fs.kind, fs.target, fs.kind, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mounting %s at %s: %w", fs.kind, fs.target, err)
		}
	}
	return nil
}

// loadModules loads every module of the folder in the order of the names, which
// the image builder numbered so that dependencies come first.
func loadModules(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.ko"))
	if err != nil {
		return fmt.Errorf("listing kernel modules in %s: %w", dir, err)
	}
	for _, file := range files {
		if err := loadModule(file); err != nil {
			return err
		}
	}
	return nil
}

func loadModule(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("opening kernel module: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("loading kernel module %s (is it of the running kernel?): %w", file, err)
	}
	return nil
}

// dmi reads one value that the kernel took from SMBIOS; empty when there is none.
func dmi(name string) string {
	data, err := os.ReadFile(filepath.Join("/sys/class/dmi/id", name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
