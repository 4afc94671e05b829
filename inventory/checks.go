package inventory

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/talos-provision/provision/inventory/identity"
)

// check judges one scalar on its own. A nil problem means that it is right.
type check func(value string) *problem

// problem is a finding that does not know its place yet.
type problem struct {
	rule    Rule
	message string // follows the field's name: "is not an IP address"
	hint    string
	// secret says that the value may hold a password, so that it is left out.
	secret bool
}

func wrong(rule Rule, hint, format string, args ...any) *problem {
	for i, arg := range args {
		if value, ok := arg.(string); ok {
			args[i] = clip(value)
		}
	}
	return &problem{rule: rule, message: fmt.Sprintf(format, args...), hint: hint}
}

func oneOf(allowed ...string) check {
	return func(v string) *problem {
		for _, a := range allowed {
			if v == a {
				return nil
			}
		}
		return wrong(RuleInvalid, "write "+strings.Join(allowed, " or "), "%q is not known", v)
	}
}

func checkIP(v string) *problem {
	addr, err := netip.ParseAddr(v)
	if err != nil || addr.Zone() != "" {
		return wrong(RuleInvalid, "write it like 192.168.100.1 or fd00::1, without a mask", "%q is not an IP address", v)
	}
	return nil
}

// checkNetmask accepts a dotted mask or the number of bits, as Talos does.
func checkNetmask(v string) *problem {
	if _, ok := MaskBits(v); !ok {
		return wrong(RuleInvalid, "write it like 255.255.255.0 or 24", "%q is not a netmask", v)
	}
	return nil
}

// MaskBits is the prefix length of a netmask, dotted or a number of bits.
func MaskBits(v string) (int, bool) {
	if bits, err := strconv.Atoi(v); err == nil {
		return bits, bits > 0 && bits <= 128 && strconv.Itoa(bits) == v
	}
	addr, err := netip.ParseAddr(v)
	if err != nil || addr.Zone() != "" {
		return 0, false
	}
	bits := 0
	ended := false
	for _, octet := range addr.AsSlice() {
		for bit := 7; bit >= 0; bit-- {
			one := octet>>bit&1 == 1
			if one && ended {
				return 0, false
			}
			ended = ended || !one
			if one {
				bits++
			}
		}
	}
	return bits, bits > 0
}

func checkVLAN(v string) *problem {
	const highest = 4094 // IEEE 802.1Q reserves 0 and 4095
	id, err := strconv.Atoi(v)
	if err != nil || id < 1 || id > highest || strconv.Itoa(id) != v {
		return wrong(RuleInvalid, "write a number from 1 to 4094", "%q is not a VLAN", v)
	}
	return nil
}

func checkInterface(v string) *problem {
	const longest = 15 // IFNAMSIZ without its NUL
	if v == "" || len(v) > longest || strings.ContainsFunc(v, unicode.IsSpace) || strings.ContainsAny(v, ":/") {
		return wrong(RuleInvalid, "write the name that Linux gives it, like ens1 or enx0cc47a000001", "%q is not a network interface", v)
	}
	return nil
}

var hostPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?\.?$`)

func checkHost(v string) *problem {
	if hostPattern.MatchString(v) || checkIP(v) == nil {
		return nil
	}
	return wrong(RuleInvalid, "write it like fr.pool.ntp.org or 192.168.100.1", "%q is neither a hostname nor an IP address", v)
}

// checkPath: a machine config written where its path belongs would be shown by
// every command that shows the inventory.
func checkPath(v string) *problem {
	if strings.ContainsAny(v, "\r\n") {
		return &problem{rule: RuleInvalid, message: "holds several lines of text", hint: "write them to a file and give its path here", secret: true}
	}
	if strings.TrimSpace(v) != v || v == "" {
		return wrong(RuleInvalid, "write the path of a file, without spaces around it", "%q is not a path", v)
	}
	return nil
}

var schematicPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

func checkSchematic(v string) *problem {
	if schematicPattern.MatchString(v) {
		return nil
	}
	return wrong(RuleSchematic, "copy the 64 lower-case hex digits that the Image Factory shows", "%q is not a schematic ID", v)
}

func checkSerial(v string) *problem {
	switch {
	case identity.IsPlaceholder(v):
		return wrong(RulePlaceholder, "remove it, and give the node another serial, a uuid, a mac or a bmc.address",
			"%q is a placeholder that many machines share and identifies nothing", v)
	case identity.NormalizeSerial(v) == "":
		return wrong(RuleInvalid, "copy it from the machine's label or its BMC", "of %d bytes is too long for a serial", len(v))
	case strings.TrimSpace(v) != v:
		return wrong(RuleSpaces, "remove them", "%q has spaces around it, which are ignored", v)
	}
	return nil
}

var hexUUID = regexp.MustCompile(`^[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$`)

func checkUUID(v string) *problem {
	switch {
	case identity.NormalizeUUID(v) != "":
		return nil
	case hexUUID.MatchString(strings.ToLower(strings.TrimSpace(v))):
		return wrong(RulePlaceholder, "remove it, and give the node a serial, a boardSerial, a mac or a bmc.address",
			"%q is a placeholder that many machines share and identifies nothing", v)
	}
	return wrong(RuleInvalid, "write it like 4c4c4544-0042-4310-8031-b2c04f333334", "%q is not a UUID", v)
}

func checkMAC(v string) *problem {
	if identity.NormalizeMAC(v) != "" {
		return nil
	}
	return wrong(RuleInvalid, "write it like 0c:c4:7a:00:00:01", "%q is not the MAC of one network card", v)
}

func checkCluster(v string) *problem {
	if v == "" || strings.ContainsAny(v, "/\\") || strings.ContainsFunc(v, unicode.IsSpace) {
		return wrong(RuleInvalid, "write a name without spaces and slashes", "%q is not a cluster's name", v)
	}
	return nil
}
