package image

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
	"github.com/google/go-cmp/cmp"
)

func TestPackInitramfsHoldsInitAndModulesInOrder(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	modules := []module{{name: "failover", data: []byte("one")}, {name: "virtio_net", data: []byte("two")}}
	if err := packInitramfs(&packed, []byte("#!program"), modules); err != nil {
		t.Fatal(err)
	}
	plain, err := gzip.NewReader(&packed)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for archive := cpio.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		got[header.Name] = string(data)
		if header.Name == "init" && header.Mode.Perm() != 0o755 {
			t.Errorf("init has the mode %v, so the kernel cannot run it", header.Mode.Perm())
		}
	}
	want := map[string]string{
		"dev": "", "proc": "", "sys": "", "lib": "", "lib/modules": "",
		"init": "#!program", "lib/modules/00-failover.ko": "one", "lib/modules/01-virtio_net.ko": "two",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
}

// With the real kernel of the cache: each module comes after what it needs.
func TestResolveOrdersModulesOfTheRealKernel(t *testing.T) {
	t.Parallel()
	options := FromEnvironment(os.Getenv)
	kernel, err := findKernel(filepath.Join(options.Cache, "kernel"))
	if err != nil {
		if os.Getenv("E2E") == "required" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	modules, err := kernel.resolve(t.Context(), requiredModules, optionalModules)
	if err != nil {
		t.Fatal(err)
	}
	names := moduleNames(modules)
	for i, m := range modules {
		needs, err := dependencies(m.data)
		if err != nil {
			t.Fatal(err)
		}
		for _, need := range needs {
			if at := slices.Index(names, need); (at < 0 && !kernel.builtin[need]) || at >= i {
				t.Errorf("%s needs %s, which does not come before it in %v", m.name, need, names)
			}
		}
	}
	if _, err := kernel.resolve(t.Context(), []string{"no_such_module"}, nil); err == nil || !strings.Contains(err.Error(), "no_such_module") {
		t.Errorf("a missing required module: error = %v", err)
	}
	if _, err := kernel.resolve(t.Context(), nil, []string{"no_such_module"}); err != nil {
		t.Errorf("a missing optional module: %v", err)
	}
}

func TestModuleNamesIgnoreDashesAndCompression(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"kernel/drivers/net/virtio_net.ko":           "virtio_net",
		"/x/kernel/drivers/firmware/dmi-sysfs.ko.xz": "dmi_sysfs",
		"8021q.ko.zst": "8021q",
	} {
		if got := moduleName(file); got != want {
			t.Errorf("moduleName(%q) = %q, want %q", file, got, want)
		}
	}
}

func TestGivenFilesReplaceTheGuest(t *testing.T) {
	t.Parallel()
	source, target := t.TempDir(), t.TempDir()
	options := Options{Kernel: filepath.Join(source, "vmlinuz"), Initramfs: filepath.Join(source, "initramfs.xz")}
	for path, text := range map[string]string{options.Kernel: "kernel", options.Initramfs: "initramfs"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // a second build replaces the first
		image, err := Build(t.Context(), target, options)
		if err != nil {
			t.Fatal(err)
		}
		if !image.Replaced {
			t.Error("the image does not say that it was replaced")
		}
		for name, want := range map[string]string{KernelName: "kernel", InitramfsName: "initramfs"} {
			if got, err := os.ReadFile(filepath.Join(target, name)); err != nil || string(got) != want {
				t.Errorf("%s = %q, %v, want %q", name, got, err, want)
			}
		}
	}
	options.Initramfs = ""
	if _, err := Build(t.Context(), target, options); err == nil || !strings.Contains(err.Error(), "TALOS_INITRAMFS") {
		t.Errorf("only one file given: error = %v", err)
	}
}

func TestMissingKernelNamesTheScriptThatBringsIt(t *testing.T) {
	t.Parallel()
	empty := map[string]string{"XDG_CACHE_HOME": t.TempDir()}
	err := FromEnvironment(func(name string) string { return empty[name] }).Missing()
	if err == nil || !strings.Contains(err.Error(), "e2e/deps.sh") {
		t.Errorf("error = %v, want one that names e2e/deps.sh", err)
	}
}
