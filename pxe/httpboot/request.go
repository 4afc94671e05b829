// Package httpboot answers machines that speak HTTP before Linux runs: iPXE
// asking for its script, kernel and initramfs, and UEFI firmware asking for an
// iPXE binary.
package httpboot

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/talos-provision/provision/inventory/identity"
)

// Bounds on what one request may make us keep. SMBIOS strings are at most 64
// characters in practice; the query of a real machine is below 1 kB.
const (
	maxQuery = 8 << 10 // bytes of raw query that are looked at
	maxValue = 256     // bytes of one decoded value; a longer one is dropped, never cut: a cut serial is another machine's
	maxMACs  = 16
)

// Request is what a machine said of itself when it asked what to do.
type Request struct {
	// Facts identify the machine; its MAC is the one it booted from.
	Facts identity.Facts
	// Arch is amd64 or arm64, or "" when the machine named another one.
	Arch string
	// Platform is efi or pcbios, or "" when the machine did not say.
	Platform string
	// Manufacturer, Product and Asset describe the machine for a person.
	Manufacturer, Product, Asset string
	// NICs are the MACs of all network cards that iPXE drives, for a person. They
	// do not identify the machine: a card may be shared or stand-in hardware.
	NICs []string
	// Source is the address that the request came from.
	Source netip.Addr
	// Firmware means that UEFI itself asks for a signed UKI. It names itself by
	// the MAC or UUID in the URL that it was given, and by nothing else.
	Firmware bool
	// Head means that the machine only asks how long the answer would be.
	Head bool
	// Waits counts the wait scripts that the machine has followed in a row.
	Waits int
}

// arches maps iPXE's ${buildarch} to the names of Talos images. A BIOS build of
// iPXE says i386 on every machine; Talos has no 32-bit image, so it means amd64.
var arches = map[string]string{
	"": "amd64", "i386": "amd64", "x86_64": "amd64", "amd64": "amd64",
	"arm64": "arm64", "aarch64": "arm64",
}

// platforms are iPXE's ${platform}.
var platforms = map[string]string{"efi": "efi", "pcbios": "pcbios"}

// ParseRequest reads the query that the boot script sends. It takes anything:
// what it cannot read is as if it had not been sent, because a machine that
// asks must be answered. Placeholder values are kept; comparing facts drops them.
func ParseRequest(rawQuery string, source netip.Addr) Request {
	r := Request{Source: source, Arch: "amd64"}
	first := map[string]string{}
	for _, pair := range strings.Split(rawQuery[:min(len(rawQuery), maxQuery)], "&") {
		key, raw, _ := strings.Cut(pair, "=")
		value := decode(raw)
		if value == "" {
			continue // iPXE expands a setting that is not there to nothing
		}
		switch key {
		case "mac":
			r.Facts.MACs = addMAC(r.Facts.MACs, value)
			continue
		case "nic":
			r.NICs = addMAC(r.NICs, value)
			continue
		}
		if _, seen := first[key]; !seen && len(first) < 64 {
			first[key] = value
		}
	}
	r.Facts.Serial = first["serial"]
	r.Facts.BoardSerial = first["board-serial"]
	r.Facts.UUID = first["uuid"]
	r.Manufacturer, r.Product, r.Asset = first["manufacturer"], first["product"], first["asset"]
	r.Arch = arches[strings.ToLower(first["arch"])]
	r.Platform = platforms[strings.ToLower(first["platform"])]
	if n, err := strconv.Atoi(first["wait"]); err == nil && n > 0 {
		r.Waits = n
	}
	return r
}

// addMAC adds a MAC that is not there yet, up to the bound.
func addMAC(macs []string, mac string) []string {
	if len(macs) >= maxMACs || slices.Contains(macs, mac) {
		return macs
	}
	return append(macs, mac)
}

// decode undoes iPXE's :uristring. A plus is a plus: iPXE percent-encodes
// spaces, and serials with a plus exist, so form decoding would corrupt them.
func decode(raw string) string {
	value, err := url.PathUnescape(raw)
	if err != nil {
		value = raw // sent without :uristring; a percent sign means itself
	}
	if len(value) > maxValue {
		return ""
	}
	// SMBIOS strings come from firmware menus: bytes that are no text help nobody.
	value = strings.Map(func(c rune) rune {
		if c == utf8.RuneError || !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, value)
	return strings.TrimSpace(value)
}
