package web_test

import (
	"crypto/x509"
	"strings"
	"testing"

	"github.com/talos-provision/provision/provisioner/web"
)

func TestWhatWouldBeOpenToStrangersIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	cert, key := ca.issue("daemon", x509.ExtKeyUsageServerAuth)
	_, otherKey := ca.issue("daemon", x509.ExtKeyUsageServerAuth)
	tokens := file(t, adminToken)
	for _, test := range []struct {
		name string
		o    web.Options
		says string // "" when it is allowed
	}{
		{"nowhere", web.Options{}, "give one of them"},
		{"everywhere without anything", web.Options{Listen: "0.0.0.0:9090"}, "needs TLS"},
		{"everywhere, as an empty host", web.Options{Listen: ":9090", TokenFile: tokens}, "needs TLS"},
		{"everywhere on IPv6", web.Options{Listen: "[::]:9090", TokenFile: tokens}, "needs TLS"},
		{"a token in clear", web.Options{Listen: "192.0.2.1:9090", TokenFile: tokens}, "needs TLS"},
		{"a name that may be anywhere", web.Options{Listen: "admin.example:9090", TokenFile: tokens}, "needs TLS"},
		{"TLS for everybody", web.Options{Listen: "192.0.2.1:9090", CertFile: cert, KeyFile: key}, "give a token file"},
		{"TLS and a token that may only look", web.Options{Listen: "192.0.2.1:9090", CertFile: cert, KeyFile: key, ReadTokenFile: tokens}, "give a token file"},
		{"no token where it is not safe", web.Options{Listen: "192.0.2.1:9090", CertFile: cert, KeyFile: key, TokenFile: tokens, InsecureLoopback: true}, "listen on 127.0.0.1"},
		{"TLS and a token", web.Options{Listen: "192.0.2.1:9090", CertFile: cert, KeyFile: key, TokenFile: tokens}, ""},
		{"mTLS", web.Options{Listen: "192.0.2.1:9090", CertFile: cert, KeyFile: key, ClientCAFile: ca.file}, ""},
		{"loopback", web.Options{Listen: "127.0.0.1:9090"}, ""},
		{"loopback on IPv6", web.Options{Listen: "[::1]:9090"}, ""},
		{"no port", web.Options{Listen: "127.0.0.1"}, "write host:port"},
		{"a certificate without its key", web.Options{Listen: "127.0.0.1:0", CertFile: cert}, "give both"},
		{"another's key", web.Options{Listen: "127.0.0.1:0", CertFile: cert, KeyFile: otherKey}, "belong together"},
		{"client certificates in clear", web.Options{Listen: "127.0.0.1:0", ClientCAFile: ca.file}, "need TLS"},
		{"authorities that are none", web.Options{Listen: "127.0.0.1:0", CertFile: cert, KeyFile: key, ClientCAFile: tokens}, "holds no certificate"},
		{"one file for both tokens", web.Options{Listen: "127.0.0.1:0", TokenFile: tokens, ReadTokenFile: tokens}, "another file"},
		{"one token in both files", web.Options{Listen: "127.0.0.1:0", TokenFile: tokens, ReadTokenFile: file(t, adminToken+"\n")}, "the same token"},
		{"an empty token", web.Options{Listen: "127.0.0.1:0", TokenFile: file(t, "\n")}, "a token has 16"},
		{"a short token", web.Options{Listen: "127.0.0.1:0", TokenFile: file(t, "123456789012345")}, "a token has 16"},
		{"two tokens", web.Options{Listen: "127.0.0.1:0", TokenFile: file(t, adminToken+"\n"+readToken)}, "write one token"},
		{"no token file", web.Options{Listen: "127.0.0.1:0", TokenFile: "/nowhere/token"}, "no such file"},
		{"a long path", web.Options{Socket: "/tmp/" + strings.Repeat("x", 103)}, ""}, // Listen says it
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := web.New(newFake(), test.o)
			switch {
			case test.says == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)):
				t.Errorf("the error is %v; want one that says %q", err, test.says)
			case err != nil && (strings.Contains(err.Error(), adminToken) || strings.Contains(err.Error(), readToken)):
				t.Errorf("the error holds a token: %v", err)
			}
		})
	}
}

func TestAClientSendsATokenNowhereInClear(t *testing.T) {
	t.Parallel()
	tokens := file(t, adminToken)
	for _, test := range []struct {
		name string
		e    web.Endpoint
		says string // "" when it is allowed
	}{
		{"nowhere", web.Endpoint{}, "one of them"},
		{"both", web.Endpoint{Socket: "/s", URL: "https://h:1"}, "one of them"},
		{"in clear", web.Endpoint{URL: "http://192.0.2.1:9090", TokenFile: tokens}, "use https"},
		{"in clear to a name", web.Endpoint{URL: "http://localhost.example:9090"}, "use https"},
		{"a password in the URL", web.Endpoint{URL: "https://bob:hunter2@h:1"}, "give a token file"},
		{"a URL that is none", web.Endpoint{URL: "https://bob:hunter2@%zz"}, "write https://host:port"},
		{"another scheme", web.Endpoint{URL: "ftp://h:1"}, "neither https nor http"},
		{"a path", web.Endpoint{URL: "https://h:1/api"}, "leave the rest out"},
		{"half a certificate", web.Endpoint{URL: "https://h:1", CertFile: tokens}, "give both"},
		{"a long path", web.Endpoint{Socket: "/" + strings.Repeat("x", 107)}, "shorter name"},
		{"no such token", web.Endpoint{URL: "https://h:1", TokenFile: "/nowhere/token"}, "no such file"},
		{"https", web.Endpoint{URL: "https://h:1", TokenFile: tokens}, ""},
		{"loopback", web.Endpoint{URL: "http://[::1]:1", TokenFile: tokens}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := web.NewClient(test.e)
			switch {
			case test.says == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)):
				t.Errorf("the error is %v; want one that says %q", err, test.says)
			case err != nil && strings.Contains(err.Error(), "hunter2"):
				t.Errorf("the error holds the password: %v", err)
			}
		})
	}
}
