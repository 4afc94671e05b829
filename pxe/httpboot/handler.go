package httpboot

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/talos-provision/provision/pxe/assets"
)

// Options configures a Handler. Everything may be left out; what is missing is
// answered 404, and every machine is then sent to its own disk.
type Options struct {
	// Director decides what a machine boots.
	Director Director
	// Assets holds kernels and initramfs files.
	Assets *assets.Cache
	// Allow says whether a boot file may be fetched from the factory for a
	// client. Files for which it says no, and all of them when it is nil, are
	// served from the cache only: a stranger must not make us download.
	Allow func(assets.Ref) bool
	// IPXEDir holds the iPXE binaries.
	IPXEDir string
	// BaseURL is the URL, without a slash at its end, by which the client that
	// sent the request reaches this server. nil means the address that the
	// connection came in on, which is right unless there is NAT between.
	BaseURL func(*http.Request) string
	// OnScript is called for every machine that was told what to boot, by a script
	// or by a UKI or its absence, with the answer as it was given: an Install that
	// cannot be carried out arrives here as LocalBoot. The Request holds all that
	// the machine said.
	OnScript func(Request, Answer)
	// HandOut gives machine configs to machines that were told to fetch theirs; nil gives none.
	HandOut HandOuter
	// OnTransfer is called at the end of every file transfer.
	OnTransfer func(Transfer)
	// OnRequest is called at the end of every request, to count it. It must not block.
	OnRequest func(Served)
	// OnProgress is called while a file is sent, for each transfer at most once a
	// second and never for one that takes less. It must not block.
	OnProgress func(Progress)
	// MaxTransfers bounds the kernels and initramfs files sent at one time; the
	// excess is told to come back in some seconds. Everything else is exempt:
	// only iPXE comes back. 0 means no bound.
	MaxTransfers int
	// StallTimeout ends a transfer to a machine that takes next to nothing (64
	// KiB) for so long; 0 means 60 s.
	StallTimeout time.Duration
	// Log receives scripts served (info) and transfers (debug); nil discards.
	Log *slog.Logger
}

// Handler is the HTTP side of the boot plane. It is safe for concurrent use.
//
//	/boot.ipxe?serial=…&board-serial=…&uuid=…&mac=…&arch=…&platform=…   the machine's script
//	/autoexec.ipxe, in any directory                                     the script that asks for it
//	/ipxe/<binary>                                                       iPXE itself, for UEFI HTTP boot
//	/image/<schematic>/<version>/<file>                                  kernel, initramfs, UKI, ISO
//	/uki/<mac or uuid>/<arch>.efi                                        the signed UKI of an armed machine with Secure Boot
//	/config/<token>                                                      a machine config, once
//	/healthz                                                             200 while it serves
//
// It is not a ServeMux because that redirects // and . in paths, and UEFI
// firmware does not follow redirects (edk2#9714, smee#229). It never looks at
// Host either: firmware sends it without the port.
type Handler struct {
	opts  Options
	log   *slog.Logger
	slots *admission

	sending atomic.Int64 // files that are being sent

	mu    sync.Mutex
	etags map[string]etag // by name of binary, a closed set
}

// New makes a handler.
func New(o Options) *Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.StallTimeout <= 0 {
		o.StallTimeout = time.Minute
	}
	if o.BaseURL == nil {
		o.BaseURL = localURL
	}
	return &Handler{opts: o, log: o.Log, slots: newAdmission(o.MaxTransfers), etags: map[string]etag{}}
}

// ServeHTTP answers a request, and tells of it.
func (h *Handler) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w := newResponse(rw, h.opts.StallTimeout)
	if h.opts.OnRequest == nil {
		h.route(w, r)
		return
	}
	start := time.Now()
	what := h.route(w, r)
	h.opts.OnRequest(Served{What: what, Status: w.status, Bytes: w.sent, Duration: w.last.Sub(start)})
}

// route goes by the cleaned path, without redirects, and says what was asked for.
func (h *Handler) route(w *response, r *http.Request) What {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		text(w, http.StatusMethodNotAllowed, "only GET and HEAD\n")
		return WhatElse
	}
	if r.ContentLength != 0 {
		// A body would be read at the client's leisure before the next request.
		w.Header().Set("Connection", "close")
		text(w, http.StatusBadRequest, "a request with a body makes no sense here\n")
		return WhatElse
	}
	clean := path.Clean("/" + r.URL.Path)
	switch {
	case clean == "/boot.ipxe":
		h.serveScript(w, r)
		return WhatScript
	case path.Base(clean) == "autoexec.ipxe":
		text(w, http.StatusOK, Autoexec(h.opts.BaseURL(r)))
		return WhatAutoexec
	case strings.HasPrefix(clean, "/ipxe/"):
		h.serveBinary(w, r, binaryName(clean))
		return WhatBinary
	case strings.HasPrefix(clean, "/image/"):
		return h.serveImage(w, r, strings.TrimPrefix(clean, "/image/"))
	case strings.HasPrefix(clean, ukiPrefix):
		h.serveUKI(w, r, strings.TrimPrefix(clean, ukiPrefix))
		return WhatUKI
	case strings.HasPrefix(clean, configPrefix):
		h.serveConfig(w, r, strings.TrimPrefix(clean, configPrefix))
		return WhatConfig
	case clean == "/healthz":
		text(w, http.StatusOK, "ok\n")
		return WhatHealth
	default:
		notFound(w)
		return WhatElse
	}
}

// serveScript answers a machine. There is always a script, whatever was sent:
// after an error iPXE would go on to its next NIC, and UEFI to its menu (I3).
func (h *Handler) serveScript(w *response, r *http.Request) {
	base := h.opts.BaseURL(r)
	if r.URL.RawQuery == "" {
		// A BIOS iPXE comes here by the plain URL in its DHCP answer.
		text(w, http.StatusOK, "#!ipxe\n"+ask(base))
		return
	}
	req := ParseRequest(r.URL.RawQuery, source(r))
	req.Head = r.Method == http.MethodHead // nobody boots a HEAD
	answer := h.decide(r.Context(), req)
	if answer.Kind == LocalBoot && answer.LocalBoot == LocalBootHTTP404 {
		notFound(w)
	} else {
		body := script(answer, req, base)
		text(w, http.StatusOK, body)
		answer.Script = withoutToken(body, answer.ConfigToken)
	}
	if req.Head {
		return
	}
	if answer.Node != "" {
		// A state that is out of reach for a moment must not keep a node of the inventory waiting.
		_ = w.ctl.Flush() // an error is of a machine that went away
	}
	h.tell(req, answer)
}

// withoutToken is a script that people may see: who has the token may fetch a machine config (I9).
func withoutToken(script, token string) string {
	if token == "" {
		return script
	}
	return strings.ReplaceAll(script, token, "[one-time-token]")
}

// tell logs and reports what a machine was answered.
func (h *Handler) tell(req Request, answer Answer) {
	h.log.Info("answered a machine that asks what to boot", "kind", answer.Kind.String(), "node", answer.Node, "source", req.Source,
		"serial", req.Facts.Serial, "boardSerial", req.Facts.BoardSerial, "uuid", req.Facts.UUID, "macs", req.MACs(),
		"arch", req.Arch, "platform", req.Platform, "firmware", req.Firmware, "reason", answer.Reason)
	if h.opts.OnScript != nil {
		h.opts.OnScript(req, answer)
	}
}

// text answers with a short text. Content-Length is explicit because a HEAD must
// have it too.
func text(w http.ResponseWriter, status int, body string) {
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // the client went away; there is nobody to tell
}

func notFound(w http.ResponseWriter) {
	text(w, http.StatusNotFound, "not found\n")
}

// busy sends a machine away for a while. iPXE honours Retry-After on any error
// status and asks again on the same connection; the spread keeps a rack that
// was switched on at once from coming back at once.
func busy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", strconv.Itoa(2+rand.IntN(9)))
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusServiceUnavailable)
}

// source is the client's address, without the IPv4-in-IPv6 form of a dual-stack listener.
func source(r *http.Request) netip.Addr {
	addr, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return addr.Addr().Unmap()
}

// localURL is the base URL that the client itself used, taken from the address
// of the connection: on a wildcard listener the server's own address differs
// from one network to the next.
func localURL(r *http.Request) string {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil {
		return "http://" + r.Host
	}
	addr, err := netip.ParseAddrPort(local.String())
	if err != nil {
		return "http://" + local.String()
	}
	return URL(addr.Addr(), addr.Port())
}

// URL is the base URL of a server at addr and port, in a form that firmware can
// use: a literal without a zone, IPv4 as IPv4.
func URL(addr netip.Addr, port uint16) string {
	return fmt.Sprintf("http://%s", netip.AddrPortFrom(addr.Unmap().WithZone(""), port))
}
