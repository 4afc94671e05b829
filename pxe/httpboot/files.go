package httpboot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/talos-provision/provision/pxe/assets"
)

// etag is the digest of a binary and what the file looked like when it was taken.
type etag struct {
	value string
	stat  fs.FileInfo
}

// serveBinary sends an iPXE binary. UEFI asks HEAD first and takes the image's
// type from Content-Type. These files are exempt from MaxTransfers: they are
// small, and UEFI does not come back after a 503.
func (h *Handler) serveBinary(w *response, r *http.Request, name string) {
	if name == "" || h.opts.IPXEDir == "" {
		notFound(w)
		return
	}
	f, err := openBinary(h.opts.IPXEDir, name)
	if err != nil {
		h.log.Warn("a machine asked for an iPXE binary that is not there; check ipxeDir", "name", name, "dir", h.opts.IPXEDir, "source", source(r), "err", err)
		notFound(w)
		return
	}
	defer func() { _ = f.Close() }()
	tag, stat, err := h.binaryTag(name, f)
	if err != nil {
		h.log.Warn("read an iPXE binary", "file", f.Name(), "err", err)
		notFound(w)
		return
	}
	kind := "application/octet-stream"
	if strings.HasSuffix(name, ".efi") {
		kind = "application/efi"
	}
	h.send(w, r, file{File: f, name: name, kind: kind, etag: tag, stat: stat})
}

// binaryTag hashes the file when it is new or has changed.
func (h *Handler) binaryTag(name string, f *os.File) (string, fs.FileInfo, error) {
	stat, err := f.Stat()
	if err != nil {
		return "", nil, err
	}
	if !stat.Mode().IsRegular() {
		return "", nil, fmt.Errorf("%s is not a regular file", f.Name())
	}
	h.mu.Lock()
	known, ok := h.etags[name]
	h.mu.Unlock()
	if ok && os.SameFile(known.stat, stat) && known.stat.Size() == stat.Size() && known.stat.ModTime().Equal(stat.ModTime()) {
		return known.value, stat, nil
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", nil, err
	}
	value := hex.EncodeToString(hash.Sum(nil))
	h.mu.Lock()
	h.etags[name] = etag{value: value, stat: stat}
	h.mu.Unlock()
	return value, stat, nil
}

// serveImage sends a boot file from the cache, and says which kind it is.
func (h *Handler) serveImage(w *response, r *http.Request, tail string) What {
	ref, err := assets.ParseRef(tail)
	if err != nil {
		h.log.Debug("a client asked for a boot file that cannot exist", "source", source(r), "err", err)
		notFound(w)
		return WhatElse
	}
	what := What(ref.Kind())
	if bulk[ref.Kind()] && r.Method == http.MethodGet {
		source := source(r)
		if !h.slots.enter(source) {
			busy(w)
			return what
		}
		defer h.slots.leave(source)
	}
	h.serveFile(w, r, ref)
	return what
}

// bulk are the kinds that only iPXE asks for, which comes back after a 503. UEFI
// does not (for a UKI), nor does a BMC (for an ISO).
var bulk = map[assets.Kind]bool{assets.KindKernel: true, assets.KindInitramfs: true}

func (h *Handler) serveFile(w *response, r *http.Request, ref assets.Ref) {
	if h.opts.Assets == nil {
		notFound(w)
		return
	}
	start := time.Now()
	f, info, err := h.openImage(r.Context(), ref)
	if err != nil {
		h.imageFailed(w, r, ref, start, err)
		return
	}
	defer func() { _ = f.Close() }()
	stat, err := f.Stat()
	if err != nil {
		h.imageFailed(w, r, ref, start, err)
		return
	}
	h.send(w, r, file{File: f, name: ref.String(), kind: ref.ContentType(), etag: info.SHA256, stat: stat})
}

func (h *Handler) openImage(ctx context.Context, ref assets.Ref) (*os.File, assets.Info, error) {
	if h.opts.Allow != nil && h.opts.Allow(ref) {
		return h.opts.Assets.Open(ctx, ref)
	}
	return h.opts.Assets.OpenCached(ctx, ref)
}

// imageFailed answers for a file that could not be had. The script that asked
// has its own bounded retries, so no Retry-After: that would be for ever.
func (h *Handler) imageFailed(w *response, r *http.Request, ref assets.Ref, start time.Time, err error) {
	if r.Context().Err() != nil {
		h.log.Debug("a machine went away before its boot file was there", "ref", ref.String(), "source", source(r))
		return
	}
	if errors.Is(err, assets.ErrNotCached) {
		h.log.Warn("a client asked for a boot file that is not cached and that no armed node needs", "ref", ref.String(), "source", source(r))
		notFound(w)
	} else {
		h.log.Error("a machine cannot have its boot file", "ref", ref.String(), "source", source(r), "err", err)
		text(w, http.StatusBadGateway, "the boot file could not be fetched; see the log of provision\n")
	}
	h.transferred(Transfer{Source: source(r), Name: ref.String(), Method: r.Method, Status: w.status, Duration: time.Since(start), Err: err})
}

// file is an open file with what its answer says about it.
type file struct {
	*os.File
	name, kind, etag string
	stat             fs.FileInfo
}

// send lets net/http do ranges, HEAD and conditions, and reports how it went.
func (h *Handler) send(w *response, r *http.Request, f file) {
	h.sending.Add(1)
	defer h.sending.Add(-1)
	start := time.Now()
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("ETag", `"`+f.etag+`"`)
	if h.opts.OnProgress != nil {
		w.progress = func(sent int64) {
			h.opts.OnProgress(Progress{Source: source(r), Name: f.name, Bytes: sent, Size: f.stat.Size()})
		}
	}
	w.queue, _ = r.Context().Value(queueKey{}).(*queue)
	defer w.queue.shorten()
	// f.File and not f: the net package must see the *os.File to use sendfile.
	http.ServeContent(w, r, "", f.stat.ModTime(), f.File)
	t := Transfer{Source: source(r), Name: f.name, Method: r.Method, Status: w.status, Bytes: w.sent, Size: f.stat.Size(), Duration: time.Since(start), Err: w.err}
	attrs := []any{"name", t.Name, "source", t.Source, "method", t.Method, "status", t.Status, "bytes", t.Bytes, "size", t.Size, "took", t.Duration}
	switch {
	case t.Err == nil:
		h.log.Debug("sent a file", attrs...)
	case errors.Is(t.Err, syscall.ECONNRESET), errors.Is(t.Err, syscall.EPIPE):
		// UEFI resets connections as it goes, and people switch machines off.
		h.log.Debug("a machine hung up during a file", append(attrs, "err", t.Err)...)
	default:
		h.log.Warn("a file was not sent to its end", append(attrs, "err", t.Err)...)
	}
	h.transferred(t)
}

func (h *Handler) transferred(t Transfer) {
	if h.opts.OnTransfer != nil {
		h.opts.OnTransfer(t)
	}
}
