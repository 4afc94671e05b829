package machineconfig

import (
	"regexp"
	"strings"
)

// vanillaSchematic is the Image Factory's ID of an image without any customization.
const vanillaSchematic = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"

// installerImage is what the name of an installer's image tells. Names are those
// of the Image Factory, behind whatever mirror: PLATFORM-installer[-secureboot]/
// SCHEMATIC:VERSION; installer[-secureboot]/SCHEMATIC:VERSION is the older form,
// which it still serves; siderolabs/installer:VERSION is the one of each release,
// without extensions, which is published up to Talos 1.13.
type installerImage struct {
	platform   string // "metal"; "" in the older form
	secureBoot bool
	schematic  string // 64 hex digits; "" when the name has none
	tag        string
	release    bool // siderolabs/installer
}

var (
	installerName = regexp.MustCompile(`^(?:([a-z0-9]+)-)?installer(-secureboot)?$`)
	schematicName = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// parseImage reads an image's name; ok is false when it is not called as an
// installer is.
func parseImage(name string) (image installerImage, ok bool) {
	name, _, _ = strings.Cut(name, "@")
	slash := strings.LastIndexByte(name, '/')
	if colon := strings.LastIndexByte(name, ':'); colon > slash {
		image.tag = name[colon+1:]
		name = name[:colon]
	}
	parts := strings.Split(name, "/")
	if last := parts[len(parts)-1]; schematicName.MatchString(last) {
		image.schematic = last
		parts = parts[:len(parts)-1]
	}
	if len(parts) == 0 {
		return image, false
	}
	m := installerName.FindStringSubmatch(parts[len(parts)-1])
	if m == nil {
		return image, false
	}
	image.platform, image.secureBoot = m[1], m[2] != ""
	image.release = image.schematic == "" && image.platform == "" && len(parts) > 1 && parts[len(parts)-2] == "siderolabs"
	return image, true
}

// InstallerImage is the image that installs a version of Talos with a schematic
// from the public Image Factory. The platform is part of the name from Talos 1.10
// on, where the image's own kernel arguments say it.
func InstallerImage(talosVersion, schematic string, secureBoot bool) string {
	if schematic == "" {
		schematic = vanillaSchematic
	}
	name := "metal-installer"
	if v, ok := parseVersion(talosVersion); ok && v.less(version{1, 10, 0}) {
		name = "installer"
	}
	if secureBoot {
		name += "-secureboot"
	}
	return "factory.talos.dev/" + name + "/" + schematic + ":" + talosVersion
}
