package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

const (
	maxCommits = 1_000_000
	// maxPacks is how many fetches are kept apart before the store is made anew.
	maxPacks = 8
	// maxCommit bounds a commit object in bytes: it is a message and a signature.
	maxCommit = 256 << 10
)

// store holds the objects that were fetched: the commit in use with its files, and
// what came after it. It has no history before that, no branch and no configuration.
type store struct {
	folder   string
	maxBytes int64 // of the files of one commit
	objects  *filesystem.Storage
}

func openStore(folder string, maxBytes int64) (*store, error) {
	packs := filepath.Join(folder, "objects", "pack")
	if err := os.MkdirAll(packs, 0o700); err != nil {
		return nil, err
	}
	// What fetches left that were cut off.
	for _, pattern := range []string{filepath.Join(packs, "tmp_*"), filepath.Join(folder, "fetched-*")} {
		left, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, file := range left {
			_ = os.Remove(file)
		}
	}
	return &store{folder: folder, maxBytes: maxBytes, objects: filesystem.NewStorage(osfs.New(folder), cache.NewObjectLRU(8*cache.MiByte))}, nil
}

func (s *store) has(hash string) bool {
	return s.objects.HasEncodedObject(plumbing.NewHash(hash)) == nil
}

// commit gives a commit's raw object.
func (s *store) commit(hash string) ([]byte, error) {
	o, err := s.objects.EncodedObject(plumbing.CommitObject, plumbing.NewHash(hash))
	if err != nil {
		return nil, err
	}
	r, err := o.Reader()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	raw, err := io.ReadAll(io.LimitReader(r, maxCommit+1))
	if err == nil && len(raw) > maxCommit {
		err = &Refusal{Reason: TooLarge, Err: fmt.Errorf("commit %s is larger than %d bytes: write a shorter message", short(hash), maxCommit)}
	}
	return raw, err
}

func decodeCommit(raw []byte) (*object.Commit, error) {
	o := &plumbing.MemoryObject{}
	o.SetType(plumbing.CommitObject)
	if _, err := o.Write(raw); err != nil {
		return nil, err
	}
	commit := &object.Commit{}
	return commit, commit.Decode(o)
}

// descends tells whether a commit is another one or follows it. Where the history
// ends here, it does not.
func (s *store) descends(ctx context.Context, hash, base string) (bool, error) {
	_, found, err := history(ctx, s.objects, plumbing.NewHash(hash), plumbing.NewHash(base))
	return found, err
}

// history lists the commits from one back to another, or to where the history ends.
func history(ctx context.Context, objects storer.EncodedObjectStorer, from, to plumbing.Hash) (commits []plumbing.Hash, found bool, err error) {
	seen := map[plumbing.Hash]bool{from: true}
	for queue := []plumbing.Hash{from}; len(queue) > 0; queue = queue[1:] {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		commit, err := object.GetCommit(objects, queue[0])
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		commits = append(commits, queue[0])
		if queue[0] == to {
			found = true
			continue
		}
		for _, parent := range commit.ParentHashes {
			if !seen[parent] {
				seen[parent] = true
				queue = append(queue, parent)
			}
		}
		if len(seen) > maxCommits {
			return nil, false, &Refusal{Reason: TooLarge, Err: fmt.Errorf("the history has more than %d commits: allow rewinding, so that it is not looked at", maxCommits)}
		}
	}
	return commits, found, nil
}

// files lists the trees and blobs of a commit.
func files(ctx context.Context, objects storer.EncodedObjectStorer, hash plumbing.Hash, maxBytes int64) ([]plumbing.Hash, error) {
	commit, err := object.GetCommit(objects, hash)
	if err != nil {
		return nil, err
	}
	seen := map[plumbing.Hash]bool{}
	var list []plumbing.Hash
	var size int64
	add := func(h plumbing.Hash) bool {
		if seen[h] {
			return false
		}
		seen[h] = true
		list = append(list, h)
		return true
	}
	var walk func(tree plumbing.Hash) error
	walk = func(hash plumbing.Hash) error {
		if !add(hash) {
			return nil
		}
		tree, err := object.GetTree(objects, hash)
		if err != nil {
			return err
		}
		for _, entry := range tree.Entries {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case len(list) > maxEntries:
				return &Refusal{Reason: TooLarge, Err: fmt.Errorf("commit %s has more than %d files: keep the inventory in a repository of its own", short(commit.Hash.String()), maxEntries)}
			case entry.Mode == filemode.Dir:
				if err := walk(entry.Hash); err != nil {
					return err
				}
			case entry.Mode != filemode.Submodule && add(entry.Hash):
				n, err := objects.EncodedObjectSize(entry.Hash)
				if err != nil {
					return err
				}
				if size += n; size > maxBytes {
					return tooLarge("commit "+short(commit.Hash.String()), maxBytes)
				}
			}
		}
		return nil
	}
	return list, walk(commit.TreeHash)
}

// take copies objects out of another store.
func (s *store) take(from storer.EncodedObjectStorer, hashes []plumbing.Hash) (err error) {
	w, err := s.objects.PackfileWriter()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	_, err = packfile.NewEncoder(w, from, false).Encode(hashes, 0)
	return err
}

// shrink makes the store anew with one commit, if it has grown.
func (s *store) shrink(ctx context.Context, hash string) error {
	packs, err := s.objects.ObjectPacks()
	if err != nil || len(packs) <= maxPacks {
		return err
	}
	list, err := files(ctx, s.objects, plumbing.NewHash(hash), s.maxBytes)
	if err != nil {
		return err
	}
	fresh := s.folder + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	smaller, err := openStore(fresh, s.maxBytes)
	if err != nil {
		return err
	}
	if err := smaller.take(s.objects, append(list, plumbing.NewHash(hash))); err != nil {
		return err
	}
	// Between the two the store may be missing: it is fetched again then.
	if err := os.RemoveAll(s.folder); err != nil {
		return err
	}
	return os.Rename(fresh, s.folder)
}
