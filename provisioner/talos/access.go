package talos

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	clientconfig "github.com/siderolabs/talos/pkg/machinery/client/config"
)

// Access is an administrator's way to a cluster's nodes, as one context of a
// talosconfig holds it. However it is printed, it shows no key (I9).
type Access struct {
	// Context is the context's name in the talosconfig.
	Context string
	// Endpoints and Nodes are what the context lists; a call names its node itself.
	Endpoints, Nodes []string
	// Roles are the client certificate's Talos roles, e.g. "os:admin".
	Roles []string
	// NotAfter is when the client certificate expires.
	NotAfter time.Time

	// secret gives the key and the authority. It is a function because no printer,
	// encoder or comparer looks into one.
	secret func() (certificate *tls.Certificate, authority *x509.CertPool)
}

// LoadAccess reads a context of the talosconfig at path; an empty context means
// the file's current one. Errors name the file and what to do, and quote nothing of it.
func LoadAccess(path, context string) (*Access, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the talosconfig (set its path, or make one for the cluster): %w", err)
	}
	access, err := ParseAccess(data, context)
	if err != nil {
		return nil, fmt.Errorf("talosconfig %s: %w", path, err)
	}
	return access, nil
}

// ParseAccess reads a context of a talosconfig; an empty context means its
// current one. An expired client certificate is an ErrAccessExpired.
func ParseAccess(data []byte, context string) (*Access, error) {
	config, err := clientconfig.FromBytes(data)
	if err != nil {
		// The error is not passed on: YAML errors quote what they stumble over.
		return nil, fmt.Errorf("is not valid YAML%s; fetch it again or make a new one with talosctl", lineOf(err))
	}
	if context == "" {
		context = config.Context
	}
	section := config.Contexts[context]
	switch {
	case len(config.Contexts) == 0:
		return nil, errors.New("has no contexts: it is empty, or another kind of file")
	case context == "":
		return nil, fmt.Errorf("has no current context; name one of %s", contextNames(config))
	case section == nil:
		return nil, fmt.Errorf("has no context %q; name one of %s", context, contextNames(config))
	}
	access, err := newAccess(context, section)
	if err != nil {
		return nil, fmt.Errorf("context %q: %w", context, err)
	}
	return access, access.valid(time.Now())
}

func newAccess(name string, section *clientconfig.Context) (*Access, error) {
	if section.Crt == "" || section.Key == "" {
		return nil, errors.New("holds no client certificate with its key; logins through Omni or a password are not supported: take the talosconfig that was generated with the cluster's secrets")
	}
	ca, err := base64.StdEncoding.DecodeString(section.CA)
	authority := x509.NewCertPool()
	if err != nil || !authority.AppendCertsFromPEM(ca) {
		return nil, errors.New("its ca is not a certificate in base64, so no node could be verified; generate the talosconfig again")
	}
	certificate, err := clientCertificate(section)
	if err != nil {
		return nil, err
	}
	return &Access{
		Context:   name,
		Endpoints: section.Endpoints,
		Nodes:     section.Nodes,
		Roles:     certificate.Leaf.Subject.Organization,
		NotAfter:  certificate.Leaf.NotAfter,
		secret:    func() (*tls.Certificate, *x509.CertPool) { return certificate, authority },
	}, nil
}

// clientCertificate joins certificate and key. What is wrong with them is
// not passed on: the decoders' errors may hold bytes of the key.
func clientCertificate(section *clientconfig.Context) (*tls.Certificate, error) {
	crt, crtErr := base64.StdEncoding.DecodeString(section.Crt)
	key, keyErr := base64.StdEncoding.DecodeString(section.Key)
	if crtErr != nil || keyErr != nil {
		return nil, errors.New("its crt or key is not base64; generate the talosconfig again")
	}
	certificate, err := tls.X509KeyPair(crt, key)
	if err != nil {
		return nil, errors.New("its crt and key are not a certificate in PEM and the key that belongs to it; generate the talosconfig again")
	}
	return &certificate, nil
}

// valid checks the client certificate's dates.
func (a *Access) valid(now time.Time) error {
	if now.Before(a.NotAfter) {
		return nil
	}
	return fmt.Errorf("%w on %s; make a new one from the cluster's secrets, or with `talosctl config new` on a node that still lets somebody in",
		ErrAccessExpired, a.NotAfter.UTC().Format(time.DateOnly))
}

// String names the context; the key stays hidden.
func (a Access) String() string { return fmt.Sprintf("talosconfig context %q", a.Context) }

// GoString is String.
func (a Access) GoString() string { return a.String() }

// Format prints String whatever the verb.
func (a Access) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(a.String())) }

// LogValue is what a log shows.
func (a Access) LogValue() slog.Value { return slog.StringValue(a.String()) }

// MarshalText is String, also for JSON and YAML.
func (a Access) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

func contextNames(config *clientconfig.Config) string {
	return strings.Join(slices.Sorted(maps.Keys(config.Contexts)), ", ")
}

// yamlLine finds the position in an error of the YAML decoder.
var yamlLine = regexp.MustCompile(`line (\d+)`)

func lineOf(err error) string {
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		return " in line " + m[1]
	}
	return ""
}
