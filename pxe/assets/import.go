package assets

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ImportOptions say what imported files are whose path does not.
type ImportOptions struct {
	// Schematic and Version are of files that do not lie at
	// <schematic>/<version>/<name>, such as those of a Talos release.
	Schematic, Version string
	// Replace takes a file although the cache holds another under its name.
	Replace bool
}

// Imported is what became of one file.
type Imported struct {
	// Path is the file that was read.
	Path string
	// Ref is what it was taken for; zero when Err says that it is no boot file.
	Ref  Ref
	Info Info
	// Present means that the cache held the very same content already.
	Present bool
	// Skipped says why a file of a directory was left out, "" when it was not.
	Skipped string
	Err     error
}

// aliases are the names in a Talos release, in which they differ.
var aliases = map[string]string{"vmlinuz-amd64": KernelAMD64, "vmlinuz-arm64": KernelARM64}

// sumFiles are lists of hashes that are believed when they lie beside a file.
var sumFiles = []string{"sha256sum.txt", "SHA256SUMS"}

// Import copies a file, or every boot file below a directory, into the cache:
// for sites without a way to the Image Factory. Each is checked against its
// SHA-256 in <file>.sha256, sha256sum.txt or SHA256SUMS beside it when there is
// one. One bad file does not keep out the others; report is called for each.
// The error is about path itself.
func (c *Cache) Import(ctx context.Context, path string, o ImportOptions, report func(Imported)) error {
	stat, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("import boot files: %w", err)
	}
	if !stat.IsDir() {
		one := c.importFile(ctx, path, o)
		if one.Skipped != "" {
			one.Err = errors.New(one.Skipped)
		}
		report(one)
		return ctx.Err()
	}
	err = filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		name := d.Name()
		switch {
		case d.IsDir() && file != path && (strings.HasPrefix(name, ".") || name == blobDir):
			return fs.SkipDir // of a copied cache, where the files have names as well
		case d.IsDir(), strings.HasSuffix(name, recordSuffix), slices.Contains(sumFiles, name), strings.HasPrefix(name, "."):
			return nil
		}
		report(c.importFile(ctx, file, o))
		return nil
	})
	if err != nil {
		return fmt.Errorf("import boot files: %w", err)
	}
	return nil
}

func (c *Cache) importFile(ctx context.Context, path string, o ImportOptions) Imported {
	done := Imported{Path: path}
	ref, err := refOf(path, o)
	if err != nil {
		done.Skipped = err.Error()
		return done
	}
	done.Ref = ref
	info, present, err := c.take(ctx, path, ref, o.Replace)
	if err != nil {
		done.Err = fmt.Errorf("import %s as %s: %w", path, ref.brief(), err)
	}
	done.Info, done.Present = info, present
	return done
}

// refOf tells what a file is from its path, or from the options.
func refOf(path string, o ImportOptions) (Ref, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return Ref{}, err
	}
	parts := strings.Split(filepath.ToSlash(full), "/")
	name := parts[len(parts)-1]
	if alias, ok := aliases[name]; ok {
		name = alias
	}
	if _, ok := names[name]; !ok {
		return Ref{}, fmt.Errorf("%s is not the name of a boot file; known are %s, vmlinuz-amd64 and vmlinuz-arm64", clip(name), strings.Join(Names(), ", "))
	}
	if len(parts) >= 3 {
		ref := Ref{Schematic: parts[len(parts)-3], Version: parts[len(parts)-2], Name: name}
		if ref.Validate() == nil {
			return ref, nil
		}
	}
	ref := Ref{Schematic: o.Schematic, Version: o.Version, Name: name}
	if o.Schematic == "" || o.Version == "" {
		return Ref{}, fmt.Errorf("%s does not lie at <schematic>/<version>/%s; say which image it is of, with its schematic and version", clip(path), name)
	}
	return ref, ref.Validate()
}

// take copies one file into the cache.
func (c *Cache) take(ctx context.Context, path string, ref Ref, replace bool) (Info, bool, error) {
	in, err := os.Open(path)
	if err != nil {
		return Info{}, false, err
	}
	defer func() { _ = in.Close() }()
	stat, err := in.Stat()
	if err != nil {
		return Info{}, false, err
	}
	if !stat.Mode().IsRegular() || stat.Size() == 0 {
		return Info{}, false, errors.New("it is not a file with content; copy it again")
	}
	out, err := createPartial(ref.path(c.opts.Dir))
	if err != nil {
		return Info{}, false, err
	}
	defer out.discard()
	allowed, release, err := c.reserve(&download{partial: out}, stat.Size())
	if err != nil {
		return Info{}, false, err
	}
	defer release()
	hash := sha256.New()
	var head prefix
	disk := &diskWriter{f: out, left: allowed}
	size, err := io.Copy(io.MultiWriter(disk, hash, &head), reading{ctx, in})
	if err != nil {
		return Info{}, false, err
	}
	info := Info{Size: size, SHA256: hex.EncodeToString(hash.Sum(nil))}
	if err := looksLike(ref, head.buf.Bytes()); err != nil {
		return info, false, err
	}
	if err := checkSum(path, info.SHA256); err != nil {
		return info, false, err
	}
	if err := c.verify(ctx, ref); err == nil {
		here, _ := c.Entry(ref)
		switch {
		case here.SHA256 == info.SHA256:
			return info, true, nil
		case !replace:
			return info, false, fmt.Errorf("the cache holds another file of that name, with SHA-256 %s; this one has %s; remove that one or import with --replace", here.SHA256, info.SHA256)
		}
	}
	return info, false, c.store(ref, out, info)
}

// signatures are the first bytes by which files are told apart. Kernels and UKIs
// are EFI programs; an initramfs is zstd, xz, gzip or a plain cpio archive.
var signatures = []struct {
	first string
	what  string
	kinds []Kind
}{
	{"MZ", "an EFI program", []Kind{KindKernel, KindUKI}},
	{"\x28\xb5\x2f\xfd", "a zstd archive", []Kind{KindInitramfs}},
	{"\xfd7zXZ\x00", "an xz archive", []Kind{KindInitramfs}},
	{"\x1f\x8b", "a gzip archive", []Kind{KindInitramfs, KindKernel}},
	{"07070", "a cpio archive", []Kind{KindInitramfs}},
}

// looksLike refuses what is clearly something else than its name says: a page
// that a browser saved, or files that were mixed up.
func looksLike(ref Ref, first []byte) error {
	p := prefix{}
	_, _ = p.Write(first) // never fails
	if kind := p.page(); kind != "" {
		return fmt.Errorf("it is a page (%s) and not the file; download it again", kind)
	}
	for _, s := range signatures {
		if bytes.HasPrefix(first, []byte(s.first)) && !slices.Contains(s.kinds, ref.Kind()) {
			return fmt.Errorf("it begins like %s, which is not what a %s looks like; were files mixed up?", s.what, ref.Kind())
		}
	}
	return nil
}

// checkSum compares with the hash that lies beside the file, if one does.
func checkSum(path, sum string) error {
	dir, base := filepath.Split(path)
	for _, list := range append([]string{base + recordSuffix}, sumFiles...) {
		text, err := readSmall(filepath.Join(dir, list))
		if err != nil {
			continue // there is none
		}
		for line := range strings.Lines(text) {
			want, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			name = filepath.Base(strings.TrimLeft(name, " *"))
			if name != base && aliases[name] != base && !strings.EqualFold(list, base+recordSuffix) {
				continue
			}
			if len(want) == 2*sha256.Size && !strings.EqualFold(want, sum) {
				return fmt.Errorf("its SHA-256 is %s, but %s says %s; copy it again", sum, list, want)
			}
		}
	}
	return nil
}

// readSmall reads a list of hashes, of which none is large.
func readSmall(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	return string(text), err
}
