package bootfile_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/talos-provision/provision/pxe/bootfile"
)

func TestEveryNameIsServedByItsOwnFileFirst(t *testing.T) {
	t.Parallel()
	if len(bootfile.Names()) < 9 {
		t.Errorf("only %v", bootfile.Names())
	}
	for _, name := range bootfile.Names() {
		served := bootfile.Files(name)
		if !bootfile.Known(name) || len(served) == 0 || served[0] != name {
			t.Errorf("%s is served by %v", name, served)
		}
		for _, file := range served {
			// A machine must not get another processor's binary, nor one for the other firmware.
			if path.Ext(file) != path.Ext(name) || strings.Contains(file, "arm64") != strings.Contains(name, "arm64") {
				t.Errorf("%s may be served by %s", name, file)
			}
			if file != path.Base(file) || file != strings.ToLower(file) || !bootfile.Known(file) {
				t.Errorf("%s is no plain name of the table", file)
			}
		}
	}
	for _, name := range []string{bootfile.Undionly, bootfile.SNPOnly, bootfile.ARM64} {
		if !slices.Contains(bootfile.Names(), name) {
			t.Errorf("DHCP names %s, which is not served", name)
		}
	}
}

func TestWhatIsNotInTheTableDoesNotExist(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "passwd", "SNPONLY.EFI", "../snponly.efi", bootfile.Autoexec} {
		if bootfile.Known(name) || len(bootfile.Files(name)) > 0 {
			t.Errorf("%q is known", name)
		}
	}
}

// What a caller does to a list is its own business.
func TestTheTableCannotBeChanged(t *testing.T) {
	t.Parallel()
	bootfile.Files(bootfile.SNPOnly)[0] = "evil.efi"
	if got := bootfile.Files(bootfile.SNPOnly)[0]; got != bootfile.SNPOnly {
		t.Errorf("it is %s now", got)
	}
}
