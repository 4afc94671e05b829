package tftp

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"time"
)

// Options configure a Server. IPXEDir is required.
type Options struct {
	// Listen is the UDP address to serve, "0.0.0.0:69" when empty.
	Listen string
	// IPXEDir holds the iPXE binaries, as Debian's package "ipxe" installs
	// them in /usr/lib/ipxe. A binary that is not there is answered as missing.
	IPXEDir string
	// Autoexec makes the script that UEFI iPXE asks for first (autoexec.ipxe).
	// It gets the address of this host that the request reached, invalid when
	// unknown. nil answers the script as missing.
	Autoexec func(local netip.Addr) string
	// MaxTransfers bounds the transfers at one time, 1,000 when zero. When all
	// places are taken, a new client gets that of one that has not answered yet.
	MaxTransfers int
	// MaxPerClient bounds the transfers at one time to one address, 8 when
	// zero. Clients on this host's loopback are not bounded by it: there one
	// address says nothing about how many machines ask.
	MaxPerClient int
	// Timeout is the wait before a packet is sent again, 1 s when zero. It grows a
	// little with each repetition. A client may ask for another (RFC 2349).
	Timeout time.Duration
	// OnTransfer observes every transfer at its end, from several goroutines.
	OnTransfer func(Transfer)
	// Log takes the log; nil discards it.
	Log *slog.Logger
}

// Defaults of Options.
const (
	defaultListen       = "0.0.0.0:69"
	defaultMaxTransfers = 1000
	defaultMaxPerClient = 8
	defaultTimeout      = time.Second
)

func (o Options) withDefaults() (Options, error) {
	if o.Listen == "" {
		o.Listen = defaultListen
	}
	listen, err := netip.ParseAddrPort(o.Listen)
	if err != nil {
		return o, fmt.Errorf("listen address %q: %w; write it as ADDRESS:PORT, for example %s", o.Listen, err, defaultListen)
	}
	if !listen.Addr().Is4() {
		return o, fmt.Errorf("listen address %s is not IPv4: PXE firmware asks by IPv4; write it as ADDRESS:PORT, for example %s", o.Listen, defaultListen)
	}
	if o.IPXEDir == "" {
		return o, errors.New("no folder of iPXE binaries is configured: give the one that holds snponly.efi and undionly.kpxe")
	}
	if info, err := os.Stat(o.IPXEDir); err != nil || !info.IsDir() {
		return o, fmt.Errorf("the folder of iPXE binaries %s cannot be read: %w; install the package ipxe or correct the folder", o.IPXEDir, errOr(err, errNoFolder))
	}
	if o.MaxTransfers <= 0 {
		o.MaxTransfers = defaultMaxTransfers
	}
	if o.MaxPerClient <= 0 {
		o.MaxPerClient = defaultMaxPerClient
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

var errNoFolder = errors.New("it is not a folder")

func errOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}
