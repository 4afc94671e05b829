package bmc

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"
)

// BootKind is a way to start a machine once.
type BootKind string

// The kinds of boot. BootDisk is for a machine that is to skip the network once;
// a node's configuration names one of the first three.
const (
	// BootPXE starts from the network with DHCP and TFTP.
	BootPXE BootKind = "pxe"
	// BootHTTP starts from the network with UEFI HTTP boot, from a URI that the
	// BMC is told or that DHCP gives.
	BootHTTP BootKind = "uefi-http"
	// BootMedia starts from an image that the BMC fetches and shows to the
	// machine as a CD, for networks where no DHCP can be had.
	BootMedia BootKind = "virtual-media"
	// BootDisk starts from the disk.
	BootDisk BootKind = "disk"
)

// ParseBootKind reads a node's bmc.boot; empty means BootPXE.
func ParseBootKind(s string) (BootKind, error) {
	switch k := BootKind(strings.ToLower(strings.TrimSpace(s))); k {
	case "":
		return BootPXE, nil
	case BootPXE, BootHTTP, BootMedia:
		return k, nil
	case BootDisk: // no way to install a node
	}
	return "", fmt.Errorf("the boot kind %q is unknown; write bmc.boot as %s, %s or %s", s, BootPXE, BootHTTP, BootMedia)
}

// BootRequest says how a machine is to start the next time.
type BootRequest struct {
	// Kind is how; empty means Config.Boot.
	Kind BootKind
	// HTTPBootURI is for BootHTTP: what the firmware loads. Empty leaves it to
	// DHCP.
	HTTPBootURI string
	// MediaURI is for BootMedia: the image, which the BMC itself must reach.
	MediaURI string
}

// aim is a boot request in terms of the override: the targets that ask for it,
// best first, and what counts as kept.
type aim struct {
	kind    BootKind
	targets []string
	uri     string // HttpBootUri
	mode    string
}

// httpTargets and cdTargets are the spellings that BMCs are known for. X10
// boards list "CD/DVD" (metal-operator#982); boards that list UsbCd show virtual
// media as that (badfish boots UsbCd before Cd).
var (
	httpTargets = []string{targetHTTP, "UefiHttpBoot", "Http"}
	cdTargets   = []string{"UsbCd", "Cd", "CD/DVD"}
)

// aimOf resolves a request against what the BMC lists.
func aimOf(r BootRequest, mode string) (aim, error) {
	a := aim{kind: r.Kind, mode: mode}
	switch r.Kind {
	case BootPXE:
		a.targets = []string{targetPXE}
	case BootDisk:
		a.targets = []string{targetHdd}
	case BootHTTP:
		if !strings.EqualFold(mode, string(schemas.UEFIBootSourceOverrideMode)) {
			return aim{}, fmt.Errorf("boot kind %s needs the boot mode UEFI, and bmc.bootMode is %s; set bmc.bootMode to uefi", BootHTTP, strings.ToLower(mode))
		}
		if r.HTTPBootURI != "" && !webURI(r.HTTPBootURI) {
			return aim{}, fmt.Errorf("the HTTP boot URI %q is none; write http://host/path", r.HTTPBootURI)
		}
		a.targets, a.uri = httpTargets, r.HTTPBootURI
	case BootMedia:
		if !webURI(r.MediaURI) {
			return aim{}, fmt.Errorf("the medium %q is no URI; write http://host/image.iso, at an address that the BMC can reach", r.MediaURI)
		}
		a.targets = cdTargets
	default:
		return aim{}, fmt.Errorf("the boot kind %q is unknown; use %s, %s, %s or %s", r.Kind, BootPXE, BootHTTP, BootMedia, BootDisk)
	}
	return a, nil
}

func webURI(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
}

// asks gives the targets to send: those that the BMC lists, in its own spelling,
// and where it lists none the usual ones, because some take what they do not
// list (UefiHttp on NVIDIA, libredfish).
func (a aim) asks(listed []text) []string {
	var out []string
	for _, t := range a.targets {
		if i := slices.IndexFunc(listed, func(l text) bool { return strings.EqualFold(string(l), t) }); i >= 0 {
			out = append(out, string(listed[i]))
		}
	}
	if len(out) > 0 {
		return out
	}
	if a.kind == BootMedia {
		return []string{"Cd", "UsbCd"}
	}
	return a.targets[:1]
}

// keptBy tells whether a read-back shows what was asked for.
func (a aim) keptBy(v vendor, now BootOverride) bool {
	if !now.InForce() || now.Mode != "" && !strings.EqualFold(now.Mode, a.mode) {
		return false
	}
	// A URI that is shown and differs would boot something else.
	if a.uri != "" && now.HTTPBootURI != "" && now.HTTPBootURI != a.uri {
		return false
	}
	accepted := a.targets
	if a.kind == BootPXE || a.kind == BootHTTP {
		accepted = slices.Concat(accepted, v.kept)
	}
	return slices.ContainsFunc(accepted, func(t string) bool { return strings.EqualFold(t, now.Target) })
}

// bootBody is the Boot object of a PATCH.
type bootBody struct {
	Target  string `json:"BootSourceOverrideTarget,omitempty"`
	Enabled string `json:"BootSourceOverrideEnabled,omitempty"`
	Mode    string `json:"BootSourceOverrideMode,omitempty"`
	URI     string `json:"HttpBootUri,omitempty"`
}

// armBodies are the ways to ask for one boot, best first: each target with or
// without the mode as the vendor's habit has it, then the other way round; with
// the URI, and without it for BMCs that have no such property, whose firmware
// then asks DHCP.
func armBodies(v vendor, boot bootDocument, a aim, full bool) []bootBody {
	modes := []string{"", a.mode}
	if full || v.sendsMode(boot, a.mode) {
		modes = []string{a.mode, ""}
	}
	uris := []string{a.uri}
	if a.uri != "" {
		uris = append(uris, "")
	}
	targets := a.asks(boot.Targets)
	out := make([]bootBody, 0, len(targets)*len(uris)*len(modes))
	for _, target := range targets {
		for _, uri := range uris {
			for _, mode := range modes {
				out = append(out, bootBody{Target: target, Enabled: enabledOnce, Mode: mode, URI: uri})
			}
		}
	}
	return out
}
