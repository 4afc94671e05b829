package source

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// remote is where commits come from. Its errors hold no secret.
type remote interface {
	// head gives the commit that a branch stands at.
	head(ctx context.Context, branch string) (string, error)
	// fetch brings a branch's commit with its files; and, unless base is "", as much of
	// the history as is needed to tell whether it follows base.
	fetch(ctx context.Context, store *store, branch, hash, base string) error
}

// conversation is one exchange with a server that speaks git's protocol.
type conversation interface {
	AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error)
	UploadPack(ctx context.Context, request *packp.UploadPackRequest) (*packp.UploadPackResponse, error)
	Close() error
}

// dialer begins conversations.
type dialer interface {
	dial(ctx context.Context) (conversation, error)
	// tell makes an error one that may be shown and helps.
	tell(err error) error
}

// smartRemote is a server that speaks git's protocol.
type smartRemote struct {
	dialer   dialer
	maxBytes int64
}

func (r *smartRemote) head(ctx context.Context, branch string) (string, error) {
	var hash string
	err := r.talk(ctx, func(_ conversation, refs *packp.AdvRefs) (err error) {
		hash, err = headOf(refs, branch)
		return err
	})
	return hash, err
}

func (r *smartRemote) talk(ctx context.Context, about func(conversation, *packp.AdvRefs) error) error {
	c, err := r.dialer.dial(ctx)
	if err != nil {
		return r.dialer.tell(err)
	}
	defer func() { _ = c.Close() }()
	refs, err := c.AdvertisedReferencesContext(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return errors.New("the repository is empty: push the inventory to it")
	}
	if err == nil {
		err = about(c, refs)
	}
	if err != nil {
		return r.dialer.tell(err)
	}
	return nil
}

// branchError is about a branch, and may be shown as it is.
type branchError struct{ text string }

func (e *branchError) Error() string { return e.text }

func headOf(refs *packp.AdvRefs, branch string) (string, error) {
	hash, there := refs.References[plumbing.NewBranchReferenceName(branch).String()]
	if !there || hash.IsZero() {
		return "", &branchError{fmt.Sprintf("there is no branch %s: create it, or correct the branch", branch)}
	}
	return hash.String(), nil
}

func (r *smartRemote) fetch(ctx context.Context, store *store, branch, hash, base string) error {
	return r.talk(ctx, func(c conversation, refs *packp.AdvRefs) error {
		if now, err := headOf(refs, branch); err != nil || now != hash {
			return errors.Join(err, errUnsettled) // it moved since it was asked for
		}
		request := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
		request.Wants = []plumbing.Hash{plumbing.NewHash(hash)}
		if shallow := refs.Capabilities.Supports(capability.Shallow); shallow {
			if err := request.Capabilities.Set(capability.Shallow); err != nil {
				return err
			}
			switch {
			case base == "":
				request.Depth = packp.DepthCommits(1)
			case store.has(base):
				// What came after base: of what came before, nothing is here.
				request.Haves = []plumbing.Hash{plumbing.NewHash(base)}
				request.Shallows = request.Haves
			}
		} // a server that cannot cut the history off sends all of it
		response, err := c.UploadPack(ctx, request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Close() }()
		limited := &limitedReader{reader: pack(request.Capabilities, response), left: r.maxBytes, ctx: ctx,
			over: tooLarge("what is fetched for commit "+short(hash), r.maxBytes)}
		return store.unpack(limited)
	})
}

// pack takes the objects out of what the server sends.
func pack(agreed *capability.List, response io.Reader) io.Reader {
	switch {
	case agreed.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, response)
	case agreed.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, response)
	}
	return response
}

// limitedReader fails with an error of its own when there is too much, and ends
// with the context.
type limitedReader struct {
	reader io.Reader
	left   int64
	ctx    context.Context // a reader has no other way to end
	over   error
}

// Read reads.
func (r *limitedReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.reader.Read(p)
	if r.left -= int64(n); r.left < 0 {
		return 0, r.over
	}
	return n, err
}

// shown finds the error that may be shown as it is; nil if there is none.
func shown(err error) error {
	var refusal *Refusal
	var branch *branchError
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.As(err, &branch):
		return branch
	case errors.Is(err, errUnsettled):
		return errUnsettled
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return nil
}
