package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/talos-provision/provision/pxe"
	"github.com/talos-provision/provision/pxe/bootfile"
)

// Room in bytes. Kernel and initramfs of one version take about 150 MB.
const (
	littleRoom = 2 << 30
	noRoom     = 512 << 20
	stateRoom  = 64 << 20
)

func checkIPXE(_ context.Context, h *host) []Finding {
	if h.IPXEDir == "" {
		return nil
	}
	const hint = "install Debian 13's package ipxe, or copy its files, and let ipxeDir point at the folder"
	if err := pxe.CheckIPXEDir(h.IPXEDir); err != nil {
		return []Finding{fail(h.IPXEDir, err.Error(), hint)}
	}
	found := []Finding{ok(h.IPXEDir, "the iPXE binaries are there and recent")}
	// The folder check does not insist on it.
	if slices.Contains(h.Archs, "arm64") {
		if _, err := os.Stat(filepath.Join(h.IPXEDir, bootfile.ARM64)); err != nil {
			found = append(found, fail(h.IPXEDir, "the inventory has arm64 nodes, and "+bootfile.ARM64+" is missing", hint))
		}
	}
	return found
}

func checkCache(_ context.Context, h *host) []Finding {
	if h.Cache == "" {
		return nil
	}
	return []Finding{room(h.Cache, noRoom, littleRoom, "assets.cache")}
}

func checkState(_ context.Context, h *host) []Finding {
	if h.State == "" {
		return nil
	}
	return []Finding{room(h.State, stateRoom, stateRoom, "state")}
}

// room says whether a folder, which may not be there yet, can be written to and
// how much space it has.
func room(dir string, least, little uint64, setting string) Finding {
	existing, err := nearest(dir)
	if err != nil {
		return fail(dir, err.Error(), "choose another folder with "+setting)
	}
	if err := unix.Access(existing, unix.W_OK|unix.X_OK); err != nil {
		return fail(dir, fmt.Sprintf("%s cannot be written to: %v", existing, err), "run as root, change the owner of the folder, or choose another with "+setting)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(existing, &disk); err != nil {
		return fail(dir, fmt.Sprintf("read the free space of %s: %v", existing, err), "choose another folder with "+setting)
	}
	free := disk.Bavail * uint64(disk.Bsize) //nolint:gosec // a block size is not negative
	message := fmt.Sprintf("%s free", bytesText(free))
	switch {
	case free < least:
		return fail(dir, message, "make room, or choose another folder with "+setting)
	case free < little:
		return warn(dir, message+"; one version of Talos takes about 150 MB", "make room, or choose another folder with "+setting)
	}
	return ok(dir, message)
}

// nearest is the folder, or the first one above it that is there.
func nearest(dir string) (string, error) {
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		switch {
		case err == nil && info.IsDir():
			return at, nil
		case err == nil:
			return "", fmt.Errorf("%s is a file, not a folder", at)
		case !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at):
			return "", err
		}
	}
}

func bytesText(n uint64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
