package image

import (
	"debug/pe"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A UKI holds kernel, initramfs and arguments where the stub looks for them, and
// the stub is what it was.
func TestAUKIHoldsItsPartsAsSections(t *testing.T) {
	t.Parallel()
	stub, err := FromEnvironment(os.Getenv).Stub()
	if err != nil {
		if os.Getenv("E2E") == "required" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir := t.TempDir()
	i := Image{Kernel: filepath.Join(dir, "kernel"), Initramfs: filepath.Join(dir, "initramfs")}
	parts := map[string]string{".linux": strings.Repeat("kernel", 1000), ".initrd": strings.Repeat("initramfs", 5000), ".cmdline": "console=ttyS0 quiet"}
	for path, text := range map[string]string{i.Kernel: parts[".linux"], i.Initramfs: parts[".initrd"]} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "uki.efi")
	if err := i.WriteUKI(stub, path, parts[".cmdline"]); err != nil {
		t.Fatal(err)
	}
	before, err := pe.Open(stub)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = before.Close() }()
	after, err := pe.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = after.Close() }()
	for _, s := range before.Sections {
		old, _ := s.Data()
		same, err := after.Section(s.Name).Data()
		if err != nil || string(old) != string(same) || after.Section(s.Name).VirtualAddress != s.VirtualAddress {
			t.Errorf("%s of the stub changed (%v)", s.Name, err)
		}
	}
	end := uint32(0)
	for _, s := range after.Sections {
		if s.VirtualAddress < end {
			t.Errorf("%s begins at %#x, inside of the section before it", s.Name, s.VirtualAddress)
		}
		end = s.VirtualAddress + s.VirtualSize
		if want, ours := parts[s.Name]; ours {
			data, err := s.Data()
			if err != nil || string(data[:s.VirtualSize]) != want {
				t.Errorf("%s does not hold what it should (%v)", s.Name, err)
			}
			delete(parts, s.Name)
		}
	}
	if size := after.OptionalHeader.(*pe.OptionalHeader64).SizeOfImage; size < end || len(parts) > 0 {
		t.Errorf("the image has %#x bytes in memory and its sections %#x; not in it: %v", size, end, parts)
	}
}

func TestWhatIsNoEFIProgramMakesNoUKI(t *testing.T) {
	t.Parallel()
	for name, program := range map[string]string{
		"nothing": "", "text": strings.Repeat("x", 4096), "an offset beyond it": strings.Repeat("\xff", 4096), "zeros": strings.Repeat("\x00", 4096),
	} {
		if _, err := addSections([]byte(program), []peSection{{".linux", nil}}); err == nil {
			t.Errorf("%s became a UKI", name)
		}
	}
}
