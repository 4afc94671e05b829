package httpboot

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// binaries is the closed table of iPXE binaries: the name that a firmware asks
// for, and the files that may serve it, best first. Debian, tinkerbell and
// upstream name the same builds differently.
var binaries = map[string][]string{
	"undionly.kpxe":     {"undionly.kpxe"},
	"ipxe.pxe":          {"ipxe.pxe"},
	"snponly.efi":       {"snponly.efi", "snp.efi"},
	"snp.efi":           {"snp.efi", "snponly.efi"},
	"ipxe.efi":          {"ipxe.efi", "ipxe-amd64.efi"},
	"ipxe-amd64.efi":    {"ipxe-amd64.efi", "ipxe.efi"},
	"ipxe-arm64.efi":    {"ipxe-arm64.efi"},
	"snponly-arm64.efi": {"snponly-arm64.efi", "snp-arm64.efi", "ipxe-arm64.efi"},
	"snp-arm64.efi":     {"snp-arm64.efi", "snponly-arm64.efi", "ipxe-arm64.efi"},
}

// Binaries lists the names of iPXE binaries that are served, sorted.
func Binaries() []string {
	names := make([]string, 0, len(binaries))
	for name := range binaries {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// binaryName finds the table's name in a request's path, in any directory (some
// tools put a MAC in between) and in any case, or "".
func binaryName(urlPath string) string {
	name := strings.ToLower(path.Base(strings.ReplaceAll(urlPath, `\`, "/")))
	if _, ok := binaries[name]; !ok {
		return ""
	}
	return name
}

// openBinary opens the best file for a name of the table.
func openBinary(dir, name string) (*os.File, error) {
	err := fs.ErrNotExist
	for _, file := range binaries[name] {
		f, openErr := os.Open(filepath.Join(dir, file))
		if openErr == nil {
			return f, nil
		}
		if !errors.Is(openErr, fs.ErrNotExist) {
			err = openErr
		}
	}
	return nil, err
}
