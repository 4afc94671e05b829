package pxe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/talos-provision/provision/pxe/bootfile"
)

// getIPXE says how to come by good binaries.
const getIPXE = "run `make deps`, or install Debian 13's package ipxe, and point ipxeDir at the folder"

// autoexecMarker is in the EFI binaries that load autoexec.ipxe by themselves,
// since 2022. Debian 12's build of 2019 does not, and would leave UEFI machines
// at an iPXE that asks nobody what to do. BIOS binaries are compressed and do
// not show it; they get their script by DHCP.
const autoexecMarker = "autoexec.ipxe"

// maxBinary bounds what is read of one binary, in bytes. Real ones are near 1 MB.
const maxBinary = 16 << 20

// CheckIPXEDir says whether dir holds the iPXE binaries that machines are given:
// snponly.efi (or snp.efi) for UEFI and undionly.kpxe for BIOS, and no EFI binary
// too old to load autoexec.ipxe. arm64 binaries are checked when present.
func CheckIPXEDir(dir string) error {
	if dir == "" {
		return fmt.Errorf("check the iPXE binaries: no folder is configured; %s", getIPXE)
	}
	if err := checkNeeded(dir); err != nil {
		return fmt.Errorf("check the iPXE binaries in %s: %w; %s", dir, err, getIPXE)
	}
	var old []string
	for _, name := range bootfile.Names() {
		if !strings.HasSuffix(name, ".efi") {
			continue
		}
		good, err := hasMarker(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("check the iPXE binaries in %s: %w; %s", dir, err, getIPXE)
		case !good:
			old = append(old, name)
		}
	}
	if len(old) > 0 {
		return fmt.Errorf("check the iPXE binaries in %s: %s: too old to load autoexec.ipxe (an iPXE of before 2022, such as Debian 12's); %s", dir, strings.Join(old, ", "), getIPXE)
	}
	return nil
}

// needed lists what must be there, each with its other name.
func needed() [][]string {
	return [][]string{bootfile.Files(bootfile.SNPOnly), {bootfile.Undionly}}
}

func checkNeeded(dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return err
	}
	for _, names := range needed() {
		found := false
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				found = true
			}
		}
		if !found {
			return fmt.Errorf("%s is missing", names[0])
		}
	}
	return nil
}

func hasMarker(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, maxBinary))
	if err != nil {
		return false, err
	}
	return bytes.Contains(content, []byte(autoexecMarker)), nil
}
