package firmware

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// httpArch is the DHCP architecture of UEFI HTTP boot on each processor (RFC 5970, IANA).
var httpArch = map[string]byte{AMD64: 16, ARM64: 19}

// HTTPBoot boots the machine once by UEFI HTTP boot, otherwise as NetworkBoot
// does; a UKI is started at once, without iPXE. The file is the one at uri, as a BMC sets it, or the one that DHCP names
// when uri is empty.
func (m Machine) HTTPBoot(ctx context.Context, r *Relay, uri string) (Outcome, error) {
	return m.boot(ctx, r, func(b *boot, ctx context.Context) error { return b.runHTTP(ctx, uri) })
}

func (b *boot) runHTTP(ctx context.Context, uri string) error {
	if b.machine.Platform != EFI {
		return fmt.Errorf("HTTP boot is a thing of UEFI: platform %s has none", b.machine.Platform)
	}
	err := b.dhcp(ctx, b.httpROM(uri))
	if uri == "" {
		uri = b.lease.file
	}
	var from *url.URL
	if err == nil {
		from, err = url.Parse(uri)
	}
	var linux bool
	if err == nil {
		linux, err = b.loadByHTTP(ctx, from)
	}
	if err != nil {
		b.outcome.LocalBoot = ctx.Err() == nil
		return err
	}
	if linux {
		return nil
	}
	return b.runIPXEFrom(ctx, from)
}

// httpROM is the firmware's DHCP client for HTTP boot (edk2 HttpBootDhcp4.c):
// it discards offers that are not marked HTTPClient, unless it was told a URI.
func (b *boot) httpROM(uri string) client {
	arch := httpArch[b.machine.Arch]
	c := b.rom()
	c.name = "UEFI HTTP boot"
	c.options = append(c.options,
		dhcpv4.OptGeneric(dhcpv4.OptionClientSystemArchitectureType, []byte{0, arch}),
		dhcpv4.OptGeneric(dhcpv4.OptionClassIdentifier, fmt.Appendf(nil, "HTTPClient:Arch:%05d:UNDI:003000", arch)))
	c.accept = func(reply *dhcpv4.DHCPv4) error {
		switch {
		case uri != "":
			return nil
		case !strings.HasPrefix(string(reply.Options.Get(dhcpv4.OptionClassIdentifier)), "HTTPClient"):
			return errors.New("the offer is not marked HTTPClient, so UEFI discards it")
		case !strings.HasPrefix(bootFile(reply), "http://"):
			return fmt.Errorf("the offer's boot file %q is no URL", bootFile(reply))
		}
		return nil
	}
	return c
}

// loadByHTTP asks for the size, then for the file, as EDK2 does, and starts it.
func (b *boot) loadByHTTP(ctx context.Context, from *url.URL) (linux bool, err error) {
	if !strings.HasSuffix(from.Path, ".efi") {
		return false, fmt.Errorf("the path of %s does not end in .efi, by which UEFI knows what it is", from)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, from.String(), http.NoBody)
	if err != nil {
		return false, err
	}
	request.Header.Set("User-Agent", "UefiHttpBoot/1.0")
	response, err := b.http.Do(request)
	if err != nil {
		return false, err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK || response.ContentLength <= 0 {
		return false, fmt.Errorf("HEAD %s: status %s, Content-Length %d", from, response.Status, response.ContentLength)
	}
	var h head
	program, err := b.fetch(ctx, from, &h, maxImage)
	if err != nil {
		return false, err
	}
	if program.Size != response.ContentLength {
		return false, fmt.Errorf("%s has %d bytes, but HEAD said %d", from, program.Size, response.ContentLength)
	}
	b.outcome.NetworkProgram = program
	b.step("HTTP %s, %d bytes", from, program.Size)
	return b.start(program, &h)
}

// runIPXEFrom is iPXE that came by HTTP: its autoexec script is beside it.
func (b *boot) runIPXEFrom(ctx context.Context, from *url.URL) error {
	beside := *from
	beside.Path = path.Join(path.Dir(from.Path), autoexec)
	var script bytes.Buffer
	if _, err := b.fetch(ctx, &beside, &script, maxScript); err == nil {
		b.step("%s, %d bytes", &beside, script.Len())
		return b.runScript(ctx, script.String(), &beside)
	}
	if err := b.dhcpAsIPXE(ctx); err != nil {
		return err
	}
	return b.autoboot(ctx)
}
