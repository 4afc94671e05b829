package main

import (
	"net"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
)

// adminConfig is where a running daemon answers, besides its socket.
type adminConfig struct {
	// Listen is an address of the admin plane; "" is defaultAdminListen where that can be had, adminOff
	// opens the socket only.
	Listen string `yaml:"listen"`
	// TokenFile holds the token that may do all, ReadTokenFile the one that may only look.
	TokenFile     string `yaml:"tokenFile"`
	ReadTokenFile string `yaml:"readTokenFile"`
	// CertFile and KeyFile make it HTTPS; ClientCAFile asks for client certificates of that authority.
	CertFile     string `yaml:"certFile"`
	KeyFile      string `yaml:"keyFile"`
	ClientCAFile string `yaml:"clientCAFile"`
	// Admins and Readers are the client certificates that may do all, and that may only look: common
	// names, or OU= and a unit. Without Admins every certificate may do all that Readers does not have.
	Admins  []string `yaml:"admins"`
	Readers []string `yaml:"readers"`
}

const (
	defaultAdminListen = "127.0.0.1:9090"
	adminOff           = "none"
)

// address is where the admin plane listens; "" nowhere. One that nobody asked for is optional.
func (c *adminConfig) address() (listen string, optional bool) {
	switch c.Listen {
	case "":
		return defaultAdminListen, true
	case adminOff:
		return "", false
	}
	return c.Listen, false
}

// etcdConfig is for a state: etcd://…. User and password come from PROVISION_ETCD_USERNAME and
// PROVISION_ETCD_PASSWORD.
type etcdConfig struct {
	CAFile   string `yaml:"caFile"`
	CertFile string `yaml:"certFile"`
	KeyFile  string `yaml:"keyFile"`
}

// serveConfig is what `provision serve` has beyond a single run.
type serveConfig struct {
	// AutoInstall starts a run for nodes that a change of the inventory marks install: true.
	AutoInstall bool `yaml:"autoInstall"`
	// Git, when it has a URL, is where the inventory comes from, in the place of a folder.
	Git gitConfig `yaml:"git"`
	// KeepEvents is how many events are kept.
	KeepEvents int `yaml:"keepEvents"`
}

// webhookConfig is a receiver of what happens, as webhook.Receiver has it.
type webhookConfig struct {
	Name       string        `yaml:"name"`
	URL        string        `yaml:"url"`
	URLFile    string        `yaml:"urlFile"`
	Format     string        `yaml:"format"`
	SecretFile string        `yaml:"secretFile"`
	SecretEnv  string        `yaml:"secretEnv"`
	Clusters   []string      `yaml:"clusters"`
	States     []string      `yaml:"states"`
	Causes     []string      `yaml:"causes"`
	CAFile     string        `yaml:"caFile"`
	Timeout    time.Duration `yaml:"timeout"`
}

// gitConfig is a branch of a git remote that holds the inventory.
type gitConfig struct {
	URL    string `yaml:"url"`
	Branch string `yaml:"branch"`
	// Path is the inventory's folder in the repository.
	Path string        `yaml:"path"`
	Poll time.Duration `yaml:"poll"`
	// TokenEnv or TokenFile is for https, KeyFile and KnownHosts are for ssh.
	TokenEnv   string `yaml:"tokenEnv"`
	TokenFile  string `yaml:"tokenFile"`
	KeyFile    string `yaml:"keyFile"`
	KnownHosts string `yaml:"knownHosts"`
	// CAFile holds certificates that are trusted beside the system's.
	CAFile string `yaml:"caFile"`
	// VerifyKeys are files of the keys one of which must have signed the commit.
	VerifyKeys []string `yaml:"verifyKeys"`
	// AllowRewind accepts a branch whose history was rewritten.
	AllowRewind bool `yaml:"allowRewind"`
}

// sharesState says whether the state is etcd's, which several controllers share.
func (c *config) sharesState() bool { return store.IsEtcd(c.State) }

// folder is where what belongs to this host is kept: leases, sockets, checkouts. It is
// the state's own folder, where the state is one.
func (c *config) folder() string {
	if c.sharesState() {
		return c.Local
	}
	return c.State
}

// stateFile is where the state of the nodes is kept.
func (c *config) stateFile() string { return filepath.Join(c.State, "state.db") }

// stateLocation is the state as package store takes it: a file, or etcd.
func (c *config) stateLocation() string {
	if c.sharesState() {
		return c.State
	}
	return c.stateFile()
}

// liveSocket is where a daemon, or a run that holds the state, answers.
func (c *config) liveSocket() string { return filepath.Join(c.folder(), "run.sock") }

// checkouts is where the generations of a git source are kept.
func (c *config) checkouts() string { return filepath.Join(c.folder(), "inventory") }

// leaseFile is where DHCP leases are kept.
func (c *config) leaseFile() string { return filepath.Join(c.folder(), "leases") }

func (c *adminConfig) check() error {
	if (len(c.Admins) > 0 || len(c.Readers) > 0) && c.ClientCAFile == "" {
		return usageError("admin.admins and admin.readers are of client certificates: give admin.clientCAFile")
	}
	if c.Listen == "" || c.Listen == adminOff {
		return nil
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return usageError("admin.listen %s: %v", c.Listen, err)
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return usageError("admin.certFile and admin.keyFile belong together")
	}
	address, err := netip.ParseAddr(host)
	local := host == "localhost" || err == nil && address.IsLoopback()
	if !local && (c.CertFile == "" || c.TokenFile == "" && c.ClientCAFile == "") {
		return usageError("admin.listen %s is reached from other hosts: give admin.certFile and keyFile, and a tokenFile or clientCAFile, or listen on 127.0.0.1", c.Listen)
	}
	return nil
}

func (c *serveConfig) check() error {
	if c.KeepEvents < 0 {
		return usageError("serve.keepEvents is %d: give a number of events, or 0 for the default", c.KeepEvents)
	}
	if c.Git.URL == "" && (c.Git.Branch != "" || len(c.Git.VerifyKeys) > 0) {
		return usageError("serve.git has no url")
	}
	return nil
}
