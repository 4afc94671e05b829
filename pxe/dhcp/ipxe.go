package dhcp

import "github.com/insomniacslk/dhcp/dhcpv4"

// Sub-options of iPXE's option 175 that list what a build can do
// (src/include/ipxe/features.h).
const (
	featureHTTP    = 0x13
	featureBzImage = 0x18
)

// Codes inside an encapsulated option.
const (
	encapsulatedPad = 0
	encapsulatedEnd = 255
)

// encapsulated is the value of a sub-option; it reports false when there is none.
func encapsulated(options []byte, code byte) ([]byte, bool) {
	for len(options) > 0 {
		switch options[0] {
		case encapsulatedPad:
			options = options[1:]
			continue
		case encapsulatedEnd:
			return nil, false
		}
		if len(options) < 2 || len(options) < 2+int(options[1]) {
			return nil, false
		}
		value := options[2 : 2+options[1]]
		if options[0] == code {
			return value, true
		}
		options = options[2+len(value):]
	}
	return nil, false
}

// needsOurIPXE reports whether the iPXE that asks cannot run our script and must
// load our binary first: gPXE, which does not know the script's first line, and
// builds without HTTP or, on a BIOS, without the Linux kernel format
// (VirtualBox, FlexBoot: warewulf3#104). One that lists no features at all but
// calls itself iPXE is believed.
func (r Request) needsOurIPXE() bool {
	if r.hasUserClass(userClassGPXE) {
		return true
	}
	if !r.Packet.Options.Has(optionIPXE) {
		return false
	}
	features := r.Packet.Options.Get(optionIPXE)
	if _, http := encapsulated(features, featureHTTP); !http {
		return true
	}
	_, linux := encapsulated(features, featureBzImage)
	return !linux && r.Arch() == ArchBIOS
}

// hasUserClass looks for a user class: as the raw bytes, which iPXE sends, or in
// the length-prefixed list of RFC 3004.
func (r Request) hasUserClass(name string) bool {
	class := r.Packet.Options.Get(dhcpv4.OptionUserClassInformation)
	if string(class) == name {
		return true
	}
	for len(class) > 0 {
		n := int(class[0])
		if n == 0 || n >= len(class) {
			return false
		}
		if string(class[1:1+n]) == name {
			return true
		}
		class = class[1+n:]
	}
	return false
}
