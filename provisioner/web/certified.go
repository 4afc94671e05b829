package web

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// certified says who asks by a client certificate; false without one. It is looked at
// for every call: a connection can be older than the authorities, and outlive the certificate.
func (s *Server) certified(r *http.Request, creds *credentials) (caller, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 || creds.authorities == nil {
		return caller{}, false, nil
	}
	cert := r.TLS.PeerCertificates[0]
	between := x509.NewCertPool()
	for _, c := range r.TLS.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := cert.Verify(x509.VerifyOptions{Roots: creds.authorities.pool, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return caller{}, false, &Error{Code: CodeUnauthorized, Message: "the client certificate is not taken any more", Hint: "give one that is valid, of an authority that the daemon knows", cause: err}
	}
	known := caller{role: s.opts.certRole(cert), who: "certificate " + cert.Subject.CommonName, stand: creds.authorities.stand}
	if known.role == roleNone {
		return known, false, &Error{
			Code: CodeForbidden, Message: fmt.Sprintf("the certificate of %q is good, and nothing says what it may do", clip(cert.Subject.CommonName)),
			Hint: "add its name to admin.admins or admin.readers of the daemon",
		}
	}
	return known, true, nil
}

// certRole is what the lists say of a certificate. The list that allows less counts first.
func (o Options) certRole(cert *x509.Certificate) role {
	switch {
	case listed(o.Readers, cert):
		return roleRead
	case len(o.Admins) == 0 || listed(o.Admins, cert):
		return roleAdmin
	}
	return roleNone
}

// listed says whether an entry is the certificate's common name, or a unit that it is of.
func listed(entries []string, cert *x509.Certificate) bool {
	return slices.ContainsFunc(entries, func(entry string) bool {
		if unit, ok := strings.CutPrefix(entry, "OU="); ok {
			return slices.Contains(cert.Subject.OrganizationalUnit, unit)
		}
		return entry == cert.Subject.CommonName
	})
}
