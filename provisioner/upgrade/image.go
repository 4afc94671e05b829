package upgrade

import (
	"fmt"
	"regexp"
	"strings"
)

// DefaultRegistry is where the public Image Factory serves installers.
const DefaultRegistry = "factory.talos.dev"

// Image is the name of an installer's image:
// REGISTRY/PLATFORM-installer[-secureboot]/SCHEMATIC:TAG[@DIGEST]. The form
// REGISTRY/installer[-secureboot]/SCHEMATIC:TAG is the older one, which the Image
// Factory still serves; REGISTRY/siderolabs/installer:TAG is that of a release
// without a schematic, which is published up to Talos 1.13.
type Image struct {
	// Registry is the host, with port and leading folders where a mirror has them.
	Registry string
	// Platform is "metal"; "" in the older form.
	Platform   string
	SecureBoot bool
	// Schematic is 64 hex digits; "" in a release's own image.
	Schematic string
	Tag       string
	// Digest is like sha256:…; "" when the name has none.
	Digest string
}

var (
	installerPattern = regexp.MustCompile(`^(?:([a-z0-9]+)-)?installer(-secureboot)?$`)
	schematicPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)
	digestPattern    = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// ParseImage reads the name of an installer's image.
func ParseImage(name string) (Image, error) {
	var image Image
	rest, digest, pinned := strings.Cut(name, "@")
	if pinned && !digestPattern.MatchString(digest) {
		return Image{}, fmt.Errorf("installer image %q: its digest is not sha256: and 64 hex digits", name)
	}
	image.Digest = digest
	if colon := strings.LastIndexByte(rest, ':'); colon > strings.LastIndexByte(rest, '/') {
		rest, image.Tag = rest[:colon], rest[colon+1:]
	}
	parts := strings.Split(rest, "/")
	if last := len(parts) - 1; schematicPattern.MatchString(parts[last]) {
		image.Schematic, parts = parts[last], parts[:last]
	}
	last := len(parts) - 1
	if last < 1 {
		return Image{}, fmt.Errorf("installer image %q: write it like %s/metal-installer/SCHEMATIC:v1.13.9", name, DefaultRegistry)
	}
	m := installerPattern.FindStringSubmatch(parts[last])
	if m == nil {
		return Image{}, fmt.Errorf("installer image %q is not called as an installer is; write it like %s/metal-installer/SCHEMATIC:v1.13.9", name, DefaultRegistry)
	}
	image.Platform, image.SecureBoot = m[1], m[2] != ""
	image.Registry = strings.Join(parts[:last], "/")
	return image, nil
}

// String is the image's name.
func (i Image) String() string {
	var b strings.Builder
	b.WriteString(i.Registry + "/")
	if i.Platform != "" {
		b.WriteString(i.Platform + "-")
	}
	b.WriteString("installer")
	if i.SecureBoot {
		b.WriteString("-secureboot")
	}
	if i.Schematic != "" {
		b.WriteString("/" + i.Schematic)
	}
	if i.Tag != "" {
		b.WriteString(":" + i.Tag)
	}
	if i.Digest != "" {
		b.WriteString("@" + i.Digest)
	}
	return b.String()
}

// firstPlatform is the first version whose images carry their platform, and have it in their names.
var firstPlatform = Version{Major: 1, Minor: 10}

// lastRelease is the last minor version with an installer image of its own.
var lastRelease = Version{Major: 1, Minor: 13}

// factoryImage is the Image Factory's installer of a version.
func factoryImage(registry, schematic string, secureBoot bool, target Version) Image {
	image := Image{Registry: registry, SecureBoot: secureBoot, Schematic: schematic, Tag: target.String()}
	if core(target).Compare(firstPlatform) >= 0 {
		image.Platform = "metal"
	}
	return image
}

// checkImage says what speaks against installing an image that somebody named.
func checkImage(node, name string, want Image, target Version) []Finding {
	image, err := ParseImage(name)
	if err != nil {
		return []Finding{find(CodeImageUnreadable, node, "%v", err)}
	}
	var found []Finding
	add := func(wrong bool, code Code, format string, args ...any) {
		if wrong {
			found = append(found, find(code, node, format, args...))
		}
	}
	version, err := ParseVersion(image.Tag)
	newer := target.compareMinor(lastRelease) > 0
	add(image.Tag == "latest" || image.Tag == "", CodeImageLatest, "%s does not say which version it installs", name)
	add(image.Tag != "latest" && image.Tag != "" && (err != nil || version != target), CodeImageVersion, "%s is not an image of %s", name, target)
	add(image.Schematic == "" && newer, CodeImageUnpublished, "%s: images without a schematic are published up to Talos %d.%d", name, lastRelease.Major, lastRelease.Minor)
	add(image.Schematic == "" && want.Schematic != vanilla && !newer, CodeImageSchematic, "%s has no schematic, and the node's is %s", name, want.Schematic)
	add(image.Schematic != "" && image.Schematic != want.Schematic, CodeImageSchematic, "%s has another schematic than the node, which has %s", name, want.Schematic)
	add(image.SecureBoot != want.SecureBoot, CodeSecureBootSwitch, "%s is for Secure Boot: %t, and the node: %t", name, image.SecureBoot, want.SecureBoot)
	add(image.Platform != "" && image.Platform != "metal", CodeImagePlatform, "%s is for the platform %s", name, image.Platform)
	return found
}

// vanilla is the schematic of an image without any customization.
const vanilla = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"
