package inventory

import (
	"fmt"
	"strings"
)

// format is what a scalar must look like: the check judges it when a file is
// read, the schema describes it to editors. The schema may accept what the
// check refuses, for it cannot say everything, but never the other way.
type format struct {
	check  check
	schema schema
}

// A YAML scalar that is not quoted may be a number or a boolean to an editor,
// while it is text here.
var anyScalar = []string{"string", "number", "boolean"}

const (
	octet = `(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])`
	ipv4  = `(` + octet + `\.){3}` + octet
	ipv6  = `[0-9A-Fa-f.:]*:[0-9A-Fa-f.:]*`
	host  = `[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?\.?`
)

var (
	archFormat     = enumerated("amd64", "arm64")
	bootFormat     = enumerated("pxe", "uefi-http", "virtual-media")
	bootModeFormat = enumerated("uefi", "legacy")
	// localBootFormat lists the methods that the boot scripts know.
	localBootFormat = enumerated("auto", "exit1", "exit0", "sanboot", "http404", "poweroff")

	ipFormat        = format{checkIP, pattern(`^(` + ipv4 + `|` + ipv6 + `)$`)}
	hostFormat      = format{checkHost, schema{Type: anyScalar, Pattern: `^(` + host + `|` + ipv6 + `)$`}}
	interfaceFormat = format{checkInterface, schema{Type: anyScalar, Pattern: `^[^\s:/]{1,15}$`}}
	pathFormat      = format{checkPath, schema{Type: anyScalar, Pattern: `^[^\s]([^\r\n]*[^\s])?$`}}
	clusterFormat   = format{checkCluster, schema{Type: anyScalar, Pattern: `^[^\s/\\]+$`}}
	schematicFormat = format{checkSchematic, pattern(`^[0-9a-f]{64}$`)}
	envFormat       = format{checkPasswordEnv, schema{Type: anyScalar, Pattern: `^[A-Za-z_][A-Za-z0-9_]*$`}}
	versionFormat   = format{checkTalosVersion, pattern(versionsPattern())}
	bmcFormat       = format{checkBMCAddress, pattern(`^([Hh][Tt][Tt][Pp][Ss]://)?[^\s/@?#]+/?$`)}

	fingerprintFormat = format{checkFingerprint, schema{Type: anyScalar, Pattern: `^\s*([Ss][Hh][Aa]256(//|[/:=]))?(([0-9A-Fa-f]:?){64}|[A-Za-z0-9+/]{43}=*)\s*$`}}

	argsFormat = format{checkKernelArgs, schema{
		Type: anyScalar, Pattern: `^[ -~\t\r\n]*$`,
		Not: matching(`(^|\s)siderolink\.api=`, `(^|\s)(\|\||&&|;)(\s|$)`, `(^|\s)#`, `(^|\s)talos\.config=[^\s?]*\$\{`),
	}}

	netmaskFormat = format{checkNetmask, schema{AnyOf: []schema{
		{Type: "integer", Minimum: 1, Maximum: 128},
		pattern(`^([1-9]|[1-9][0-9]|1[01][0-9]|12[0-8])$`),
		{Enum: dottedMasks()},
		pattern(`^` + ipv6 + `$`),
	}}}
	vlanFormat = format{checkVLAN, schema{AnyOf: []schema{
		{Type: "integer", Minimum: 1, Maximum: 4094},
		pattern(`^([1-9][0-9]{0,2}|[123][0-9]{3}|40[0-8][0-9]|409[0-4])$`),
	}}}

	// The check knows many more placeholders than an editor needs to.
	serialFormat = format{checkSerial, schema{Type: anyScalar, Not: matching(
		`^[ -/:-@\[-\x60{-~]*$`,
		`^\s*([Tt][Oo] [Bb][Ee] [Ff][Ii][Ll][Ll][Ee][Dd] [Bb][Yy] O\.?E\.?M|[Dd]efault string|[Ss]ystem [Ss]erial [Nn]umber|[Nn]ot ([Ss]pecified|[Aa]vailable|[Pp]resent))\.?\s*$`,
		`^(None|none|NONE|N/A|n/a|NA|Unknown|unknown|0123456789|1234567890|0+)$`,
	)}}
	uuidFormat = format{checkUUID, schema{
		Type: []string{"string", "number"}, Pattern: `^\s*([Uu][Rr][Nn]:[Uu][Uu][Ii][Dd]:)?\{?-*([0-9A-Fa-f]-*){32}\}?\s*$`,
		Not: matching(`^\s*([0-]+|[Ff-]+)\s*$`),
	}}
	macFormat = format{checkMAC, schema{
		Type: []string{"string", "number"}, Pattern: `^\s*[:.-]*[0-9A-Fa-f][:.-]*[02468ACEace]([:.-]*[0-9A-Fa-f]){10}[:.-]*\s*$`,
		Not: matching(`^\s*[0:.-]+\s*$`),
	}}
)

func pattern(p string) schema { return schema{Type: "string", Pattern: p} }

// matching is text that one of the patterns finds. The type matters: without it
// a number matches every pattern.
func matching(patterns ...string) *schema {
	s := &schema{Type: "string"}
	for _, p := range patterns {
		s.AnyOf = append(s.AnyOf, schema{Pattern: p})
	}
	return s
}

func enumerated(values ...string) format {
	s := schema{}
	for _, v := range values {
		s.Enum = append(s.Enum, v)
	}
	return format{oneOf(values...), s}
}

// versionsPattern accepts the versions of the table.
func versionsPattern() string {
	minors := make([]string, 0, len(talosMinors))
	for _, t := range talosMinors {
		minors = append(minors, fmt.Sprint(t.minor))
	}
	return `^v1\.(` + strings.Join(minors, "|") + `)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$`
}

// dottedMasks are the IPv4 netmasks, longest last.
func dottedMasks() []any {
	const bits = 32
	masks := make([]any, 0, bits)
	for n := 1; n <= bits; n++ {
		mask := ^uint32(0) << (bits - n)
		masks = append(masks, fmt.Sprintf("%d.%d.%d.%d", mask>>24, mask>>16&0xff, mask>>8&0xff, mask&0xff))
	}
	return masks
}
