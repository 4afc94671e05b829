package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/crypto/ssh"
)

// sshDialer talks to a server by ssh. It knows nothing of ssh's configuration files
// and agents: only the key and the host keys that it was given count.
type sshDialer struct {
	where               address
	keyFile, knownHosts string
}

func (d *sshDialer) dial(ctx context.Context) (conversation, error) {
	config, err := d.config()
	if err != nil {
		return nil, &branchError{err.Error()}
	}
	connection, err := (&net.Dialer{Timeout: connectTimeout}).DialContext(ctx, "tcp", d.where.host)
	if err != nil {
		return nil, err
	}
	// Nothing of ssh ends with a context: its connection does.
	c := &sshConversation{stop: context.AfterFunc(ctx, func() { _ = connection.Close() }), connection: connection}
	if err := c.begin(d.where, config); err != nil {
		_ = c.Close()
		return nil, errors.Join(err, ctx.Err())
	}
	return c, nil
}

func (d *sshDialer) config() (*ssh.ClientConfig, error) {
	content, err := readSmall(d.keyFile)
	if err != nil {
		return nil, fmt.Errorf("read the key for ssh: %w; correct its path", err)
	}
	key, err := ssh.ParsePrivateKey(content)
	if err != nil {
		return nil, fmt.Errorf("the key for ssh in %s cannot be read: give a private key without passphrase", d.keyFile)
	}
	if _, err := readSmall(d.knownHosts); err != nil {
		return nil, fmt.Errorf("read the hosts' keys: %w; write the key of %s to it", err, d.where.host)
	}
	known, err := gitssh.NewKnownHostsDb(d.knownHosts)
	if err != nil {
		return nil, fmt.Errorf("read the hosts' keys in %s: %w; correct that line", d.knownHosts, err)
	}
	return &ssh.ClientConfig{
		User: d.where.user, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)},
		HostKeyCallback: known.HostKeyCallback(), HostKeyAlgorithms: known.HostKeyAlgorithms(d.where.host), Timeout: connectTimeout,
	}, nil
}

func (d *sshDialer) tell(err error) error {
	if known := shown(err); known != nil {
		return known
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "knownhosts:"):
		return fmt.Errorf("the host's key is not the one in %s, or none of it is there: %s; compare the key with the server's owner before you change the file", d.knownHosts, clean(text, nil))
	case strings.Contains(text, "unable to authenticate"):
		return fmt.Errorf("the server does not accept the key in %s: give it the right to read the repository", d.keyFile)
	}
	return errors.New(clean(text, nil) + "; see whether the server is up and the URL is right")
}

// sshConversation is one git-upload-pack at the other end of a connection.
type sshConversation struct {
	connection net.Conn
	stop       func() bool
	client     *ssh.Client
	session    *ssh.Session
	in         io.WriteCloser
	out        io.Reader
}

func (c *sshConversation) begin(where address, config *ssh.ClientConfig) error {
	connection, channels, requests, err := ssh.NewClientConn(c.connection, where.host, config)
	if err != nil {
		return err
	}
	c.client = ssh.NewClient(connection, channels, requests)
	if c.session, err = c.client.NewSession(); err != nil {
		return err
	}
	if c.in, err = c.session.StdinPipe(); err != nil {
		return err
	}
	if c.out, err = c.session.StdoutPipe(); err != nil {
		return err
	}
	return c.session.Start("git-upload-pack " + quoted(where.path))
}

// quoted makes a path one word of the server's shell.
func quoted(path string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(path) + "'"
}

// AdvertisedReferencesContext reads what the server has. The context is the one of dial.
func (c *sshConversation) AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error) {
	refs := packp.NewAdvRefs()
	limited := &limitedReader{reader: c.out, left: maxAnswer, ctx: ctx, over: tooLarge("the server's answer", maxAnswer)}
	err := refs.Decode(limited)
	switch {
	case errors.Is(err, packp.ErrEmptyAdvRefs):
		return nil, transport.ErrEmptyRemoteRepository
	case errors.Is(err, packp.ErrEmptyInput):
		return nil, errors.Join(errors.New("the server shows no repository"), ctx.Err())
	case err != nil:
		return nil, errors.Join(err, ctx.Err())
	}
	transport.FilterUnsupportedCapabilities(refs.Capabilities)
	return refs, nil
}

// UploadPack asks for objects.
func (c *sshConversation) UploadPack(ctx context.Context, request *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	if err := request.Validate(); err != nil {
		return nil, err
	}
	err := request.UploadRequest.Encode(c.in)
	if err == nil {
		err = request.UploadHaves.Encode(c.in, false)
	}
	if err == nil {
		err = pktline.NewEncoder(c.in).EncodeString("done\n")
	}
	if err != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	response := packp.NewUploadPackResponse(request)
	if err := response.Decode(io.NopCloser(c.out)); err != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	return response, nil
}

// Close ends the conversation and its goroutines.
func (c *sshConversation) Close() error {
	c.stop()
	if c.client != nil {
		_ = c.client.Close()
		_ = c.client.Wait()
	}
	_ = c.connection.Close()
	return nil
}
