package source

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// shelf is where generations are checked out:
//
//	generations/HASH/tree       the files of a commit
//	generations/HASH/meta.json  written last: without it the folder is nothing
//	current                     a link to the generation in use
//	store                       the objects fetched
type shelf struct {
	folder         string
	remote, branch string
	keep           int
	maxBytes       int64
}

// meta is what is known of a checkout. The digest tells after a crash whether all of
// it reached the disk.
type meta struct {
	Remote string `json:"remote"`
	Branch string `json:"branch"`
	Commit []byte `json:"commit"` // the raw object, with its signature
	Digest string `json:"digest"`
}

const (
	metaFile    = "meta.json"
	currentLink = "current"
	maxMeta     = 1 << 20
)

func (s shelf) store() string                 { return filepath.Join(s.folder, "store") }
func (s shelf) generations() string           { return filepath.Join(s.folder, "generations") }
func (s shelf) generation(hash string) string { return filepath.Join(s.generations(), hash) }
func (s shelf) tree(hash string) string       { return filepath.Join(s.generation(hash), "tree") }

// open makes the folders, removes what was left unfinished, and gives the commit in
// use before; "" if there is none of this remote and branch.
func (s shelf) open() (string, error) {
	if err := os.MkdirAll(s.generations(), 0o700); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(s.generations())
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		if _, err := s.read(entry.Name()); err != nil {
			s.drop(entry.Name())
		}
	}
	target, err := os.Readlink(filepath.Join(s.folder, currentLink))
	if err != nil {
		return "", nil //nolint:nilerr // there was none
	}
	hash := filepath.Base(target)
	if _, err := s.read(hash); err != nil {
		return "", nil //nolint:nilerr // it was damaged, or of another remote
	}
	return hash, nil
}

// read gives what is known of a checkout of this remote and branch.
func (s shelf) read(hash string) (meta, error) {
	file := filepath.Join(s.generation(hash), metaFile)
	info, err := os.Stat(file)
	if err != nil {
		return meta{}, err
	}
	if info.Size() > maxMeta {
		return meta{}, fmt.Errorf("%s is no description of a checkout: remove its folder", file)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return meta{}, err
	}
	var m meta
	if err := json.Unmarshal(content, &m); err != nil {
		return meta{}, fmt.Errorf("read %s: %w; remove its folder", file, err)
	}
	if m.Remote != s.remote || m.Branch != s.branch {
		return meta{}, fmt.Errorf("%s is of another remote or branch: remove its folder", file)
	}
	return m, nil
}

// find gives the raw commit of a checkout that is whole; nil if there is none.
func (s shelf) find(ctx context.Context, hash string) []byte {
	m, err := s.read(hash)
	if err != nil {
		return nil
	}
	if now, err := s.digest(ctx, hash); err != nil || now != m.Digest {
		return nil
	}
	return m.Commit
}

func (s shelf) digest(ctx context.Context, hash string) (string, error) {
	d := digester{maxBytes: s.maxBytes, hidden: true}
	return d.digest(ctx, s.tree(hash), nil)
}

// begin makes the empty folder for a commit's files.
func (s shelf) begin(hash string) (string, error) {
	s.drop(hash)
	return s.tree(hash), os.MkdirAll(s.tree(hash), 0o700)
}

func (s shelf) drop(hash string) { _ = os.RemoveAll(s.generation(hash)) }

// put makes a checkout one that is kept.
func (s shelf) put(ctx context.Context, hash string, raw []byte) error {
	sum, err := s.digest(ctx, hash)
	if err != nil {
		return err
	}
	content, err := json.Marshal(meta{Remote: s.remote, Branch: s.branch, Commit: raw, Digest: sum})
	if err != nil {
		return err
	}
	file := filepath.Join(s.generation(hash), metaFile)
	if err := writeSynced(file+".new", content); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

func writeSynced(file string, content []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// use makes a checkout the current one and removes the oldest of the others.
func (s shelf) use(hash string) error {
	link := filepath.Join(s.folder, currentLink)
	if err := os.Remove(link + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(filepath.Join("generations", hash), link+".new"); err != nil {
		return err
	}
	if err := os.Rename(link+".new", link); err != nil {
		return err
	}
	now := time.Now()
	if err := os.Chtimes(filepath.Join(s.generation(hash), metaFile), now, now); err != nil {
		return err
	}
	return s.prune(hash)
}

func (s shelf) prune(current string) error {
	entries, err := os.ReadDir(s.generations())
	if err != nil {
		return err
	}
	used := func(name string) time.Time {
		info, err := os.Stat(filepath.Join(s.generation(name), metaFile))
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	others := make([]string, 0, len(entries))
	for _, entry := range entries {
		if entry.Name() != current {
			others = append(others, entry.Name())
		}
	}
	slices.SortFunc(others, func(a, b string) int { return cmp.Compare(used(b).UnixNano(), used(a).UnixNano()) })
	for _, name := range others[min(len(others), s.keep-1):] {
		s.drop(name)
	}
	return nil
}
