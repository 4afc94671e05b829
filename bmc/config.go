package bmc

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/talos-provision/provision/inventory/identity"
)

// Config says how one BMC is reached and which machine is expected behind it.
type Config struct {
	// Address is https://host[:port] or a bare host name or IP address (IPv6
	// with or without brackets). It must not hold a user name or password.
	Address string
	// Username and Password of a BMC account that may set boot and power.
	Username string
	Password string
	// CAFile is a PEM file of the authorities to trust for this BMC alone;
	// empty means those of the system.
	CAFile string
	// Fingerprint pins the BMC's public key: the SHA-256 of its certificate's
	// SubjectPublicKeyInfo as base64, with or without "sha256/" in front, or as
	// hex. It decides alone: no authority is needed, and CAFile and Insecure are
	// not looked at.
	Fingerprint string
	// Insecure accepts any certificate from this BMC, and from no other.
	Insecure bool
	// LegacyTLS also offers TLS 1.0 and 1.1 and ciphers with RSA key exchange,
	// which some old BMCs need and anybody on the way may break.
	LegacyTLS bool
	// System names the ComputerSystem by Id or by URI, for BMCs that have
	// several; empty lets Expected and then the abilities of the systems decide.
	System string
	// BootMode is "uefi" (also when empty) or "legacy".
	BootMode string
	// Boot is how Arm starts the machine where the request does not say; empty
	// means BootPXE.
	Boot BootKind
	// Expected is what the inventory knows of the machine. It chooses among
	// several systems; comparing the machine with it is the caller's part (I1).
	Expected identity.Facts
	// Permit, if set, is asked right before each request that changes the machine or
	// its settings; after an error the request is not sent, and the method returns
	// ErrNotPermitted and that error. One method may make several requests, and the
	// right to make them can be lost in between. It must not block.
	Permit func() error
	// Log receives one debug line a request; nil discards. No password, token
	// or body is ever logged (I9).
	Log *slog.Logger
	// OnRequest is told of every request that was sent, at its end, to count it. It
	// must not block, and takes concurrent calls of several clients. Nil tells nobody.
	OnRequest func(Exchange)
	// Trace receives one JSON line an exchange: method, URL, status, selected
	// headers and the bodies, with passwords, tokens and session ids replaced
	// (I9). It still names the machine and its addresses. Nil traces nothing.
	// One Write is one line; a writer that several clients share must take
	// concurrent writes, as an *os.File does.
	Trace io.Writer
	// Timeouts has zero for every default.
	Timeouts Timeouts
}

// Timeouts bound the work with one BMC. They are separate because a connect
// deadline that also capped requests cut off a PATCH which takes iDRACs 10 s and
// was applied all the same (bmclib#465).
type Timeouts struct {
	// Dial bounds the TCP connection (10 s). TLS and the wait for a response
	// have their own bounds below Request.
	Dial time.Duration
	// Request bounds one request with its answer (60 s).
	Request time.Duration
	// Operation bounds one method of Client with all its retries (2 min).
	Operation time.Duration
	// Power bounds the wait for one power state (5 min): HPE and Dell were seen
	// to need more than a minute to report Off (ironic-image#366).
	Power time.Duration
	// Poll is the time between two looks at the power state, and the longest
	// pause between two tries (3 s). More often upsets real BMCs (omni#785).
	Poll time.Duration
	// Logout bounds the log-out, which runs even when the caller's context has
	// ended, and how long a write may go on after that (10 s).
	Logout time.Duration
}

func (t Timeouts) withDefaults() Timeouts {
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&t.Dial, 10 * time.Second},
		{&t.Request, 60 * time.Second},
		{&t.Operation, 2 * time.Minute},
		{&t.Power, 5 * time.Minute},
		{&t.Poll, 3 * time.Second},
		{&t.Logout, 10 * time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.standard
		}
	}
	return t
}

// parseAddress turns what people write into scheme://host[:port] without a
// trailing slash: gofish joins it to paths as text.
func parseAddress(address string) (*url.URL, error) {
	address = strings.TrimSpace(address)
	if address == "" {
		return nil, errors.New("the BMC has no address; set bmc.address to https://host or a bare host")
	}
	if !strings.Contains(address, "://") {
		if ip := net.ParseIP(address); ip != nil && strings.Contains(address, ":") {
			address = "[" + address + "]"
		}
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		// url.Parse quotes its input, which may hold credentials (I9).
		return nil, errors.New("the BMC address is not a URL; write bmc.address as https://host[:port]")
	}
	switch {
	case u.User != nil:
		return nil, fmt.Errorf("the BMC address of host %q holds a user name; move it to bmc.username and the password to bmc.passwordEnv or bmc.passwordFile", u.Hostname())
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("the BMC address of host %q has the scheme %q; write https://host[:port]", u.Hostname(), u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("the BMC address has no host; write bmc.address as https://host[:port]")
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// parseBootMode gives the Redfish name of a boot mode.
func parseBootMode(mode string) (string, error) {
	switch strings.ToLower(strings.TrimSpace(mode)) {
	case "", "uefi", "efi":
		return string(schemas.UEFIBootSourceOverrideMode), nil
	case "legacy", "bios":
		return string(schemas.LegacyBootSourceOverrideMode), nil
	}
	return "", fmt.Errorf("the boot mode %q is unknown; write bmc.bootMode as uefi or legacy", mode)
}
