// Package image builds the guest of the virtual machines: a distribution's
// kernel and an initramfs with a static Go init, named as the Talos Image
// Factory names them, so that the boot services serve them as the real ones.
package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The file names of the Talos Image Factory for amd64. The kernel recognises a
// compressed initramfs by its content, so the name need not tell the truth.
const (
	KernelName    = "kernel-amd64"
	InitramfsName = "initramfs-amd64.xz"
)

// The architectures of guests.
const (
	AMD64 = "amd64"
	ARM64 = "arm64"
)

// initPackage is the guest's init.
const initPackage = "github.com/talos-provision/provision/e2e/qemu/guest"

// Options says what to build from.
type Options struct {
	// Cache is the folder that e2e/deps.sh fills: kernel/ holds an unpacked Debian kernel package,
	// kernel-arm64/ one for that architecture.
	Cache string
	// Arch is AMD64 (also when empty) or ARM64.
	Arch string
	// Kernel and Initramfs, when set, are used as they are (the real Talos files, for example).
	Kernel, Initramfs string
	// Log may be nil.
	Log *slog.Logger
}

// Image is a kernel with its initramfs.
type Image struct {
	// Kernel and Initramfs are the paths of the two files.
	Kernel, Initramfs string
	// Replaced tells that the files were given, so that the guest may be anything.
	Replaced bool
}

// FromEnvironment reads TALOS_KERNEL, TALOS_INITRAMFS and the cache folder
// (XDG_CACHE_HOME or HOME, as e2e/deps.sh does).
func FromEnvironment(getenv func(string) string) Options {
	cache := getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(getenv("HOME"), ".cache")
	}
	return Options{
		Cache:     filepath.Join(cache, "talos-provision"),
		Kernel:    getenv("TALOS_KERNEL"),
		Initramfs: getenv("TALOS_INITRAMFS"),
	}
}

// IPXEDir is where e2e/deps.sh puts the iPXE binaries.
func (o Options) IPXEDir() string { return filepath.Join(o.Cache, "ipxe") }

// Missing tells why no image can be built here; nil when one can.
func (o Options) Missing() error {
	if err := o.check(); err != nil || o.Kernel != "" {
		return err
	}
	_, err := findKernel(o.kernelDir())
	return err
}

func (o Options) arch() string { return cmp.Or(o.Arch, AMD64) }

func (o Options) kernelDir() string {
	if o.arch() == AMD64 {
		return filepath.Join(o.Cache, "kernel")
	}
	return filepath.Join(o.Cache, "kernel-"+o.arch())
}

func (o Options) check() error {
	if (o.Kernel == "") != (o.Initramfs == "") {
		return errors.New("only one of TALOS_KERNEL and TALOS_INITRAMFS is set: set both or none")
	}
	return nil
}

// Build puts kernel-ARCH and initramfs-ARCH.xz into dir. It compiles the
// guest's init, so it must run inside the module (as a test does).
func Build(ctx context.Context, dir string, o Options) (Image, error) {
	if err := o.check(); err != nil {
		return Image{}, err
	}
	image := Image{
		Kernel:    filepath.Join(dir, "kernel-"+o.arch()),
		Initramfs: filepath.Join(dir, "initramfs-"+o.arch()+".xz"),
		Replaced:  o.Kernel != "",
	}
	if image.Replaced {
		return image, errors.Join(place(o.Kernel, image.Kernel), place(o.Initramfs, image.Initramfs))
	}
	kernel, err := findKernel(o.kernelDir())
	if err != nil {
		return Image{}, err
	}
	modules, err := kernel.resolve(ctx, requiredModules, optionalModules)
	if err != nil {
		return Image{}, err
	}
	program, err := buildInit(ctx, dir, o.arch())
	if err != nil {
		return Image{}, err
	}
	if err := writeInitramfs(image.Initramfs, program, modules); err != nil {
		return Image{}, err
	}
	if o.Log != nil {
		o.Log.Info("guest image built", "kernel", kernel.vmlinuz, "modules", moduleNames(modules), "init", len(program))
	}
	return image, place(kernel.vmlinuz, image.Kernel)
}

// buildInit compiles the init. The result does not depend on how this program
// itself was built: a race detector or cgo would need a C library in the guest.
func buildInit(ctx context.Context, dir, arch string) ([]byte, error) {
	output := filepath.Join(dir, "init")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", output, initPackage)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOFLAGS=")
	if text, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compiling the guest's init: %w: %s", err, strings.TrimSpace(string(text)))
	}
	defer func() { _ = os.Remove(output) }()
	program, err := os.ReadFile(output)
	if err != nil {
		return nil, fmt.Errorf("reading the guest's init: %w", err)
	}
	return program, nil
}

// place links a file under a new name, or copies it to another file system.
func place(source, target string) error {
	if err := os.Remove(target); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("replacing %s: %w", target, err)
	}
	if resolved, err := filepath.EvalSymlinks(source); err == nil && os.Link(resolved, target) == nil {
		return nil
	}
	in, err := os.Open(source)
	if err != nil {
		return fmt.Errorf("opening the guest's file: %w", err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.Create(target)
	if err != nil {
		return fmt.Errorf("copying %s: %w", source, err)
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close()
		return fmt.Errorf("copying %s to %s: %w", source, target, err)
	}
	return out.Close()
}
