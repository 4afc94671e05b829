package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/upgrade"
)

// Format is how a message is written.
type Format string

// The formats.
const (
	FormatEvents Format = "events" // one JSON document an event, signed
	FormatSlack  Format = "slack"  // {"text": …}, as Slack, Mattermost and others take it
)

// RunFinished is what stands in States for the end of a run.
const RunFinished = "RunFinished"

// defaultStates are where a node's way ends, and a run.
var defaultStates = []string{"Failed", "Held", "Maintenance", "Ready", "Upgraded", RunFinished}

// knownStates are the states that an event can bring a node to, in a run or in an upgrade.
func knownStates() []string {
	return []string{
		string(provisioner.Pending), string(provisioner.Identified), string(provisioner.Armed), string(provisioner.PowerCycled),
		string(provisioner.Booting), string(provisioner.Maintenance), string(provisioner.Configured), string(provisioner.Installed),
		string(provisioner.Ready), string(provisioner.Failed), string(provisioner.Held),
		string(upgrade.Gated), string(upgrade.Cordoned), string(upgrade.Drained), string(upgrade.Upgrading), string(upgrade.Rebooting),
		string(upgrade.Verifying), string(upgrade.Uncordoned), string(upgrade.Upgraded),
		RunFinished,
	}
}

// Receiver is where messages are sent, and which ones.
type Receiver struct {
	// Name tells it from others, in the log and in the state; "" takes the URL's host. A receiver
	// with a new name begins with what happens from then on.
	Name string
	// URL is https://…, or http://… on loopback. URLFile, in place of it, is a file that holds it: that
	// of a chat is a secret.
	URL, URLFile string
	// Format is FormatEvents when empty.
	Format Format
	// SecretFile or SecretEnv, a variable, holds the key of the signatures: whsec_ and 24 to 64 bytes in
	// base64. FormatEvents needs one of them.
	SecretFile, SecretEnv string
	// Clusters and Causes leave out what is of others; empty takes all. A message without a cause,
	// such as Ready, is left out by no cause.
	Clusters, Causes []string
	// States are the states of nodes that are told, and RunFinished; empty takes those that end a run.
	States []string
	// CAFile holds authorities of the receiver's certificate; "" takes the host's.
	CAFile string
	// Timeout bounds one attempt; 0 takes 10 seconds.
	Timeout time.Duration
}

// target is a receiver that was checked.
type target struct {
	Receiver
	name   string
	url    string
	key    []byte // nil signs nothing
	client doer
}

// label names a receiver in a message; its URL may be a secret.
func (r Receiver) label(i int) string {
	if r.Name != "" {
		return strconv.Quote(r.Name)
	}
	return "number " + strconv.Itoa(i+1)
}

// target checks a receiver and reads its files.
func (r Receiver) target() (*target, error) {
	if r.Format == "" {
		r.Format = FormatEvents
	}
	if len(r.States) == 0 {
		r.States = defaultStates
	}
	if r.Timeout == 0 {
		r.Timeout = 10 * time.Second
	}
	switch {
	case r.Format != FormatEvents && r.Format != FormatSlack:
		return nil, fmt.Errorf("the format %q is not known: it can be %s or %s", r.Format, FormatEvents, FormatSlack)
	case r.Timeout < 0:
		return nil, fmt.Errorf("the timeout %s is less than nothing: give a time such as 10s", r.Timeout)
	case slices.Contains(r.States, ""), slices.Contains(r.Clusters, ""), slices.Contains(r.Causes, ""):
		return nil, errors.New("a state, cluster or cause is empty: leave the list out to take all")
	}
	for _, s := range r.States {
		if known := knownStates(); !slices.Contains(known, s) {
			return nil, fmt.Errorf("the state %q is not known: it can be %s", s, strings.Join(known, ", "))
		}
	}
	u, err := r.address()
	if err != nil {
		return nil, err
	}
	t := &target{Receiver: r, name: r.Name, url: u.String()}
	if t.name == "" {
		t.name = u.Host
	}
	if t.key, err = r.key(); err != nil {
		return nil, err
	}
	if t.client, err = r.client(); err != nil {
		return nil, err
	}
	return t, nil
}

// address is where to send. No error holds what may be a secret of it.
func (r Receiver) address() (*url.URL, error) {
	if (r.URL == "") == (r.URLFile == "") {
		return nil, errors.New("give a url or a urlFile, one of them")
	}
	text := r.URL
	if r.URLFile != "" {
		raw, err := readSmall(r.URLFile)
		if err != nil {
			return nil, fmt.Errorf("read the URL: %w; give a file that this user can read", err)
		}
		text = raw
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		return nil, errors.New("the URL cannot be read: write https://host/path")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("the URL is neither https nor http: write https://host/path")
	case u.Scheme == "http" && !onLoopback(u.Hostname()):
		return nil, errors.New("the URL would send everything in clear: use https, or an address of loopback")
	case u.User != nil:
		return nil, errors.New("the URL holds a user or a password: leave them out; messages are signed")
	case u.Fragment != "":
		return nil, errors.New("the URL holds a fragment, which is never sent: leave out what is behind #")
	}
	return u, nil
}

// key is what messages are signed with; nil where nothing is.
func (r Receiver) key() ([]byte, error) {
	var text string
	switch {
	case r.SecretFile != "" && r.SecretEnv != "":
		return nil, errors.New("give a secretFile or a secretEnv, not both")
	case r.SecretFile != "":
		raw, err := readSmall(r.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("read the secret: %w; give a file that this user can read", err)
		}
		text = raw
	case r.SecretEnv != "":
		if text = strings.TrimSpace(os.Getenv(r.SecretEnv)); text == "" {
			return nil, fmt.Errorf("the variable %s of the secret is empty: set it where the daemon is started", r.SecretEnv)
		}
	case r.Format == FormatEvents:
		return nil, errors.New("messages are signed: give a secretFile or a secretEnv")
	default:
		return nil, nil
	}
	key, err := parseSecret(text)
	if err != nil {
		return nil, err
	}
	return key, nil
}

// client sends and follows no redirect: what is signed for one must not go to another.
func (r Receiver) client() (doer, error) {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: r.Timeout}).DialContext, TLSHandshakeTimeout: r.Timeout,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, MaxIdleConns: 1, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2: true,
	}
	if r.CAFile != "" {
		pem, err := os.ReadFile(r.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the authorities: %w; give a PEM file that this user can read", err)
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the file %s holds no certificate: give a PEM file of the authorities", r.CAFile)
		}
	}
	return &http.Client{
		Transport: transport, Timeout: r.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// readSmall reads the one line that a file holds.
func readSmall(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, 4096))
	return strings.TrimSpace(string(raw)), err
}

func onLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
