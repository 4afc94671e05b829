package source

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"unicode"
)

// The ways to a remote.
const (
	schemeFile  = "file"
	schemeHTTPS = "https"
	schemeSSH   = "ssh"
)

// address is where a remote is. It holds no secret.
type address struct {
	scheme, user, host string // host with port, for ssh always
	path               string
}

// parseAddress reads https://host/path, ssh://user@host/path, user@host:path and
// file:///path. What it refuses it does not repeat, since it may hold a password.
func parseAddress(text string) (address, error) {
	if strings.ContainsFunc(text, unicode.IsControl) {
		return address{}, errors.New("the URL of the inventory's remote has a control character: remove it")
	}
	if scp, ok := parseSCP(text); ok {
		return scp, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return address{}, errors.New("the URL of the inventory's remote cannot be parsed: give https://host/path, ssh://user@host/path or file:///path")
	}
	a := address{scheme: u.Scheme, host: u.Host, path: u.Path}
	if u.RawQuery != "" || u.Fragment != "" || u.ForceQuery {
		return address{}, fmt.Errorf("the URL of the inventory's remote at %s has a query or a fragment: remove it, and give a token in a file", a)
	}
	if _, hasPassword := u.User.Password(); hasPassword || u.Scheme == schemeHTTPS && u.User != nil {
		return address{}, fmt.Errorf("the URL of the inventory's remote at %s holds a user or a password: remove it, and give a token in a file or a key file", a)
	}
	switch u.Scheme {
	case schemeSSH:
		a.user = u.User.Username()
		return a.ssh()
	case schemeFile:
		if u.Host != "" || !filepath.IsAbs(u.Path) {
			return address{}, errors.New("the URL of the inventory's remote names no local folder: give file:///path")
		}
	case schemeHTTPS:
		if u.Hostname() == "" || strings.Trim(u.Path, "/") == "" {
			return address{}, errors.New("the URL of the inventory's remote names no host or no path: give https://host/path")
		}
	case "http":
		return address{}, fmt.Errorf("the inventory's remote at %s is asked without TLS, so that anybody on the way can change it: use https or ssh", a)
	default:
		return address{}, errors.New("the URL of the inventory's remote is of another kind: give https://host/path, ssh://user@host/path or file:///path")
	}
	return a, nil
}

// parseSCP reads user@host:path, which is no URL.
func parseSCP(text string) (address, bool) {
	if strings.Contains(text, "://") {
		return address{}, false
	}
	user, rest, ok := strings.Cut(text, "@")
	host, where, isPath := strings.Cut(rest, ":")
	if !ok || !isPath || strings.ContainsAny(user+host, "/:@") {
		return address{}, false
	}
	a, err := address{scheme: schemeSSH, user: user, host: host, path: where}.ssh()
	return a, err == nil
}

// ssh checks and completes an address of that kind.
func (a address) ssh() (address, error) {
	host, port, err := net.SplitHostPort(a.host)
	if err != nil {
		host, port = strings.Trim(a.host, "[]"), "22"
	}
	if a.user == "" || host == "" || strings.Trim(a.path, "/") == "" || strings.HasPrefix(host, "-") {
		return address{}, errors.New("the URL of the inventory's remote names no user, host or path: give ssh://user@host/path")
	}
	a.host = net.JoinHostPort(host, port)
	return a, nil
}

// String is the URL.
func (a address) String() string {
	if a.user != "" {
		return fmt.Sprintf("%s://%s@%s%s", a.scheme, a.user, a.host, path.Join("/", a.path))
	}
	return fmt.Sprintf("%s://%s%s", a.scheme, a.host, a.path)
}
