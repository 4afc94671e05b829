// Package pxe runs what machines talk to before Linux runs: DHCP, TFTP and HTTP,
// started and stopped as one.
package pxe

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/talos-provision/provision/pxe/dhcp"
	"github.com/talos-provision/provision/pxe/httpboot"
	"github.com/talos-provision/provision/pxe/tftp"
)

// Default listen addresses.
const (
	defaultHTTP = ":8080"
	defaultTFTP = "0.0.0.0:69"
	defaultDHCP = "0.0.0.0:67"
)

// Options configures Services.
type Options struct {
	// DHCP configures the DHCP server; nil leaves it out, for networks whose own
	// server points machines here. An empty BootURL is filled in from BaseURL, or
	// from ServerAddress and the port that HTTP is bound to; with several
	// interfaces each has its own.
	DHCP *dhcp.Options
	// TFTP configures the TFTP server; nil leaves it out, for machines that boot
	// by UEFI HTTP only. A nil Autoexec is filled in, an empty IPXEDir is HTTP's.
	TFTP *tftp.Options
	// HTTP configures the HTTP server, which is always there.
	HTTP HTTP
	// BaseURL is how machines reach the HTTP server, such as http://10.0.0.1:8080.
	// Empty means the address of this host that the machine itself used, which is
	// right unless there is NAT between.
	BaseURL string
	// Log is used by the services that have none of their own; nil discards.
	Log *slog.Logger
}

// HTTP is the HTTP server's part of Options.
type HTTP struct {
	// Listen is the TCP address; empty means ":8080".
	Listen string
	httpboot.Options
}

// withDefaults checks the options and completes what does not depend on a port.
// It copies DHCP and TFTP, so that the caller's values stay as they were.
func (o Options) withDefaults() (Options, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.BaseURL = strings.TrimRight(o.BaseURL, "/")
	if err := checkBaseURL(o.BaseURL); err != nil {
		return o, err
	}
	orDefault(&o.HTTP.Listen, defaultHTTP)
	if o.HTTP.Log == nil {
		o.HTTP.Log = o.Log
	}
	if o.TFTP != nil {
		t := *o.TFTP
		orDefault(&t.Listen, defaultTFTP)
		orDefault(&t.IPXEDir, o.HTTP.IPXEDir)
		t.Listen = anyAddress(t.Listen)
		if t.Log == nil {
			t.Log = o.Log
		}
		o.TFTP = &t
	}
	if o.DHCP != nil {
		d := *o.DHCP
		orDefault(&d.Listen, defaultDHCP)
		orDefault(&d.BootURL, o.BaseURL)
		d.Listen = anyAddress(d.Listen)
		if d.Log == nil {
			d.Log = o.Log
		}
		o.DHCP = &d
	}
	return o, nil
}

func orDefault(s *string, value string) {
	if *s == "" {
		*s = value
	}
}

// anyAddress writes the short form ":69" out. DHCP and TFTP are IPv4.
func anyAddress(listen string) string {
	if strings.HasPrefix(listen, ":") {
		return "0.0.0.0" + listen
	}
	return listen
}

func checkBaseURL(base string) error {
	if base == "" {
		return nil
	}
	u, err := url.Parse(base)
	if err != nil {
		return fmt.Errorf("advertised URL: %w; use the form http://ADDRESS:PORT", err)
	}
	// iPXE of BIOS machines has no TLS, and the URL stands in scripts without quotes.
	if u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || strings.ContainsAny(base, " \t\r\n$#;|&") {
		return fmt.Errorf("advertised URL %q is not a plain http URL; use the form http://ADDRESS:PORT", u.Redacted())
	}
	return nil
}

// bootURL is the base that DHCP answers carry. They are made before a machine
// speaks to us over HTTP, so the address must be known beforehand. It is empty
// when that depends on the interface that a machine asks at.
func bootURL(o Options, http netip.AddrPort) string {
	if o.DHCP.BootURL != "" {
		return o.DHCP.BootURL
	}
	if len(o.DHCP.Interfaces) > 1 {
		return ""
	}
	for _, addr := range []netip.Addr{o.DHCP.ServerAddress, http.Addr()} {
		if addr.IsValid() && !addr.IsUnspecified() {
			return httpboot.URL(addr, http.Port())
		}
	}
	return ""
}

// scriptURL is the base that a TFTP client finds HTTP by: at the address of this
// host that it used for TFTP.
func scriptURL(o Options, http netip.AddrPort, local netip.Addr) string {
	if o.BaseURL != "" {
		return o.BaseURL
	}
	if !local.IsValid() || local.IsUnspecified() {
		if o.DHCP != nil && o.DHCP.ServerAddress.IsValid() {
			local = o.DHCP.ServerAddress
		} else {
			local = http.Addr()
		}
	}
	return httpboot.URL(local, http.Port())
}

// addrPort is a listener's address; TCP listeners of this package always have one.
func addrPort(a net.Addr) netip.AddrPort {
	if tcp, ok := a.(*net.TCPAddr); ok {
		ap := tcp.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	return netip.AddrPort{}
}
