package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/talos-provision/provision/inventory"
)

// open makes a commit's files available, once everything that can be known without
// reading them speaks for it.
func (g *git) open(ctx context.Context, hash string) (opened, error) {
	// What is checked out already may be used if that is no step back.
	if hash == g.base || g.options.AllowRewind {
		if raw := g.shelf.find(ctx, hash); raw != nil {
			commit, err := g.verified(hash, raw)
			if err != nil {
				return opened{}, err
			}
			return g.opened(hash, commit, g.shelf.tree(hash), func() error { return g.use(hash) }, nil)
		}
	}
	store, err := openStore(g.shelf.store(), g.options.MaxBytes)
	if err != nil {
		return opened{}, &Refusal{Reason: Unreadable, Err: fmt.Errorf("open the copy of %s in %s: %w; make the folder writable", g.where, g.options.Folder, cause(err))}
	}
	if err := g.fetch(ctx, store, hash); err != nil {
		return opened{}, err
	}
	raw, err := store.commit(hash)
	if err != nil {
		return opened{}, g.damaged(store, err)
	}
	commit, err := g.verified(hash, raw)
	if err != nil {
		return opened{}, err
	}
	tree, err := g.shelf.begin(hash)
	if err != nil {
		return opened{}, &Refusal{Reason: Unreadable, Err: fmt.Errorf("check out the inventory of %s: %w; make the folder writable", g.where, err)}
	}
	drop := func() { g.shelf.drop(hash) }
	if err := g.checkOut(ctx, store, hash, tree); err != nil {
		drop()
		return opened{}, err
	}
	return g.opened(hash, commit, tree, func() error { return g.accept(ctx, store, hash, raw) }, drop)
}

// opened loads the inventory of a checkout.
func (g *git) opened(hash string, commit *Commit, tree string, keep func() error, drop func()) (opened, error) {
	folder := filepath.Join(tree, filepath.FromSlash(g.options.Path))
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		if drop != nil {
			drop()
		}
		return opened{}, &Refusal{Reason: Unreadable, Err: fmt.Errorf("commit %s of %s has no folder %q: correct the path", short(hash), g.where, g.options.Path)}
	}
	return opened{
		folder: folder, commit: commit, keep: keep, drop: drop,
		load: func() (*inventory.Tree, inventory.Findings, error) { return inventory.Load(folder) },
	}, nil
}

// fetch brings a commit here, and holds it against the one in use.
func (g *git) fetch(ctx context.Context, store *store, hash string) error {
	base := g.base
	if g.options.AllowRewind {
		base = ""
	}
	if !store.has(hash) {
		if err := g.remote.fetch(ctx, store, g.options.Branch, hash, base); err != nil {
			return g.unreachable(ctx, err)
		}
	}
	if base == "" {
		return nil
	}
	descends, err := store.descends(ctx, hash, base)
	switch {
	case err != nil:
		return g.damaged(store, err)
	case !descends:
		return &Refusal{Reason: Rewound, Err: fmt.Errorf(
			"branch %s of %s was rewritten: its commit %s does not follow %s, which is in use; take changes back with a new commit on top of that, or allow rewinding",
			g.options.Branch, g.where, short(hash), short(base))}
	}
	return nil
}

// damaged throws the store away, so that the next look fetches anew.
func (g *git) damaged(store *store, err error) error {
	var refusal *Refusal
	if errors.As(err, &refusal) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	_ = os.RemoveAll(store.folder)
	return &Refusal{Reason: Unreadable, Err: fmt.Errorf("read the copy of %s: %w; it is thrown away and fetched again", g.where, err)}
}

// verified is what is told of a commit, if its signature is good.
func (g *git) verified(hash string, raw []byte) (*Commit, error) {
	commit, err := decodeCommit(raw)
	if err != nil || commit.Hash.String() != hash {
		return nil, &Refusal{Reason: Unreadable, Err: fmt.Errorf("commit %s of %s cannot be read: make a new one", short(hash), g.where)}
	}
	told := &Commit{
		Hash: hash, Author: fmt.Sprintf("%s <%s>", commit.Author.Name, commit.Author.Email), Time: commit.Committer.When,
		Subject: strings.ToValidUTF8(strings.SplitN(strings.TrimSpace(commit.Message), "\n", 2)[0], "?"),
	}
	if len(g.options.VerifyKeys) == 0 {
		return told, nil
	}
	signers, err := readSigners(g.options.VerifyKeys)
	if err != nil {
		return nil, &Refusal{Reason: Unsigned, Err: err}
	}
	if told.Key, err = signers.verify(commit); err != nil {
		return nil, &Refusal{Reason: Unsigned, Err: fmt.Errorf("commit %s of %s (%q by %q): %w", short(hash), g.where, told.Subject, told.Author, err)}
	}
	return told, nil
}

// checkOut writes the commit's files into a new folder.
func (g *git) checkOut(ctx context.Context, store *store, hash, folder string) error {
	c := checkout{store: store, maxBytes: g.options.MaxBytes, what: fmt.Sprintf("commit %s of %s", short(hash), g.where)}
	err := c.into(ctx, hash, folder)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return g.damaged(store, err)
	}
	if c.submodules > 0 {
		g.options.Log.Warn("submodules of the inventory's repository are left empty", "source", g.where.String(), "commit", hash, "submodules", c.submodules)
	}
	return err
}

// accept puts a checkout on the shelf and makes it the one in use.
func (g *git) accept(ctx context.Context, store *store, hash string, raw []byte) error {
	if err := g.shelf.put(ctx, hash, raw); err != nil {
		return g.notKept(err)
	}
	if err := g.use(hash); err != nil {
		return err
	}
	if err := store.shrink(ctx, hash); err != nil {
		g.options.Log.Warn("the copy of the inventory's repository could not be made smaller", "source", g.where.String(), "error", err)
	}
	return nil
}

// use makes a generation on the shelf the one in use.
func (g *git) use(hash string) error {
	if err := g.shelf.use(hash); err != nil {
		return g.notKept(err)
	}
	if g.base != "" && g.base != hash {
		g.options.Log.Debug("the inventory moves on", "source", g.where.String(), "from", g.base, "to", hash)
	}
	g.base = hash
	return nil
}

func (g *git) notKept(err error) error {
	return &Refusal{Reason: Unreadable, Err: fmt.Errorf("keep the inventory of %s in %s: %w; see whether its disk is full", g.where, g.options.Folder, cause(err))}
}

func short(hash string) string { return hash[:min(len(hash), 12)] }
