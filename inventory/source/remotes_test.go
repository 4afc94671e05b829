package source_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/talos-provision/provision/e2e/needs"
	"github.com/talos-provision/provision/inventory/source"
)

// eachRemote runs a test over every way to a repository.
func eachRemote(t *testing.T, test func(t *testing.T, u *upstream, reach func(*source.GitOptions))) {
	t.Helper()
	for name, serve := range map[string]func(*testing.T, *upstream) func(*source.GitOptions){
		"file":  func(*testing.T, *upstream) func(*source.GitOptions) { return func(*source.GitOptions) {} },
		"https": func(t *testing.T, u *upstream) func(*source.GitOptions) { return serveHTTPS(t, u).reach },
		"ssh":   serveSSH,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t)
			test(t, u, serve(t, u))
		})
	}
}

// webServer is git's own server behind https and a token.
type webServer struct {
	*httptest.Server
	token atomic.Pointer[string]
	// instead answers in place of git, if it is set.
	instead atomic.Pointer[http.HandlerFunc]
	file    string // with the token that the client uses
	ca      string
}

const secret = "s3cr3t-t0k3n"

func serveHTTPS(t *testing.T, u *upstream) *webServer {
	t.Helper()
	needs.Program(t, "git")
	folder, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	must(t, err)
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(folder)), "git-http-backend"), Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(u.dir), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
	w := &webServer{}
	expected := secret
	w.token.Store(&expected)
	w.Server = httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if instead := w.instead.Load(); instead != nil {
			(*instead)(out, in)
			return
		}
		if user, token, _ := in.BasicAuth(); user != "git" || token != *w.token.Load() {
			out.Header().Set("WWW-Authenticate", "Basic")
			out.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprintf(out, "what is %s?", in.Header.Get("Authorization")) // a server that repeats it
			return
		}
		backend.ServeHTTP(out, in)
	}))
	t.Cleanup(w.Close)
	w.file = keep(t, "token", secret+"\n")
	w.ca = keep(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.Certificate().Raw})))
	return w
}

func (w *webServer) reach(o *source.GitOptions) {
	o.URL, o.TokenFile, o.CAFile = w.URL+"/repo", w.file, w.ca
}

// serveSSH is a small sshd that knows one key and one command.
func serveSSH(t *testing.T, u *upstream) func(*source.GitOptions) {
	t.Helper()
	needs.Program(t, "git-upload-pack")
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	host, err := ssh.NewSignerFromKey(private)
	must(t, err)
	file, public := sshKey(t)
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) != public {
			return nil, fmt.Errorf("unknown key")
		}
		return &ssh.Permissions{}, nil
	}}
	config.AddHostKey(host)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go serveConnection(connection, config, u.dir)
		}
	}()
	known := keep(t, "known_hosts", knownhosts.Line([]string{knownhosts.Normalize(listener.Addr().String())}, host.PublicKey())+"\n")
	return func(o *source.GitOptions) {
		o.URL, o.KeyFile, o.KnownHosts = fmt.Sprintf("ssh://git@%s%s", listener.Addr(), u.dir), file, known
	}
}

func serveConnection(connection net.Conn, config *ssh.ServerConfig, dir string) {
	defer func() { _ = connection.Close() }()
	server, channels, requests, err := ssh.NewServerConn(connection, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for incoming := range channels {
		channel, asked, err := incoming.Accept()
		if err != nil {
			return
		}
		for request := range asked {
			var payload struct{ Command string }
			known := request.Type == "exec" && ssh.Unmarshal(request.Payload, &payload) == nil && payload.Command == "git-upload-pack '"+dir+"'"
			_ = request.Reply(known, nil)
			if known {
				cmd := exec.CommandContext(context.Background(), "git-upload-pack", dir) // it ends with the connection
				cmd.Stdin, cmd.Stdout, cmd.Stderr = channel, channel, io.Discard
				cmd.Env = append(os.Environ(), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
				cmd.WaitDelay = time.Second
				_ = cmd.Run()
			}
			_ = channel.Close()
			break
		}
	}
	_ = server.Wait()
}

func TestEveryWayToARepository(t *testing.T) {
	t.Parallel()
	eachRemote(t, func(t *testing.T, u *upstream, reach func(*source.GitOptions)) {
		for i := range 3 {
			u.commit(t, map[string]string{"old": fmt.Sprint(i)})
		}
		u.commit(t, map[string]string{"a/n1.yaml": "serial: S1\n"})
		s, w := following(t, u, reach)
		if g := load(t, s); serials(g) != "n1=S1" {
			t.Fatalf("loaded %s", serials(g))
		}
		start(t, s)
		for i := range 3 {
			// What is as it was before the history that is here is to come too.
			hash := u.commit(t, map[string]string{"a/n1.yaml": fmt.Sprintf("serial: T%d\n", i), "old": fmt.Sprint(i)})
			looked(t, s)
			if g := w.generation(t); g.ID != hash || serials(g) != fmt.Sprintf("n1=T%d", i) {
				t.Errorf("generation %s: %s", g.ID, serials(g))
			}
		}
		w.nothing(t)
	})
}

// Only the newest commit is fetched at first, and only what follows afterwards.
func TestTheHistoryIsNotFetched(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	web := serveHTTPS(t, u)
	noise := make([]byte, 40_000)
	_, err := rand.Read(noise)
	must(t, err)
	u.commit(t, map[string]string{"big": string(noise), "a/n1.yaml": "serial: S1\n"})
	must(t, os.Remove(filepath.Join(u.dir, "big")))
	u.commit(t, nil)
	s, _ := following(t, u, func(o *source.GitOptions) { web.reach(o); o.MaxBytes = 20_000 })
	load(t, s)
	u.commit(t, map[string]string{"a/n1.yaml": "serial: S2\n"})
	if g := load(t, s); serials(g) != "n1=S2" {
		t.Errorf("loaded %s, %v", serials(g), s.Status().Refusal)
	}
	u.commit(t, map[string]string{"big": string(noise)})
	if g := load(t, s); serials(g) != "n1=S2" || s.Status().Refusal == nil || s.Status().Refusal.Reason != source.TooLarge {
		t.Errorf("loaded %s, %v", serials(g), s.Status().Refusal)
	}
}

func TestSecretsAreInNoError(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	u.commit(t, map[string]string{"a/n1.yaml": "serial: S1\n"})
	web := serveHTTPS(t, u)
	answer := func(status int) *http.HandlerFunc {
		f := http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
			_, token, _ := in.BasicAuth()
			out.Header().Set("Location", "/elsewhere?"+token)
			out.WriteHeader(status)
			_, _ = fmt.Fprintf(out, "%s %s", in.Header.Get("Authorization"), token)
		})
		return &f
	}
	other := "another"
	for _, c := range []struct {
		name   string
		before func()
		want   string
	}{
		{"the token is refused", func() { web.token.Store(&other) }, "token"},
		{"it may not read", func() { web.instead.Store(answer(http.StatusForbidden)) }, "right"},
		{"it is not there", func() { web.instead.Store(answer(http.StatusNotFound)) }, "no such repository"},
		{"the server fails", func() { web.instead.Store(answer(http.StatusInternalServerError)) }, "500"},
		{"the server speaks otherwise", func() { web.instead.Store(answer(http.StatusOK)) }, "see whether"},
		{"it leads elsewhere", func() { web.instead.Store(answer(http.StatusFound)) }, "redirect"},
		{"it is gone", web.Close, "refused"},
	} {
		c.before()
		s, _ := following(t, u, web.reach)
		_, err := s.Load(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), web.URL) {
			t.Errorf("%s: %v\nwant %q", c.name, err, c.want)
		}
		if text := fmt.Sprintf("%v %+v %s", err, s.Status(), s.Name()); strings.Contains(text, secret) || strings.Contains(text, "Z2l0OnMzY3IzdC") {
			t.Errorf("%s: the secret is told: %s", c.name, text)
		}
	}
}

func TestATokenMayBeExchanged(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	u.commit(t, map[string]string{"a/n1.yaml": "serial: S1\n"})
	web := serveHTTPS(t, u)
	s, _ := following(t, u, web.reach)
	next := "next"
	web.token.Store(&next)
	if _, err := s.Load(t.Context()); err == nil {
		t.Error("loaded with the old token")
	}
	must(t, os.WriteFile(web.file, []byte(next), 0o600))
	load(t, s)
}

func TestAServerIsTrustedByItsKeyOnly(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	u.commit(t, map[string]string{"a/n1.yaml": "serial: S1\n"})
	web, reach := serveHTTPS(t, u), serveSSH(t, u)
	otherKey, otherPublic := sshKey(t)
	for name, c := range map[string]struct {
		change func(*source.GitOptions)
		want   string
	}{
		"https of an unknown CA": {func(o *source.GitOptions) { web.reach(o); o.CAFile = "" }, "certificate"},
		"ssh of an unknown host": {func(o *source.GitOptions) { reach(o); o.KnownHosts = keep(t, "k", "other.example "+otherPublic+"\n") }, "compare the key"},
		"ssh of another host": {func(o *source.GitOptions) {
			reach(o)
			host := strings.Split(strings.TrimPrefix(o.URL, "ssh://git@"), "/")[0]
			o.KnownHosts = keep(t, "k", knownhosts.Normalize(host)+" "+otherPublic+"\n")
		}, "compare the key"},
		"a key that the server does not know": {func(o *source.GitOptions) { reach(o); o.KeyFile = otherKey }, "does not accept the key"},
		"no known_hosts file":                 {func(o *source.GitOptions) { reach(o); o.KnownHosts = "/nonexistent" }, "/nonexistent"},
		"no key file":                         {func(o *source.GitOptions) { reach(o); o.KeyFile = "/nonexistent" }, "/nonexistent"},
		"no repository":                       {func(o *source.GitOptions) { reach(o); o.URL += ".not" }, "see whether"},
	} {
		s, _ := following(t, u, c.change)
		if _, err := s.Load(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %q", name, err, c.want)
		}
	}
}

// A server that accepts and says nothing holds nobody up.
func TestASilentServerIsGivenUp(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	_, reach := listener, serveSSH(t, u)
	for _, change := range []func(*source.GitOptions){
		func(o *source.GitOptions) { o.URL = "https://" + listener.Addr().String() + "/x" },
		func(o *source.GitOptions) { reach(o); o.URL = "ssh://git@" + listener.Addr().String() + "/x" },
	} {
		s, _ := following(t, u, func(o *source.GitOptions) { change(o); o.Timeout = 200 * time.Millisecond })
		begin := time.Now()
		if _, err := s.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "no answer in time") || time.Since(begin) > 10*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	}
}
