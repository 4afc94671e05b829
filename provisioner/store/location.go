package store

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Options are how a state is opened; all but ReadOnly are of etcd.
type Options struct {
	// Controller says who we are, for others to read; "" is host/pid.
	Controller string
	// ReadOnly opens the state to look at it: it has no session and no rights.
	ReadOnly bool
	// TTL is after how long of silence this controller is taken for dead, in whole
	// seconds and at least 2; 0 takes 5 seconds.
	TTL time.Duration
	// Timeout bounds each request to etcd; 0 takes 5 seconds.
	Timeout time.Duration
	// CAFile, CertFile and KeyFile are PEM files for TLS: who signed etcd's
	// certificate, and who we are. With any of them, TLS is used.
	CAFile, CertFile, KeyFile string
	// Username and Password are etcd's; they are never told to anybody else (I9).
	Username, Password string
	// Log takes what happens to the session; nil discards it.
	Log *slog.Logger
}

// Where the command line takes Options.Username and Options.Password from.
const (
	EnvUsername = "PROVISION_ETCD_USERNAME"
	EnvPassword = "PROVISION_ETCD_PASSWORD"
)

func (o Options) withDefaults() Options {
	if o.Controller == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown host"
		}
		o.Controller = host + "/" + strconv.Itoa(os.Getpid())
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.TTL = max(cmp.Or(o.TTL, 5*time.Second), 2*time.Second)
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	return o
}

const (
	schemeEtcd    = "etcd://"
	schemeEtcdTLS = "etcd+tls://"
	defaultPrefix = "provision"
)

// IsEtcd says whether a location is of etcd, rather than a path.
func IsEtcd(location string) bool {
	return strings.HasPrefix(location, schemeEtcd) || strings.HasPrefix(location, schemeEtcdTLS)
}

// place is where in which etcd a state is.
type place struct {
	hosts  []string // host:port
	prefix string   // without slashes at its ends
	tls    bool
}

func (p place) String() string {
	scheme := schemeEtcd
	if p.tls {
		scheme = schemeEtcdTLS
	}
	return scheme + strings.Join(p.hosts, ",") + "/" + p.prefix
}

// parseLocation reads etcd://host:port,host:port[/prefix]. Its errors do not quote
// what may be a password.
func parseLocation(location string) (place, error) {
	p := place{tls: strings.HasPrefix(location, schemeEtcdTLS)}
	rest := strings.TrimPrefix(strings.TrimPrefix(location, schemeEtcdTLS), schemeEtcd)
	if strings.ContainsAny(rest, "@?#") {
		return p, fmt.Errorf("the location of the state has a user or options in it: give etcd://host:port,host:port/prefix, and the user by %s and %s", EnvUsername, EnvPassword)
	}
	hosts, prefix, _ := strings.Cut(rest, "/")
	p.prefix = cmp.Or(strings.Trim(prefix, "/"), defaultPrefix)
	for host := range strings.SplitSeq(hosts, ",") {
		if err := checkHost(host); err != nil {
			return p, fmt.Errorf("the location of the state %s: %w; give etcd://host:port,host:port/prefix", location, err)
		}
		p.hosts = append(p.hosts, host)
	}
	if strings.ContainsFunc(p.prefix, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return p, errors.New("the location of the state has a control character in its prefix: give etcd://host:port,host:port/prefix")
	}
	return p, nil
}

func checkHost(hostPort string) error {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || host == "" {
		return fmt.Errorf("%q is no host:port", hostPort)
	}
	return nil
}
