package inventory

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strings"
)

var envPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// checkPasswordEnv does not repeat the value: someone may have put the
// password itself here (I9).
func checkPasswordEnv(v string) *problem {
	if envPattern.MatchString(v) {
		return nil
	}
	p := wrong(RuleInvalid, "give the variable's name, like BMC_PASSWORD, and the password in the environment",
		"is not the name of an environment variable")
	p.secret = true
	return p
}

// fingerprintPrefixes may stand before a fingerprint: curl, OpenSSH and browsers
// each have their own.
var fingerprintPrefixes = []string{"sha256//", "sha256/", "sha256:", "sha256="}

func checkFingerprint(v string) *problem {
	if _, err := DecodeFingerprint(v); err != nil {
		return wrong(RuleInvalid, "write the SHA-256 of the certificate's public key, 64 hex digits or 44 characters of base64",
			"%q is not a fingerprint", v)
	}
	return nil
}

// DecodeFingerprint reads a SHA-256 in hex, with colons between the bytes or
// not, or in base64, padded or not, with "sha256/" or the like before it.
func DecodeFingerprint(v string) ([sha256.Size]byte, error) {
	digits := strings.TrimSpace(v)
	for _, prefix := range fingerprintPrefixes {
		if len(digits) > len(prefix) && strings.EqualFold(digits[:len(prefix)], prefix) {
			digits = digits[len(prefix):]
			break
		}
	}
	sum, err := hex.DecodeString(strings.ReplaceAll(digits, ":", ""))
	if err != nil || len(sum) != sha256.Size {
		sum, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(digits, "="))
	}
	if err != nil || len(sum) != sha256.Size {
		return [sha256.Size]byte{}, fmt.Errorf("%q is not a SHA-256: write 64 hex digits or 44 characters of base64", clip(v))
	}
	return [sha256.Size]byte(sum), nil
}

// checkBMCAddress does not repeat an address that it refuses: it may contain a
// password (I9).
func checkBMCAddress(v string) *problem {
	const form = "write it like 10.0.0.11, bmc-01.example.com:443 or https://10.0.0.11"
	address, err := parseBMCAddress(v)
	switch {
	case err != nil:
		p := wrong(RuleInvalid, form, "is not an address")
		p.secret = true // it could not be told where a password would be
		return p
	case address.User != nil:
		p := wrong(RuleClearPassword, "give bmc.username, and "+waysToPassword, "contains a user or a password, which do not belong there")
		p.secret = true
		return p
	case address.Scheme != "https":
		return wrong(RuleInvalid, form, "does not use HTTPS, so that the password would travel in the clear")
	case address.Path != "" && address.Path != "/" || address.RawQuery != "" || address.Fragment != "":
		return wrong(RuleInvalid, form, "has a path after the host")
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

// checkPasswordCommand refuses a command that only repeats a password written
// beside it.
func checkPasswordCommand(argv []string) *problem {
	switch {
	case len(argv) == 0 || argv[0] == "":
		return wrong(RuleInvalid, "write a program and its arguments, like [pass, show, bmc/rack-1]", "is empty")
	case len(argv) > 1 && (path.Base(argv[0]) == "echo" || path.Base(argv[0]) == "printf"):
		p := wrong(RuleClearPassword, "remove it and change the password; then give "+waysToPassword, "prints a password that is written here")
		p.secret = true
		return p
	}
	return nil
}
