package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// maxLink bounds the target of a symbolic link in bytes.
const maxLink = 4096

// checkout writes the files of a commit. Nothing leaves the folder, whatever the
// names and links in the commit say.
type checkout struct {
	store    *store
	maxBytes int64
	what     string // for messages

	root       *os.Root
	links      []link
	entries    int
	bytes      int64
	submodules int
}

type link struct{ name, target string }

func (c *checkout) into(ctx context.Context, hash, folder string) error {
	commit, err := object.GetCommit(c.store.objects, plumbing.NewHash(hash))
	if err != nil {
		return err
	}
	c.root, err = os.OpenRoot(folder)
	if err != nil {
		return fmt.Errorf("check out %s: %w; make the folder writable", c.what, err)
	}
	defer func() { _ = c.root.Close() }()
	if err := c.tree(ctx, commit.TreeHash, ".", 0); err != nil {
		return err
	}
	return c.link()
}

func (c *checkout) tree(ctx context.Context, hash plumbing.Hash, folder string, depth int) error {
	if depth > maxDepth {
		return &Refusal{Reason: TooLarge, Err: fmt.Errorf("%s nests folders deeper than %d: remove them", c.what, maxDepth)}
	}
	tree, err := object.GetTree(c.store.objects, hash)
	if err != nil {
		return err
	}
	for _, entry := range tree.Entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.entries++; c.entries > maxEntries {
			return &Refusal{Reason: TooLarge, Err: fmt.Errorf("%s has more than %d files: keep the inventory in a repository of its own", c.what, maxEntries)}
		}
		name := path.Join(folder, entry.Name)
		if !fit(entry.Name) {
			return c.unsafe("the name %q", name)
		}
		if err := c.entry(ctx, name, entry, depth); err != nil {
			return err
		}
	}
	return nil
}

// fit tells whether a file may have this name.
func fit(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.EqualFold(name, ".git") && !strings.ContainsAny(name, "/\\\x00") && len(name) <= 255
}

func (c *checkout) entry(ctx context.Context, name string, entry object.TreeEntry, depth int) error {
	switch entry.Mode {
	case filemode.Dir:
		if err := c.root.Mkdir(name, 0o700); err != nil {
			return c.written(name, err)
		}
		return c.tree(ctx, entry.Hash, name, depth+1)
	case filemode.Regular, filemode.Deprecated:
		return c.file(name, entry.Hash, 0o600)
	case filemode.Executable:
		return c.file(name, entry.Hash, 0o700)
	case filemode.Symlink:
		return c.readLink(name, entry.Hash)
	case filemode.Submodule:
		c.submodules++
		return c.written(name, c.root.Mkdir(name, 0o700))
	default:
		return c.unsafe("%q, which is neither file nor folder nor link", name)
	}
}

// blob opens a file's content once its size is known to fit.
func (c *checkout) blob(hash plumbing.Hash) (io.ReadCloser, int64, error) {
	size, err := c.store.objects.EncodedObjectSize(hash)
	if err != nil {
		return nil, 0, err
	}
	if c.bytes += size; c.bytes > c.maxBytes {
		return nil, 0, tooLarge(c.what, c.maxBytes)
	}
	blob, err := object.GetBlob(c.store.objects, hash)
	if err != nil {
		return nil, 0, err
	}
	r, err := blob.Reader()
	return r, size, err
}

func (c *checkout) file(name string, hash plumbing.Hash, mode fs.FileMode) error {
	r, size, err := c.blob(hash)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	f, err := c.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return c.written(name, err)
	}
	n, err := io.Copy(f, io.LimitReader(r, size+1))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return c.written(name, errors.Join(err, f.Close()))
}

func (c *checkout) readLink(name string, hash plumbing.Hash) error {
	r, size, err := c.blob(hash)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	target, err := io.ReadAll(io.LimitReader(r, maxLink+1))
	if err != nil {
		return err
	}
	if size > maxLink || len(target) == 0 || strings.ContainsRune(string(target), 0) {
		return c.unsafe("the symbolic link %q without a sound target", name)
	}
	c.links = append(c.links, link{name, string(target)})
	return nil
}

// link makes the links last, so that no file is written through one, and then
// follows each: the root refuses what leads out, also by way of other links.
func (c *checkout) link() error {
	for _, l := range c.links {
		if err := c.root.Symlink(l.target, l.name); err != nil {
			return c.written(l.name, err)
		}
	}
	for _, l := range c.links {
		if _, err := c.root.Stat(l.name); path.IsAbs(l.target) || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return c.unsafe("the symbolic link %q to %q, which leads out of the repository or round in circles", l.name, l.target)
		}
	}
	return nil
}

func (c *checkout) unsafe(format string, args ...any) error {
	return &Refusal{Reason: Unsafe, Err: fmt.Errorf("%s holds %s: remove it from the repository", c.what, fmt.Sprintf(format, args...))}
}

func (c *checkout) written(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist):
		return c.unsafe("%q twice", name)
	}
	return &Refusal{Reason: Unreadable, Err: fmt.Errorf("check out %q of %s: %w; see whether the disk is full", name, c.what, cause(err))}
}
