package assets

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
)

// blobDir holds every file once more under its SHA-256, as a hard link. So the
// kernel, which is the same in all schematics of a Talos version, is stored once,
// and a blob whose only name is there belongs to nobody and can go.
const blobDir = "sha256"

func (c *Cache) blob(sum string) string { return filepath.Join(c.opts.Dir, blobDir, sum) }

// keep gives the complete file its name, or that name to an equal file that the
// cache has already.
func (c *Cache) keep(out *partial, info Info) error {
	blob := c.blob(info.SHA256)
	if holds(blob, info) && c.adopt(blob, out) {
		return nil
	}
	if err := out.commit(); err != nil {
		return err
	}
	// A file system without hard links only costs the space that this would save.
	if err := c.publish(out.final, blob); err != nil {
		c.log.Debug("a boot file is not shared between schematics", "file", out.final, "err", err)
	}
	return nil
}

// adopt puts a link to the blob in the place of the file that was written.
func (c *Cache) adopt(blob string, out *partial) bool {
	link := out.Name() + ".link"
	_ = os.Remove(link) // left by a process that was killed here
	if err := os.Link(blob, link); err != nil {
		return false // the blob was pruned meanwhile
	}
	if err := os.Rename(link, out.final); err != nil {
		_ = os.Remove(link)
		return false
	}
	// rename does nothing and leaves both names when they are one file already.
	_ = os.Remove(link)
	out.discard()
	if err := syncDir(filepath.Dir(out.final)); err != nil {
		c.log.Warn("a boot file may not outlive a power cut", "file", out.final, "err", err)
	}
	c.log.Info("the cache had this content already", "file", out.final, "sha256", filepath.Base(blob))
	return true
}

// publish makes file findable by its content, in place of what may be there:
// that was not found to hold the content.
func (c *Cache) publish(file, blob string) error {
	if err := os.MkdirAll(filepath.Dir(blob), 0o755); err != nil {
		return err
	}
	link := blob + ".link"
	_ = os.Remove(link) // left by a process that was killed here
	if err := os.Link(file, link); err != nil {
		return err
	}
	if err := os.Rename(link, blob); err != nil {
		_ = os.Remove(link)
		return err
	}
	return nil
}

// holds reads the whole file: disks lie, and a name is no proof.
func holds(path string, info Info) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	if stat, err := f.Stat(); err != nil || stat.Size() != info.Size {
		return false
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return false
	}
	return hex.EncodeToString(hash.Sum(nil)) == info.SHA256
}
