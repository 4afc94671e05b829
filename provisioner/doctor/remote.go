package doctor

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// BMC is one baseboard management controller to reach.
type BMC struct {
	// Node is whose it is.
	Node string
	// Address is https://host[:port] or a bare host, as in the inventory.
	Address string
	// Insecure accepts any certificate, CAFile names its authority, Fingerprint
	// pins its public key (SHA-256); without any, the system's authorities count.
	Insecure    bool
	CAFile      string
	Fingerprint []byte
	// LegacyTLS accepts old versions of TLS.
	LegacyTLS bool
}

// bmcParallel bounds the connections at one time. Each BMC gets one (I10).
const bmcParallel = 32

// checkFactory asks the Image Factory for anything: its answer shows that names,
// routes, proxies and certificates are right.
func checkFactory(ctx context.Context, h *host) []Finding {
	if h.Factory == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, h.ConnectTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, strings.TrimRight(h.Factory, "/")+"/", http.NoBody)
	if err != nil {
		return []Finding{fail(h.Factory, err.Error(), "correct assets.factory in provision.yaml")}
	}
	asked := h.Now()
	response, err := h.Client.Do(request)
	if err != nil {
		var inside *url.Error
		if errors.As(err, &inside) {
			err = inside.Err // without the URL, which is the subject
		}
		return []Finding{h.noFactory(fmt.Sprintf("cannot be reached: %v", err))}
	}
	_ = response.Body.Close()
	h.sample("the Image Factory", asked, h.Now(), response.Header.Get("Date"), true)
	if response.StatusCode >= http.StatusInternalServerError {
		return []Finding{h.noFactory("answers " + response.Status)}
	}
	return []Finding{ok(h.Factory, "reachable")}
}

// noFactory is less bad when there are images already.
func (h *host) noFactory(message string) Finding {
	const hint = "check DNS, the route, and HTTPS_PROXY; without the Internet, import images (`provision assets import`) or point assets.factory at your own"
	if entries, err := os.ReadDir(h.Cache); err == nil && len(entries) > 0 {
		return warn(h.Factory, message+"; images that are in the cache can be used", hint)
	}
	return fail(h.Factory, message+", and the cache is empty", hint)
}

// checkBMCs connects to every BMC once.
func checkBMCs(ctx context.Context, h *host) []Finding {
	var mu sync.Mutex
	var bad []Finding
	var group errgroup.Group
	group.SetLimit(bmcParallel)
	targets := once(h.BMCs)
	for _, b := range targets {
		group.Go(func() error {
			if f, good := h.reach(ctx, b); !good {
				mu.Lock()
				defer mu.Unlock()
				bad = append(bad, f)
			}
			return nil
		})
	}
	_ = group.Wait() // the functions give no error
	slices.SortFunc(bad, func(a, b Finding) int { return strings.Compare(a.Subject, b.Subject) })
	if len(targets) == 0 {
		return nil
	}
	summary := ok("", fmt.Sprintf("%d of %d BMCs can be reached over TLS", len(targets)-len(bad), len(targets)))
	return append([]Finding{summary}, bad...)
}

// once drops BMCs that were named before: two nodes of one enclosure share theirs.
func once(all []BMC) []BMC {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(all), func(b BMC) bool {
		known := seen[b.Address]
		seen[b.Address] = true
		return known
	})
}

// reach connects, looks at the certificate, and reads the root document, which
// needs no account (DSP0266). good is false when a run could not use this BMC.
func (h *host) reach(ctx context.Context, b BMC) (f Finding, good bool) {
	subject := b.Node + " " + b.Address
	target, err := address(b.Address)
	if err != nil {
		return fail(subject, err.Error(), "correct bmc.address in the inventory"), false
	}
	ctx, cancel := context.WithTimeout(ctx, h.ConnectTime)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", target.Host)
	if err != nil {
		return fail(subject, "no connection: "+plain(err), "check the BMC's address, network, power, and the route and firewall from here to TCP "+target.Port()), false
	}
	defer func() { _ = conn.Close() }()
	if deadline, has := ctx.Deadline(); has {
		_ = conn.SetDeadline(deadline)
	}
	if target.Scheme == "https" {
		secure, finding, fine := handshake(ctx, conn, b, target.Hostname(), subject)
		if !fine {
			return finding, false
		}
		conn = secure
	}
	h.askDate(ctx, conn, b, target)
	return Finding{}, true
}

// handshake makes TLS and judges the certificate by itself, in order to tell
// what is wrong with it.
func handshake(ctx context.Context, raw net.Conn, b BMC, name, subject string) (*tls.Conn, Finding, bool) {
	config := &tls.Config{ServerName: name, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // verified below, to say what is wrong
	if b.LegacyTLS {
		config.MinVersion = tls.VersionTLS10
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fail(subject, "no TLS: "+plain(err), "is this a BMC's HTTPS port? an old BMC may need bmc.legacyTLS: true, or a firmware update"), false
	}
	if err := trusted(conn.ConnectionState().PeerCertificates, b, name); err != nil {
		return nil, fail(subject, "its certificate is not trusted: "+err.Error(), "give bmc.caFile or bmc.fingerprint, or bmc.insecure: true where the management network is trusted"), false
	}
	return conn, Finding{}, true
}

func trusted(chain []*x509.Certificate, b BMC, name string) error {
	if len(chain) == 0 {
		return errors.New("it sent none")
	}
	if len(b.Fingerprint) > 0 {
		if sum := sha256.Sum256(chain[0].RawSubjectPublicKeyInfo); !slices.Equal(sum[:], b.Fingerprint) {
			return fmt.Errorf("the SHA-256 of its public key is %x, bmc.fingerprint says another", sum)
		}
		return nil
	}
	if b.Insecure {
		return nil
	}
	options := x509.VerifyOptions{DNSName: name, Intermediates: x509.NewCertPool()}
	for _, c := range chain[1:] {
		options.Intermediates.AddCert(c)
	}
	if b.CAFile != "" {
		text, err := os.ReadFile(b.CAFile)
		if err != nil {
			return err
		}
		options.Roots = x509.NewCertPool()
		if !options.Roots.AppendCertsFromPEM(text) {
			return fmt.Errorf("%s holds no PEM certificate", b.CAFile)
		}
	}
	_, err := chain[0].Verify(options)
	return err
}

// askDate reads the clock of the BMC. A BMC that does not answer this one
// question is no problem of the clock.
func (h *host) askDate(ctx context.Context, conn net.Conn, b BMC, target *url.URL) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.Scheme+"://"+target.Host+"/redfish/v1/", http.NoBody)
	if err != nil {
		return
	}
	request.Close = true
	asked := h.Now()
	if err := request.Write(conn); err != nil {
		return
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), request)
	if err != nil {
		return
	}
	_ = response.Body.Close()
	h.sample("the BMC of "+b.Node, asked, h.Now(), response.Header.Get("Date"), false)
}

// address completes what people write as bmc.address. It never repeats its
// input, which might hold a password (I9).
func address(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		if ip := net.ParseIP(text); ip != nil && ip.To4() == nil {
			text = "[" + text + "]"
		}
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return nil, errors.New("its address is not of the form https://host[:port]")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80"}[u.Scheme]
	}
	if port == "" {
		port = "443"
	}
	return &url.URL{Scheme: u.Scheme, Host: net.JoinHostPort(u.Hostname(), port)}, nil
}

// plain drops what net.OpError says beside the reason.
func plain(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err.Error()
	}
	return err.Error()
}
