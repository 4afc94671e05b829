package httpboot

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/pxe/assets"
)

// With Secure Boot on, firmware starts signed programs only. Talos signs a UKI:
// kernel, initramfs and kernel arguments in one EFI program, which takes no
// other arguments. iPXE, which is not signed, has no part in it: the firmware
// loads the UKI by UEFI HTTP boot, from the path below.
const ukiPrefix = "/uki/"

// maxUKIURL keeps the URL within the DHCP header's file field, for firmware that
// reads nothing else, in bytes.
const maxUKIURL = 127

// UKIURL is what the firmware of a Secure Boot machine is told to load, by DHCP
// or by its BMC: base, without a slash at its end, and UKIPath.
func UKIURL(base, key, arch string) (string, error) {
	path, err := UKIPath(key, arch)
	if err != nil {
		return "", err
	}
	full := strings.TrimRight(base, "/") + path
	if err := CheckBootURL(full); err != nil {
		return "", fmt.Errorf("make the URL of a UKI: %w", err)
	}
	return full, nil
}

// UKIPath is /uki/<key>/<arch>.efi. key is a MAC or the UUID of the machine; what
// is served there depends on whether the machine is armed at that moment. The
// path ends in .efi and has no query, because firmware tells by the end what it
// loads (edk2 HttpBootSupport.c). arch is amd64 or arm64.
func UKIPath(key, arch string) (string, error) {
	facts, ok := ukiFacts(key)
	switch {
	case !ok:
		return "", fmt.Errorf("make the URL of a UKI: %q is neither a MAC nor a UUID; give the node one", key)
	case arch != "amd64" && arch != "arm64":
		return "", fmt.Errorf("make the URL of a UKI: architecture %q has none; it can be amd64 or arm64", arch)
	}
	name := facts.UUID
	if name == "" {
		name = strings.ReplaceAll(facts.MACs[0], ":", "-")
	}
	return ukiPrefix + name + "/" + arch + ".efi", nil
}

// CheckBootURL says whether UEFI HTTP boot can load from a URL: plain http, a
// path that ends in .efi, no query, short enough for every field of a DHCP answer.
func CheckBootURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf("boot URL: %w", err)
	}
	switch {
	case u.Scheme != "http" || u.Host == "" || u.User != nil:
		return fmt.Errorf("boot URL %q is not a plain http URL; use the form http://ADDRESS:PORT/…", u.Redacted())
	case !strings.HasSuffix(u.Path, ".efi"):
		return fmt.Errorf("boot URL %q does not end in .efi, by which firmware knows what it loads", text)
	case strings.ContainsAny(text, "?#"):
		return fmt.Errorf("boot URL %q has a query, after which firmware does not find the .efi", text)
	case len(text) > maxUKIURL:
		return fmt.Errorf("boot URL %q has %d characters, DHCP takes %d; use an address in place of a long name", text, len(text), maxUKIURL)
	}
	return nil
}

// ukiFacts reads the key in a UKI's path.
func ukiFacts(key string) (identity.Facts, bool) {
	if mac := identity.NormalizeMAC(key); mac != "" {
		return identity.Facts{MACs: []string{mac}}, true
	}
	if uuid := identity.NormalizeUUID(key); uuid != "" {
		return identity.Facts{UUID: uuid}, true
	}
	return identity.Facts{}, false
}

// serveUKI answers the firmware of a Secure Boot machine. An armed node gets its
// signed UKI; anything else gets 404, with which the firmware goes on to its next
// boot entry, the disk (I3).
func (h *Handler) serveUKI(w *response, r *http.Request, tail string) {
	key, file, _ := strings.Cut(tail, "/")
	facts, ok := ukiFacts(key)
	arch, isEFI := strings.CutSuffix(file, ".efi")
	if !ok || !isEFI || (arch != "amd64" && arch != "arm64") {
		notFound(w)
		return
	}
	req := Request{Facts: facts, Arch: arch, Platform: "efi", Source: source(r), Firmware: true, Head: r.Method == http.MethodHead}
	answer := h.decide(r.Context(), req)
	if answer.Kind == Install && !answer.SecureBoot {
		answer = answer.refused(errors.New("it asks for the signed UKI, but the inventory does not say secureBoot"))
	}
	if !req.Head {
		h.tell(req, answer)
	}
	if answer.Kind != Install {
		// Also for Wait: firmware cannot, and the next boot is the controller's to make.
		notFound(w)
		return
	}
	h.serveFile(w, r, assets.UKI(answer.Schematic, answer.Version, arch, true))
}

// decide asks the director and turns what cannot be carried out into a local boot.
func (h *Handler) decide(ctx context.Context, req Request) Answer {
	answer := Answer{Reason: "nobody decides here what to install"}
	if h.opts.Director != nil {
		answer = h.opts.Director.Direct(ctx, req)
	}
	checked := answer.check(req)
	if checked.Kind != answer.Kind {
		h.log.Error("a machine cannot be given what was decided for it", "node", answer.Node, "source", req.Source, "reason", checked.Reason)
	}
	return checked
}
