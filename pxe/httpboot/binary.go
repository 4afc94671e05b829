package httpboot

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/talos-provision/provision/pxe/bootfile"
)

// binaryName finds the table's name in a request's path, in any directory (some
// tools put a MAC in between) and in any case, or "".
func binaryName(urlPath string) string {
	name := strings.ToLower(path.Base(strings.ReplaceAll(urlPath, `\`, "/")))
	if !bootfile.Known(name) {
		return ""
	}
	return name
}

// openBinary opens the best file for a name of the table.
func openBinary(dir, name string) (*os.File, error) {
	err := fs.ErrNotExist
	for _, file := range bootfile.Files(name) {
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
