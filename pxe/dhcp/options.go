package dhcp

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Options configure a Server. Only Subnets is required, and not even that in
// ModeProxy.
type Options struct {
	// Mode is ModeServer when empty.
	Mode Mode
	// Listen is the UDP address to serve, "0.0.0.0:67" when empty. Clients
	// without an address broadcast, so a real network needs the wildcard.
	Listen string
	// Interface binds the socket to one network interface. Empty serves every
	// interface that has an address in one of the Subnets.
	Interface string
	// Interfaces binds one socket to each of several interfaces, each with its own
	// address; it excludes Interface. Leave ServerAddress empty then, or let it be
	// the address that relays know.
	Interfaces []string
	// BootListen is the UDP address of the ProxyDHCP port, where firmware with an
	// address asks for its boot file. Empty is port 4011 of the Listen address when
	// its port is 67; when it is another one, as in tests, the port is not served.
	BootListen string
	// ServerAddress is what clients see as server (option 54) and TFTP server
	// (siaddr). When it is not set, the address that the request reached counts.
	ServerAddress netip.Addr
	// RelayPort is the port of relay agents, 67 when zero (RFC 2131 4.1).
	RelayPort int
	// Subnets are the networks served; they must not overlap.
	Subnets []Subnet
	// Reservations gives a MAC (any notation of net.ParseMAC) a fixed address,
	// which must lie inside one of the Subnets. Server.SetReservations replaces them.
	Reservations map[string]netip.Addr
	// BootURL is the HTTP base of the boot services, for example
	// http://10.0.0.1:8080. Empty leases addresses without boot options to
	// iPXE and UEFI HTTP boot clients, unless BootPort is given.
	BootURL string
	// BootPort is the port of the boot services when they are reached at the very
	// address that a client sees as server, as with several interfaces. It is used
	// when BootURL is empty.
	BootPort int
	// HTTPPath gives the path below BootURL of what a machine loads by UEFI HTTP boot,
	// by its hardware address (lower case with colons) and its architecture (amd64 or
	// arm64), such as the signed image of a machine with Secure Boot. Empty is iPXE, as
	// is a nil HTTPPath. It runs on the serving goroutine and must not block.
	HTTPPath func(mac, arch string) string
	// Admit says how far a machine is served, by its hardware address (lower case
	// with colons). It runs on the serving goroutine for each request and must not
	// block. nil serves everybody; even then a machine boots only what the boot
	// script says.
	Admit func(mac string) Admission
	// Unicast sends to clients without an address, unless they asked for a
	// broadcast, by an Ethernet frame of their own (needs CAP_NET_RAW). Off,
	// because broadcasts reach every client.
	Unicast bool
	// ReplyDelay holds answers to PXE firmware back, by the first three bytes of its
	// hardware address ("00:25:90"), 3 s at most: some ROMs miss an instant answer.
	ReplyDelay map[string]time.Duration
	// Assertive marks offers to PXE firmware so that they win against a second
	// DHCP server on the network. Off, because some firmware ignores the file
	// name of a marked offer (smee#225). In ModeProxy it tells UEFI firmware to
	// boot without asking at port 4011, which versions of before 2017 cannot
	// (edk2#6944).
	Assertive bool
	// Authoritative refuses (NAK) clients that ask for an address this server
	// knows nothing of. Off, the server stays silent: another one may know it.
	Authoritative bool
	// OfferHold is how long an offered address is kept for the client, 60 s when zero.
	OfferHold time.Duration
	// DeclineHold is how long an address that a client found in use is not
	// given to anyone, 10 min when zero.
	DeclineHold time.Duration
	// LeaseFile keeps the leases over restarts. Empty keeps them in memory only.
	LeaseFile string
	// OnLease observes every OFFER and ACK after it was sent, and in ModeProxy what
	// machines got from elsewhere. It runs on a serving goroutine, of which there
	// are several, and must not block. The client may already be downloading.
	OnLease func(Lease)
	// OnCommit observes leases after they became durable, before or after their
	// clients hear of them: those confirmed anew or for longer, and those that ended
	// early (LeaseRecord.Expires). It runs on a goroutine of its own, one call at a
	// time, with one record an address. While it is busy the server goes on and
	// gathers the next batch. Serve waits at its end for the last call, so it must
	// return. Leases that the lease file had before are told by Leases only.
	OnCommit func([]LeaseRecord)
	// OnPacket observes what came of every packet, to count it. It runs on a serving
	// goroutine for each packet and must not block; nil tells nobody.
	OnPacket func(Packet)
	// OnProblem observes what a person should look at. It runs on a serving
	// goroutine and must not block; one problem is reported once a minute.
	OnProblem func(Problem)
	// Log takes the log; nil discards it.
	Log *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Limits of configured values.
const (
	defaultListen      = "0.0.0.0:67"
	defaultRelayPort   = 67
	defaultLease       = time.Hour
	defaultOfferHold   = time.Minute
	defaultDeclineHold = 10 * time.Minute
	shortestLease      = time.Minute
	longestDelay       = 3 * time.Second
	// serverPort and bootPort are what clients have built in.
	serverPort = 67
	bootPort   = 4011
	// longestURL leaves room for the NUL in option 67, whose length is one byte.
	longestURL = 254
)

// withDefaults checks the options and fills in what was left out.
func (o Options) withDefaults() (Options, error) {
	orDefault(&o.Listen, defaultListen)
	orDefault(&o.RelayPort, defaultRelayPort)
	orDefault(&o.OfferHold, defaultOfferHold)
	orDefault(&o.DeclineHold, defaultDeclineHold)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Mode != ModeServer && o.Mode != ModeProxy {
		return o, fmt.Errorf("DHCP mode %q is not known: use %q, or leave it empty for a full server", o.Mode, ModeProxy)
	}
	if o.Interface != "" {
		if len(o.Interfaces) > 0 {
			return o, errors.New("both Interface and Interfaces are set: use one of them")
		}
		o.Interface, o.Interfaces = "", []string{o.Interface}
	}
	if o.RelayPort < 1 || o.RelayPort > 65535 {
		return o, fmt.Errorf("relay port %d is not a UDP port: use 67, or 1-65535 in a test", o.RelayPort)
	}
	if o.ServerAddress.IsValid() && !o.ServerAddress.Is4() {
		return o, fmt.Errorf("server address %s is not IPv4: PXE firmware needs an IPv4 address of this host", o.ServerAddress)
	}
	if err := o.checkPorts(); err != nil {
		return o, err
	}
	if err := o.checkBootURL(); err != nil {
		return o, err
	}
	if err := o.checkDelays(); err != nil {
		return o, err
	}
	if o.Mode == ModeProxy {
		// Addresses are another server's business.
		o.Subnets, o.Reservations, o.LeaseFile = nil, nil, ""
		return o, nil
	}
	var err error
	o.Subnets, err = checkSubnets(o.Subnets)
	return o, err
}

// checkPorts completes the ProxyDHCP port, which firmware has fixed.
func (o *Options) checkPorts() error {
	listen, err := netip.ParseAddrPort(o.Listen)
	if err != nil {
		return fmt.Errorf("listen address %q: %w; write it as ADDRESS:PORT, for example %s", o.Listen, err, defaultListen)
	}
	if o.BootListen == "" && listen.Port() == serverPort {
		o.BootListen = netip.AddrPortFrom(listen.Addr(), bootPort).String()
	}
	if o.BootListen != "" {
		if _, err := netip.ParseAddrPort(o.BootListen); err != nil {
			return fmt.Errorf("ProxyDHCP listen address %q: %w; write it as ADDRESS:PORT, for example 0.0.0.0:%d", o.BootListen, err, bootPort)
		}
	}
	if o.BootPort < 0 || o.BootPort > 65535 {
		return fmt.Errorf("boot port %d is not a TCP port: use that of the HTTP server", o.BootPort)
	}
	return nil
}

// checkDelays brings the keys of ReplyDelay into one form.
func (o *Options) checkDelays() error {
	delays := make(map[string]time.Duration, len(o.ReplyDelay))
	for oui, delay := range o.ReplyDelay {
		mac, err := net.ParseMAC(strings.ReplaceAll(oui, "-", ":") + ":00:00:00")
		if err != nil || len(mac) != 6 {
			return fmt.Errorf("reply delay for %q: it is no vendor prefix: write the first three bytes of the MAC, such as 00:25:90", oui)
		}
		if delay < 0 || delay > longestDelay {
			return fmt.Errorf("reply delay for %s is %s: use 0s to %s, firmware waits no longer", oui, delay, longestDelay)
		}
		delays[string(mac[:3])] = delay
	}
	o.ReplyDelay = delays
	return nil
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// checkBootURL refuses a base whose longest file URL does not fit option 67,
// because it would be cut silently on the wire.
func (o *Options) checkBootURL() error {
	if o.BootURL == "" {
		return nil
	}
	o.BootURL = strings.TrimRight(o.BootURL, "/")
	u, err := url.Parse(o.BootURL)
	if err != nil {
		return fmt.Errorf("boot URL: %w; use the form http://ADDRESS:PORT", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("boot URL %q is not a plain HTTP base: use the form http://ADDRESS:PORT", o.BootURL)
	}
	files := bootPaths()
	if o.HTTPPath != nil {
		files = append(files, longestHTTPPath)
	}
	for _, file := range files {
		if n := len(o.BootURL) + len(file); n > longestURL {
			return fmt.Errorf("boot URL is too long: %s%s has %d characters and DHCP option 67 takes %d: shorten the base", o.BootURL, file, n, longestURL)
		}
	}
	return nil
}
