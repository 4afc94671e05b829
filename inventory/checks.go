package inventory

import (
	"fmt"
	"net/netip"
	"net/url"
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
	severity Severity
	message  string // follows the field's name: "is not an IP address"
	hint     string
	// secret says that the value may hold a password, so that it is left out.
	secret bool
}

func wrong(hint, format string, args ...any) *problem {
	for i, arg := range args {
		if value, ok := arg.(string); ok {
			args[i] = clip(value)
		}
	}
	return &problem{message: fmt.Sprintf(format, args...), hint: hint}
}

func oneOf(allowed ...string) check {
	return func(v string) *problem {
		for _, a := range allowed {
			if v == a {
				return nil
			}
		}
		return wrong("write "+strings.Join(allowed, " or "), "%q is not known", v)
	}
}

func checkIP(v string) *problem {
	addr, err := netip.ParseAddr(v)
	if err != nil || addr.Zone() != "" {
		return wrong("write it like 192.168.100.1 or fd00::1, without a mask", "%q is not an IP address", v)
	}
	return nil
}

// checkNetmask accepts a dotted mask or the number of bits, as Talos does.
func checkNetmask(v string) *problem {
	if _, ok := maskBits(v); !ok {
		return wrong("write it like 255.255.255.0 or 24", "%q is not a netmask", v)
	}
	return nil
}

// maskBits is the prefix length of a netmask.
func maskBits(v string) (int, bool) {
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
		return wrong("write a number from 1 to 4094", "%q is not a VLAN", v)
	}
	return nil
}

func checkInterface(v string) *problem {
	const longest = 15 // IFNAMSIZ without its NUL
	if v == "" || len(v) > longest || strings.ContainsFunc(v, unicode.IsSpace) || strings.ContainsAny(v, ":/") {
		return wrong("write the name that Linux gives it, like ens1 or enx0cc47a000001", "%q is not a network interface", v)
	}
	return nil
}

var hostPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?\.?$`)

func checkHost(v string) *problem {
	if hostPattern.MatchString(v) || checkIP(v) == nil {
		return nil
	}
	return wrong("write it like fr.pool.ntp.org or 192.168.100.1", "%q is neither a hostname nor an IP address", v)
}

var schematicPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

func checkSchematic(v string) *problem {
	if schematicPattern.MatchString(v) {
		return nil
	}
	return wrong("copy the 64 lower-case hex digits that the Image Factory shows", "%q is not a schematic ID", v)
}

var versionPattern = regexp.MustCompile(`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$`)

func checkTalosVersion(v string) *problem {
	if versionPattern.MatchString(v) {
		return nil
	}
	return wrong("write it like v1.9.5", "%q is not a Talos version", v)
}

func checkSerial(v string) *problem {
	switch {
	case identity.IsPlaceholder(v):
		return wrong("remove it, and give the node another serial, a uuid, a mac or a bmc.address",
			"%q is a placeholder that many machines share and identifies nothing", v)
	case identity.NormalizeSerial(v) == "":
		return wrong("copy it from the machine's label or its BMC", "of %d bytes is too long for a serial", len(v))
	case strings.TrimSpace(v) != v:
		p := wrong("remove them", "%q has spaces around it, which are ignored", v)
		p.severity = Warning
		return p
	}
	return nil
}

var hexUUID = regexp.MustCompile(`^[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$`)

func checkUUID(v string) *problem {
	switch {
	case identity.NormalizeUUID(v) != "":
		return nil
	case hexUUID.MatchString(strings.ToLower(strings.TrimSpace(v))):
		return wrong("remove it, and give the node a serial, a boardSerial, a mac or a bmc.address",
			"%q is a placeholder that many machines share and identifies nothing", v)
	}
	return wrong("write it like 4c4c4544-0042-4310-8031-b2c04f333334", "%q is not a UUID", v)
}

func checkMAC(v string) *problem {
	if identity.NormalizeMAC(v) != "" {
		return nil
	}
	return wrong("write it like 0c:c4:7a:00:00:01", "%q is not the MAC of one network card", v)
}

func checkCluster(v string) *problem {
	if v == "" || strings.ContainsAny(v, "/\\") || strings.ContainsFunc(v, unicode.IsSpace) {
		return wrong("write a name without spaces and slashes", "%q is not a cluster's name", v)
	}
	return nil
}

func checkKernelArgs(v string) *problem {
	for arg := range strings.FieldsSeq(v) {
		if strings.HasPrefix(arg, "siderolink.api=") {
			return wrong("remove it: a node that joins Omni never shows the maintenance API that confirms it",
				"contains siderolink.api=")
		}
	}
	if strings.ContainsFunc(v, func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }) {
		return wrong("remove it", "contains a control character")
	}
	return nil
}

var envPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// checkPasswordEnv does not repeat the value: someone may have put the
// password itself here (I9).
func checkPasswordEnv(v string) *problem {
	if envPattern.MatchString(v) {
		return nil
	}
	p := wrong("give the variable's name, like BMC_PASSWORD, and the password in the environment",
		"is not the name of an environment variable")
	p.secret = true
	return p
}

// checkBMCAddress does not repeat an address that it refuses: it may contain a
// password (I9).
func checkBMCAddress(v string) *problem {
	const form = "write it like 10.0.0.11, bmc-01.example.com:443 or https://10.0.0.11"
	address, err := parseBMCAddress(v)
	switch {
	case err != nil:
		p := wrong(form, "is not an address")
		p.secret = true // it could not be told where a password would be
		return p
	case address.User != nil:
		p := wrong("give bmc.username, and bmc.passwordEnv or bmc.passwordFile", "contains a user or a password, which do not belong there")
		p.secret = true
		return p
	case address.Scheme != "https":
		return wrong(form, "does not use HTTPS, so that the password would travel in the clear")
	case address.Path != "" && address.Path != "/" || address.RawQuery != "" || address.Fragment != "":
		return wrong(form, "has a path after the host")
	}
	return nil
}

// parseBMCAddress reads "host", "host:port", a bare IPv6 address or a URL.
func parseBMCAddress(v string) (*url.URL, error) {
	if addr, err := netip.ParseAddr(v); err == nil && addr.Is6() {
		v = "[" + v + "]"
	}
	if !strings.Contains(v, "://") {
		v = "https://" + v
	}
	u, err := url.Parse(v)
	if err != nil {
		return nil, fmt.Errorf("parse the BMC's address: %w", err)
	}
	host := u.Hostname()
	if checkHost(host) != nil {
		return nil, fmt.Errorf("the BMC's address has no usable host")
	}
	return u, nil
}
