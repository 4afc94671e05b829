package image

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// UKIName is the Image Factory's file name of the signed UKI for amd64.
const UKIName = "metal-amd64-secureboot-uki.efi"

// stubName is where Debian's package systemd-boot-efi has its EFI program for UKIs.
const stubName = "usr/lib/systemd/boot/efi/linuxx64.efi.stub"

// Stub is the EFI program that a UKI of this machine is made with: that of the
// cache, or the installed one.
func (o Options) Stub() (string, error) {
	for _, path := range []string{filepath.Join(o.Cache, "systemd-boot", stubName), "/" + stubName} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New("the EFI stub of systemd is missing: run e2e/deps.sh")
}

// WriteUKI makes one EFI program of the image: kernel, initramfs and kernel
// arguments as sections of the stub (UAPI group specification UKI). It is not
// signed: see Sign.
func (i Image) WriteUKI(stub, path, cmdline string) error {
	program, err := os.ReadFile(stub)
	if err != nil {
		return fmt.Errorf("make a UKI: %w", err)
	}
	kernel, err := os.ReadFile(i.Kernel)
	if err != nil {
		return fmt.Errorf("make a UKI: %w", err)
	}
	initramfs, err := os.ReadFile(i.Initramfs)
	if err != nil {
		return fmt.Errorf("make a UKI: %w", err)
	}
	uki, err := addSections(program, []peSection{
		{".osrel", []byte("ID=guest\nPRETTY_NAME=\"test guest\"\n")}, {".cmdline", []byte(cmdline)}, {".linux", kernel}, {".initrd", initramfs},
	})
	if err != nil {
		return fmt.Errorf("make a UKI of %s: %w", stub, err)
	}
	if err := os.WriteFile(path, uki, 0o600); err != nil {
		return fmt.Errorf("make a UKI: %w", err)
	}
	return nil
}

// Sign signs an EFI program in place, with a key whose passphrase is given, as
// Secure Boot wants it (Authenticode).
func (o Options) Sign(ctx context.Context, program, key, certificate, passphrase string) error {
	sbsign := filepath.Join(o.Cache, "sbsigntool", "usr/bin/sbsign")
	if _, err := os.Stat(sbsign); err != nil {
		sbsign = "sbsign"
	}
	plain := program + ".key"
	defer func() { _ = os.Remove(plain) }()
	for _, command := range [][]string{
		{"openssl", "pkey", "-in", key, "-passin", "pass:" + passphrase, "-out", plain}, // sbsign would ask a person
		{sbsign, "--key", plain, "--cert", certificate, "--output", program, program},
	} {
		if text, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("sign %s by %s (run e2e/deps.sh): %w: %s", program, command[0], err, strings.TrimSpace(string(text)))
		}
	}
	return nil
}

// peSection is a section of an EFI program; its name has 8 bytes at most.
type peSection struct {
	name string
	data []byte
}

// Offsets in a PE32+ file (Microsoft, PE format). The optional header follows
// the 4 bytes of the signature and the 20 of the file header.
const (
	peOffset          = 0x3c // of the signature
	sectionCount      = 4 + 2
	symbolTable       = 4 + 8 // and the number of symbols
	optionalSize      = 4 + 16
	optionalHeader    = 4 + 20
	sectionAlignment  = optionalHeader + 32
	fileAlignment     = optionalHeader + 36
	imageSize         = optionalHeader + 56
	headersSize       = optionalHeader + 60
	checksum          = optionalHeader + 64
	leastOptional     = 72
	sectionHeaderSize = 40
	readableData      = 0x40000040
)

var errNoPE = errors.New("it is no PE32+ program")

// addSections appends sections to a program, with their headers in the free room
// before its first section.
func addSections(program []byte, sections []peSection) ([]byte, error) {
	le := binary.LittleEndian
	if len(program) < peOffset+4 {
		return nil, errNoPE
	}
	pe := int(le.Uint32(program[peOffset:]))
	if pe < 0 || len(program) < pe+optionalHeader+leastOptional || string(program[pe:pe+4]) != "PE\x00\x00" || le.Uint16(program[pe+optionalHeader:]) != 0x20b {
		return nil, errNoPE
	}
	out := append([]byte(nil), program...)
	count := int(le.Uint16(out[pe+sectionCount:]))
	table := pe + optionalHeader + int(le.Uint16(out[pe+optionalSize:]))
	free := table + count*sectionHeaderSize
	if room := int(le.Uint32(out[pe+headersSize:])) - free; room < len(sections)*sectionHeaderSize || len(out) < free+room {
		return nil, fmt.Errorf("its headers have %d bytes of room, and %d sections need %d", room, len(sections), len(sections)*sectionHeaderSize)
	}
	// Symbols lie behind the sections: a signature wants no gap there.
	end := 0
	for at := table; at < free; at += sectionHeaderSize {
		end = max(end, int(le.Uint32(out[at+16:]))+int(le.Uint32(out[at+20:])))
	}
	if end < free || end > len(out) {
		return nil, errNoPE
	}
	out = out[:end]
	le.PutUint64(out[pe+symbolTable:], 0)
	const page = 0x1000 // as the stub expects, whatever the alignment of the program
	inFile, inMemory := le.Uint32(out[pe+fileAlignment:]), max(page, le.Uint32(out[pe+sectionAlignment:]))
	address := align(le.Uint32(out[pe+imageSize:]), inMemory)
	for _, s := range sections {
		out = append(out, make([]byte, align(uint32(len(out)), inFile)-uint32(len(out)))...)
		header := out[free : free+sectionHeaderSize]
		copy(header, make([]byte, sectionHeaderSize))
		copy(header[:8], s.name)
		le.PutUint32(header[8:], uint32(len(s.data)))
		le.PutUint32(header[12:], address)
		le.PutUint32(header[16:], align(uint32(len(s.data)), inFile))
		le.PutUint32(header[20:], uint32(len(out)))
		le.PutUint32(header[36:], readableData)
		out = append(out, s.data...)
		address = align(address+uint32(len(s.data)), inMemory)
		free += sectionHeaderSize
	}
	out = append(out, make([]byte, align(uint32(len(out)), inFile)-uint32(len(out)))...)
	le.PutUint16(out[pe+sectionCount:], uint16(count+len(sections)))
	le.PutUint32(out[pe+imageSize:], address)
	le.PutUint32(out[pe+checksum:], 0) // which firmware does not look at
	return out, nil
}

func align(n, to uint32) uint32 { return (n + to - 1) / to * to }
