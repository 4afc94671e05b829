package tftp

import (
	"net"
	"path"
	"slices"
	"strings"

	"github.com/talos-provision/provision/pxe/bootfile"
)

// cleanName brings a requested name into the form of the table, without
// leading slash and in lower case. It reports false for names that leave the
// root. Firmware sends backslashes (ipxe PR#31), and ROMs that read DHCP option
// 67 as a C string append the bytes of the next option (netboot.xyz#1198).
func cleanName(requested string) (string, bool) {
	if end := strings.IndexFunc(requested, unprintable); end >= 0 {
		requested = requested[:end]
	}
	name := strings.ToLower(strings.ReplaceAll(requested, `\`, "/"))
	name = path.Clean(strings.TrimLeft(name, "/"))
	if name == "." || name == ".." || strings.HasPrefix(name, "../") {
		return "", false
	}
	return name, true
}

// unprintable reports what is no printable ASCII; a byte that is not UTF-8
// arrives as the replacement rune and so is none either.
func unprintable(r rune) bool { return r < ' ' || r > '~' }

// resolve finds the table's name for a requested one: autoexec.ipxe in any
// folder; a binary in the root or in a folder named after the client's MAC
// (smee#537); exactly, else by the longest name that the request begins with.
func resolve(requested string) (string, bool) {
	name, ok := cleanName(requested)
	if !ok {
		return "", false
	}
	folder, base := path.Split(name)
	if base == bootfile.Autoexec {
		return bootfile.Autoexec, true
	}
	if folder != "" {
		if _, err := net.ParseMAC(strings.TrimSuffix(folder, "/")); err != nil {
			return "", false
		}
	}
	if bootfile.Known(base) {
		return base, true
	}
	known := bootfile.Names()
	slices.SortFunc(known, func(a, b string) int { return len(b) - len(a) })
	for _, candidate := range known {
		if strings.HasPrefix(base, candidate) {
			return candidate, true
		}
	}
	return "", false
}

// printable cuts a text that came from the network at the first byte that may
// not reach a log.
func printable(text string) string {
	if end := strings.IndexFunc(text, unprintable); end >= 0 {
		text = text[:end]
	}
	const longest = 128
	return text[:min(len(text), longest)]
}
