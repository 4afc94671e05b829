package image

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// requiredModules are the drivers without which the guest has no network or no disk.
var requiredModules = []string{"virtio_pci", "virtio_net", "8021q", "af_packet", "virtio_blk"}

// optionalModules are taken when the kernel has them: other NICs that QEMU
// offers, and a source of randomness.
var optionalModules = []string{"e1000", "e1000e", "virtio_rng"}

// kernel is an unpacked kernel package.
type kernel struct {
	// vmlinuz is the path of the boot image.
	vmlinuz string
	// files maps a module's name to its file.
	files map[string]string
	// builtin holds the modules that are part of the boot image.
	builtin map[string]bool
}

// module is a kernel module as the guest loads it, not compressed.
type module struct {
	name string
	data []byte
}

// findKernel looks into an unpacked Debian package; newer ones have their
// modules below usr/.
func findKernel(dir string) (kernel, error) {
	images, err := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil {
		return kernel{}, fmt.Errorf("looking for a kernel in %s: %w", dir, err)
	}
	for _, image := range slices.Backward(images) {
		version := strings.TrimPrefix(filepath.Base(image), "vmlinuz-")
		for _, below := range []string{"lib", "usr/lib"} {
			modules := filepath.Join(dir, below, "modules", version)
			if _, err := os.Stat(filepath.Join(modules, "kernel")); err != nil {
				continue
			}
			k := kernel{vmlinuz: image}
			return k, k.index(modules)
		}
	}
	return kernel{}, fmt.Errorf("no kernel with modules in %s: run e2e/deps.sh", dir)
}

// index lists the modules. There is no modules.dep to read: depmod makes it
// when a kernel is installed, and this one is only unpacked.
func (k *kernel) index(dir string) error {
	k.files, k.builtin = map[string]string{}, map[string]bool{}
	list, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return fmt.Errorf("reading the list of built-in modules: %w", err)
	}
	for _, file := range strings.Fields(string(list)) {
		k.builtin[moduleName(file)] = true
	}
	return filepath.WalkDir(filepath.Join(dir, "kernel"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("listing kernel modules: %w", err)
		}
		if !entry.IsDir() && strings.Contains(entry.Name(), ".ko") {
			k.files[moduleName(path)] = path
		}
		return nil
	})
}

// moduleName is what the kernel calls a module file: - and _ are the same.
func moduleName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

func moduleNames(modules []module) []string {
	names := make([]string, 0, len(modules))
	for _, m := range modules {
		names = append(names, m.name)
	}
	return names
}

var errNoModule = errors.New("the kernel has no such module")

// resolve returns the modules with everything they depend on, in loading order.
func (k kernel) resolve(ctx context.Context, required, optional []string) ([]module, error) {
	var order []module
	done := map[string]bool{}
	for _, name := range required {
		if err := k.add(ctx, name, done, &order); err != nil {
			return nil, err
		}
	}
	for _, name := range optional {
		if err := k.add(ctx, name, done, &order); err != nil && !errors.Is(err, errNoModule) {
			return nil, err
		}
	}
	return order, nil
}

func (k kernel) add(ctx context.Context, name string, done map[string]bool, order *[]module) error {
	if done[name] || k.builtin[name] {
		return nil
	}
	done[name] = true
	file, ok := k.files[name]
	if !ok {
		return fmt.Errorf("kernel module %s for %s: %w", name, k.vmlinuz, errNoModule)
	}
	data, err := readModule(ctx, file)
	if err != nil {
		return err
	}
	needs, err := dependencies(data)
	if err != nil {
		return fmt.Errorf("reading what the kernel module %s depends on: %w", file, err)
	}
	for _, need := range needs {
		if err := k.add(ctx, need, done, order); err != nil {
			return err
		}
	}
	*order = append(*order, module{name: name, data: data})
	return nil
}

// decompressors tells by the end of the name which program writes the plain module.
var decompressors = map[string]string{".xz": "xz", ".zst": "zstd", ".gz": "gzip"}

func readModule(ctx context.Context, file string) ([]byte, error) {
	program, compressed := decompressors[filepath.Ext(file)]
	if !compressed {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading kernel module: %w", err)
		}
		return data, nil
	}
	data, err := exec.CommandContext(ctx, program, "-dc", file).Output()
	if err != nil {
		return nil, fmt.Errorf("decompressing the kernel module %s with %s (is it installed?): %w", file, program, err)
	}
	return data, nil
}

// dependencies reads "depends=a,b" from the .modinfo section of a module.
func dependencies(data []byte) ([]string, error) {
	file, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	section := file.Section(".modinfo")
	if section == nil {
		return nil, errors.New("it has no .modinfo section")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(string(info), "\x00") {
		if list, ok := strings.CutPrefix(line, "depends="); ok && list != "" {
			return strings.Split(strings.ReplaceAll(list, "-", "_"), ","), nil
		}
	}
	return nil, nil
}
