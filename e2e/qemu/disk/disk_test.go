package disk

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/talos-provision/provision/e2e/needs"
)

func TestBootSectorIsOneThatABIOSBoots(t *testing.T) {
	t.Parallel()
	sector := masterBootRecord()
	if len(sector) != 512 || sector[510] != 0x55 || sector[511] != 0xaa {
		t.Errorf("%d bytes ending in % x, want 512 ending in 55 aa", len(sector), sector[len(sector)-2:])
	}
	if len(bootSector) > textOffset {
		t.Errorf("the code of %d bytes runs into its text at %d", len(bootSector), textOffset)
	}
}

func TestEFIProgramIsAValidImage(t *testing.T) {
	t.Parallel()
	file, err := pe.NewFile(bytes.NewReader(efiProgram()))
	if err != nil {
		t.Fatal(err)
	}
	header, ok := file.OptionalHeader.(*pe.OptionalHeader64)
	if !ok || file.Machine != pe.IMAGE_FILE_MACHINE_AMD64 || header.Subsystem != pe.IMAGE_SUBSYSTEM_EFI_APPLICATION {
		t.Fatalf("machine %#x, optional header %T %+v: not an EFI application for x86-64", file.Machine, file.OptionalHeader, header)
	}
	code := file.Section(".text")
	if code == nil || code.VirtualAddress != header.AddressOfEntryPoint {
		t.Fatalf("the entry point %#x is not at the start of the code %+v", header.AddressOfEntryPoint, code)
	}
	data, err := code.Data()
	if err != nil {
		t.Fatal(err)
	}
	// The first instruction loads the address of the text, relative to the second.
	text := 7 + binary.LittleEndian.Uint32(data[3:])
	if !strings.HasPrefix(string(data[text:]), Marker) {
		t.Errorf("the code prints %q", data[text:text+16])
	}
}

func TestUEFIDiskHoldsTheDefaultLoader(t *testing.T) {
	t.Parallel()
	needs.Program(t, "mcopy")
	path := filepath.Join(t.TempDir(), "disk.img")
	if err := WriteUEFI(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	got, err := exec.CommandContext(t.Context(), "mtype", "-i", path, "::/EFI/BOOT/BOOTX64.EFI").Output()
	if err != nil || !bytes.Equal(got, efiProgram()) {
		t.Errorf("the disk holds %d bytes as its loader (%v), want the program of %d", len(got), err, len(efiProgram()))
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.efi")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != size {
		t.Errorf("size %v, %v", info, err)
	}
}

func TestSystemDiskHasRoomForALargeProgram(t *testing.T) {
	t.Parallel()
	needs.Program(t, "mcopy")
	dir := t.TempDir()
	program, path := filepath.Join(dir, "program.efi"), filepath.Join(dir, "disk.img")
	want := bytes.Repeat([]byte("large "), 5<<20)
	if err := os.WriteFile(program, want, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteSystem(t.Context(), path, program); err != nil {
		t.Fatal(err)
	}
	got, err := exec.CommandContext(t.Context(), "mtype", "-i", path, "::/EFI/BOOT/BOOTX64.EFI").Output()
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the disk holds %d bytes as its loader (%v), want the program of %d", len(got), err, len(want))
	}
}
