package source

import (
	"context"
	"errors"
	"fmt"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
)

// fileRemote is a repository on this host. It is read as files are: no git program
// is run for it.
type fileRemote struct{ where address }

func (r *fileRemote) open() (*gogit.Repository, error) {
	repository, err := gogit.PlainOpenWithOptions(r.where.path, &gogit.PlainOpenOptions{EnableDotGitCommonDir: true})
	if err != nil {
		return nil, fmt.Errorf("open the repository %s: %w; see whether it is there and may be read", r.where.path, cause(err))
	}
	return repository, nil
}

func (r *fileRemote) head(_ context.Context, branch string) (string, error) {
	repository, err := r.open()
	if err != nil {
		return "", err
	}
	reference, err := repository.Reference(plumbing.NewBranchReferenceName(branch), true)
	if errors.Is(err, plumbing.ErrReferenceNotFound) {
		return "", fmt.Errorf("the repository %s has no branch %s: create it, or correct the branch", r.where.path, branch)
	}
	if err != nil {
		return "", fmt.Errorf("read branch %s of %s: %w; see whether the repository is sound", branch, r.where.path, cause(err))
	}
	return reference.Hash().String(), nil
}

func (r *fileRemote) fetch(ctx context.Context, store *store, _, hash, base string) error {
	repository, err := r.open()
	if err != nil {
		return err
	}
	commits := []plumbing.Hash{plumbing.NewHash(hash)}
	if base != "" {
		if commits, _, err = history(ctx, repository.Storer, commits[0], plumbing.NewHash(base)); err != nil {
			return r.unreadable(err)
		}
	}
	list, err := files(ctx, repository.Storer, plumbing.NewHash(hash), store.maxBytes)
	if err != nil {
		return r.unreadable(err)
	}
	if err := store.take(repository.Storer, append(list, commits...)); err != nil {
		return r.unreadable(err)
	}
	return nil
}

func (r *fileRemote) unreadable(err error) error {
	if known := shown(err); known != nil {
		return known
	}
	return fmt.Errorf("read the repository %s: %w; see whether it is sound (git fsck)", r.where.path, cause(err))
}
