package source

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"
)

// DefaultBranch and DefaultUsername are used where GitOptions name none.
const (
	DefaultBranch   = "main"
	DefaultUsername = "git"
)

// maxBackoff is how many polls long a wait after failures gets.
const maxBackoff = 10

// GitOptions say which branch of which remote is watched. Files of secrets and keys
// are read at each look, so that they may be exchanged.
type GitOptions struct {
	Options
	// URL is https://host/path, ssh://user@host/path, user@host:path or file:///path.
	// It must hold no password.
	URL string
	// Branch is "main" by default.
	Branch string
	// Path is the folder of the inventory in the repository; its root by default.
	Path string
	// Folder is where the checkouts are kept. Only one source may use it.
	Folder string

	// TokenFile, or else the environment variable TokenEnv, holds the token for
	// https; Username goes with it, "git" by default.
	TokenFile, TokenEnv, Username string
	// CAFile holds certificates (PEM) that are trusted beside the system's.
	CAFile string
	// KeyFile is the private key for ssh, without passphrase, and KnownHosts the
	// file of the hosts' keys. Both are needed for ssh.
	KeyFile, KnownHosts string

	// VerifyKeys are files of keys: armored OpenPGP public keys, or lines as in
	// OpenSSH's allowed_signers. If there are any, a commit needs a good signature of
	// one of them.
	VerifyKeys []string
	// AllowRewind accepts a branch that no longer holds the commit in use.
	AllowRewind bool

	// Poll is how often the remote is asked, 1 m by default, and Jitter by how much at
	// most that varies, a tenth of it by default. After failures the wait doubles, up
	// to ten polls.
	Poll, Jitter time.Duration
	// Keep is how many generations stay checked out, the one in use among them; 2 by
	// default.
	Keep int
}

// NewGit makes the source of an inventory in a branch of a git remote. Nothing is
// asked yet. No program is run: neither git, nor hooks, filters or a shell.
// Submodules are left empty.
func NewGit(o GitOptions) (*Source, error) {
	where, err := parseAddress(o.URL)
	if err != nil {
		return nil, err
	}
	if err := o.complete(where); err != nil {
		return nil, err
	}
	if _, err := readSigners(o.VerifyKeys); err != nil {
		return nil, err
	}
	g := &git{options: o, where: where}
	switch where.scheme {
	case schemeFile:
		g.remote = &fileRemote{where: where}
	case schemeSSH:
		g.remote = &smartRemote{maxBytes: o.MaxBytes, dialer: &sshDialer{where: where, keyFile: o.KeyFile, knownHosts: o.KnownHosts}}
	default:
		g.remote = &smartRemote{maxBytes: o.MaxBytes, dialer: &httpsDialer{where: where, options: o}}
	}
	g.shelf = shelf{folder: o.Folder, remote: where.String(), branch: o.Branch, keep: o.Keep, maxBytes: o.MaxBytes}
	return newSource(where.String()+" branch "+o.Branch, o.Options, g), nil
}

// gitRules are what the options must not be, and what to do.
var gitRules = []struct {
	broken func(o GitOptions, scheme string) bool
	text   string
}{
	{func(o GitOptions, _ string) bool { return o.Folder == "" }, "no folder for its checkouts is given: set one below the state folder"},
	{func(o GitOptions, _ string) bool { return o.Poll < 0 || o.Jitter < 0 || o.Jitter > o.Poll }, "poll must be positive, and jitter not longer than it: correct them"},
	{func(o GitOptions, _ string) bool { return o.Keep < 1 }, "keep must be at least 1: the generation in use stays"},
	{func(o GitOptions, _ string) bool { return !filepath.IsLocal(o.Path) }, "the path leads out of the repository: give a folder in it"},
	{func(o GitOptions, _ string) bool { return !branchName(o.Branch) }, "the branch is no name of one: give one like main"},
	{func(o GitOptions, scheme string) bool {
		return scheme == schemeSSH && (o.KeyFile == "" || o.KnownHosts == "")
	}, "ssh needs a key file and a known_hosts file with the host's key: set both (ssh-keyscan prints host keys; compare them before you trust them)"},
	{func(o GitOptions, scheme string) bool {
		return scheme != schemeSSH && (o.KeyFile != "" || o.KnownHosts != "")
	}, "a key file and a known_hosts file are for ssh only: remove them"},
	{func(o GitOptions, scheme string) bool {
		return scheme != schemeHTTPS && (o.TokenFile != "" || o.TokenEnv != "" || o.CAFile != "")
	}, "a token and a CA file are for https only: remove them"},
}

func branchName(name string) bool {
	return !strings.ContainsAny(name, " ~^:?*[\\") && !strings.Contains(name, "..") && !strings.HasPrefix(name, "refs/")
}

// complete checks the options and fills in the defaults.
func (o *GitOptions) complete(where address) error {
	if err := o.check(); err != nil {
		return err
	}
	o.Options = o.withDefaults()
	orElse(&o.MaxBytes, DefaultMaxBytes)
	orElse(&o.Branch, DefaultBranch)
	orElse(&o.Username, DefaultUsername)
	orElse(&o.Poll, DefaultPoll)
	orElse(&o.Jitter, o.Poll/10)
	orElse(&o.Keep, DefaultKeep)
	orElse(&o.Path, ".")
	for _, rule := range gitRules {
		if rule.broken(*o, where.scheme) {
			return fmt.Errorf("inventory source %s: %s", where, rule.text)
		}
	}
	folder, err := filepath.Abs(o.Folder)
	if err != nil {
		return fmt.Errorf("inventory source %s: %w; give an absolute folder", where, err)
	}
	o.Folder = folder
	return nil
}

// git is a branch of a remote as an origin. Looks come one at a time.
type git struct {
	options GitOptions
	where   address
	remote  remote
	shelf   shelf
	started bool
	base    string // the commit in use; "" if there is none
}

// start remembers what was in use before this process.
func (g *git) start() error {
	if g.started {
		return nil
	}
	base, err := g.shelf.open()
	if err != nil {
		return &Refusal{Reason: Unreadable, Err: fmt.Errorf("keep checkouts of %s in %s: %w; make the folder writable", g.where, g.options.Folder, cause(err))}
	}
	g.started, g.base = true, base
	return nil
}

func (g *git) head(ctx context.Context) (*candidate, error) {
	if err := g.start(); err != nil {
		return nil, err
	}
	hash, err := g.remote.head(ctx, g.options.Branch)
	if err != nil {
		return nil, g.unreachable(ctx, err)
	}
	return g.candidate(hash), nil
}

// unreachable says what a remote that failed may be missing.
func (g *git) unreachable(ctx context.Context, err error) error {
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal), errors.Is(err, errUnsettled):
		return err
	case ctx.Err() != nil:
		return &Refusal{Reason: Unreachable, Err: fmt.Errorf("fetch the inventory from %s: no answer in time: %w; see whether the remote is up", g.where, ctx.Err())}
	}
	return &Refusal{Reason: Unreachable, Err: fmt.Errorf("fetch the inventory from %s: %w", g.where, err)}
}

func (g *git) kept(context.Context) *candidate {
	if g.start() != nil || g.base == "" {
		return nil
	}
	return g.candidate(g.base)
}

func (g *git) candidate(hash string) *candidate {
	return &candidate{id: hash, open: func(ctx context.Context) (opened, error) { return g.open(ctx, hash) }}
}

func (g *git) delay(failures int) time.Duration {
	wait := g.options.Poll
	for range min(failures-1, maxBackoff) {
		wait = min(2*wait, maxBackoff*g.options.Poll)
	}
	return wait + rand.N(2*g.options.Jitter+1) - g.options.Jitter
}

func (g *git) settle() (quiet, longest time.Duration) { return time.Second, time.Second }

func (g *git) lasting() bool { return true }

func (g *git) watch(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return nil
}
