// Package doctor looks at a host and at its networks, and says whether they are
// fit to provision from. It changes nothing: it reads, connects, and asks one
// DHCP question.
package doctor

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Result is how a check ended.
type Result string

// The results, from good to bad.
const (
	OK   Result = "ok"
	Warn Result = "warn" // works, or may work, but a person should know
	Fail Result = "fail" // a run would not get through
)

// Finding is what one check says of one subject.
type Finding struct {
	// Check is the check's name, a stable word.
	Check string `json:"check"`
	// Subject is what was looked at: an interface, a port, a BMC.
	Subject string `json:"subject,omitempty"`
	Result  Result `json:"result"`
	// Message says what was seen.
	Message string `json:"message"`
	// Hint says what to do; empty when the result is ok.
	Hint string `json:"hint,omitempty"`
}

// Mode is who gives machines their addresses.
type Mode string

// The modes of dhcp.mode.
const (
	ModeServer Mode = "server"
	ModeProxy  Mode = "proxy"
	ModeOff    Mode = "off"
)

// Port is a port that a boot service wants.
type Port struct {
	// Service names it for a person: DHCP, TFTP, HTTP.
	Service string
	// Network is udp or tcp.
	Network string
	// Listen is the address; an unspecified one means every address.
	Listen netip.AddrPort
}

// Options is what to look at. Everything may be left out; what is missing is
// not checked.
type Options struct {
	// Interfaces are the ports in the provisioning networks, usually one.
	Interfaces []string
	// Address is this host's configured address there.
	Address netip.Addr
	// Subnets are the networks that DHCP serves.
	Subnets []netip.Prefix
	// Mode is dhcp.mode; Assertive says that our offers win against a second server.
	Mode      Mode
	Assertive bool
	Ports     []Port

	// IPXEDir holds the iPXE binaries; Archs are the architectures of the nodes.
	IPXEDir string
	Archs   []string
	// Factory is the Image Factory's URL, Cache the folder of its files, State that of the state.
	Factory, Cache, State string
	// BMCs are asked whether they are there.
	BMCs []BMC

	// ProbeTime is how long DHCP servers may take to answer, 3 s when zero.
	ProbeTime time.Duration
	// ConnectTime bounds each connection to the factory or a BMC, 10 s when zero.
	ConnectTime time.Duration
	// Client asks the factory; nil means one with the usual proxies of the environment.
	Client *http.Client
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Log may be nil.
	Log *slog.Logger
}

// host is a look at one host: the options and what the checks found on the way.
type host struct {
	Options
	proc string // where /proc is

	mu    sync.Mutex
	dates []clockSample
}

// check looks at one thing. Checks run at the same time.
type check struct {
	name string
	run  func(ctx context.Context, h *host) []Finding
}

// checks in the order in which they are told. The clock is looked at last, from
// what the answers of the factory and the BMCs said.
var checks = []check{
	{"interface", eachLink(checkInterface)},
	{"address", eachLink(checkAddress)},
	{"ports", checkPorts},
	{"dhcp", eachLink(checkDHCP)},
	{"ipxe", checkIPXE},
	{"factory", checkFactory},
	{"cache", checkCache},
	{"state", checkState},
	{"bmc", checkBMCs},
}

// Run makes every check and returns what was found, in a fixed order.
func Run(ctx context.Context, o Options) []Finding {
	h := newHost(o)
	found := make([][]Finding, len(checks)+1)
	var all sync.WaitGroup
	for i, c := range checks {
		all.Go(func() { found[i] = named(c.name, c.run(ctx, h)) })
	}
	all.Wait()
	found[len(checks)] = named("clock", checkClock(h))
	return slices.Concat(found...)
}

func newHost(o Options) *host {
	if o.ProbeTime <= 0 {
		o.ProbeTime = 3 * time.Second
	}
	if o.ConnectTime <= 0 {
		o.ConnectTime = 10 * time.Second
	}
	if o.Client == nil {
		o.Client = &http.Client{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &host{Options: o, proc: "/proc"}
}

func named(check string, found []Finding) []Finding {
	for i := range found {
		found[i].Check = check
	}
	return found
}

// Worst is the worst result among findings, OK when there are none.
func Worst(found []Finding) Result {
	worst := OK
	for _, f := range found {
		if f.Result == Fail || (f.Result == Warn && worst == OK) {
			worst = f.Result
		}
	}
	return worst
}

func ok(subject, message string) Finding {
	return Finding{Subject: subject, Result: OK, Message: message}
}

func warn(subject, message, hint string) Finding {
	return Finding{Subject: subject, Result: Warn, Message: message, Hint: hint}
}

func fail(subject, message, hint string) Finding {
	return Finding{Subject: subject, Result: Fail, Message: message, Hint: hint}
}
