// Package disk makes small disk images that prove that a machine booted from
// its disk: they print Marker to the first serial port and then do nothing.
package disk

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Marker is what a machine prints that booted from such a disk.
const Marker = "DISKBOOT OK"

// size of a disk image in bytes: the smallest that FAT16 is happy with.
const size = 16 << 20

// bootSector is 16-bit code that prints the text at textOffset to the serial
// port 0x3f8. It does so several times, a timer tick apart: the BIOS may still
// be copying its own last words to the same port, letter by letter between ours.
// Then it halts, which costs the host nothing.
var bootSector = []byte{
	0x31, 0xc0, //              xor ax,ax
	0x8e, 0xd8, //              mov ds,ax
	0xfb,             //        sti
	0xfc,             //        cld
	0xb9, 0x08, 0x00, //        mov cx,8
	0xbe, 0x3e, 0x7c, // again: mov si,0x7c00+textOffset
	0xac,       //        next: lodsb
	0x84, 0xc0, //              test al,al
	0x74, 0x06, //              jz pause
	0xba, 0xf8, 0x03, //        mov dx,0x3f8
	0xee,       //              out dx,al
	0xeb, 0xf5, //              jmp next
	0xf4,       //       pause: hlt
	0xe2, 0xef, //              loop again
	0xf4,       //        stop: hlt
	0xeb, 0xfd, //              jmp stop
}

const (
	sectorSize = 512
	textOffset = 0x3e
)

// WriteBIOS writes a disk that a legacy BIOS boots.
func WriteBIOS(path string) error {
	if err := os.WriteFile(path, masterBootRecord(), 0o600); err != nil {
		return fmt.Errorf("writing the BIOS disk: %w", err)
	}
	if err := os.Truncate(path, size); err != nil {
		return fmt.Errorf("sizing the BIOS disk: %w", err)
	}
	return nil
}

func masterBootRecord() []byte {
	sector := make([]byte, sectorSize)
	copy(sector, bootSector)
	copy(sector[textOffset:], Marker+"\r\n\x00")
	sector[510], sector[511] = 0x55, 0xaa
	return sector
}

// WriteUEFI writes a disk that UEFI boots. It needs mkfs.vfat and mtools.
func WriteUEFI(ctx context.Context, path string) error {
	program := filepath.Join(filepath.Dir(path), filepath.Base(path)+".efi")
	if err := os.WriteFile(program, efiProgram(), 0o600); err != nil {
		return fmt.Errorf("writing the UEFI program: %w", err)
	}
	defer func() { _ = os.Remove(program) }()
	return writeESP(ctx, path, program, size)
}

// WriteSystem writes the image of a disk that holds an EFI program, such as a
// UKI, for UEFI to boot; its size is what that needs. It needs mkfs.vfat and mtools.
func WriteSystem(ctx context.Context, path, program string) error {
	info, err := os.Stat(program)
	if err != nil {
		return fmt.Errorf("making the UEFI disk %s: %w", path, err)
	}
	const room = 2 << 20 // for the file system's own tables
	return writeESP(ctx, path, program, max(size, (info.Size()+2*room)/room*room))
}

// writeESP puts a program where UEFI looks for a boot loader: by the default
// name on removable media (UEFI 2.10, 3.5.1.1).
func writeESP(ctx context.Context, path, program string, size int64) error {
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return fmt.Errorf("writing the UEFI disk: %w", err)
	}
	if err := os.Truncate(path, size); err != nil {
		return fmt.Errorf("sizing the UEFI disk: %w", err)
	}
	for _, command := range [][]string{
		{"mkfs.vfat", "-F", "16", path},
		{"mmd", "-i", path, "::/EFI", "::/EFI/BOOT"},
		{"mcopy", "-i", path, program, "::/EFI/BOOT/BOOTX64.EFI"},
	} {
		if err := run(ctx, command); err != nil {
			return fmt.Errorf("making the UEFI disk %s: %w", path, err)
		}
	}
	return nil
}

// WriteEmpty writes a disk with nothing on it, of a size in bytes.
func WriteEmpty(path string, size int64) error {
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return fmt.Errorf("writing the empty disk: %w", err)
	}
	if err := os.Truncate(path, size); err != nil {
		return fmt.Errorf("sizing the empty disk: %w", err)
	}
	return nil
}

func run(ctx context.Context, command []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s (run e2e/deps.sh if it is missing): %w: %s", command[0], err, strings.TrimSpace(string(text)))
	}
	return nil
}
