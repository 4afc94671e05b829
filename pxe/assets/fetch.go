package assets

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"syscall"
	"time"
)

// fetch brings the file from the factory, trying again when the failure may pass. It
// returns the size of the file in bytes.
func (c *Cache) fetch(ctx context.Context, ref Ref) (int64, error) {
	url := c.URL(ref)
	start := time.Now()
	delay := c.opts.RetryDelay
	for attempt := 1; ; attempt++ {
		info, err := c.attempt(ctx, ref, url)
		if errors.As(err, new(notFoundError)) {
			if info, err = c.attemptRegistered(ctx, ref, url, err); err == nil {
				c.log.Info("the factory knows the schematic now", "ref", ref.String())
			}
		}
		if err == nil {
			c.log.Info("fetched a boot file", "ref", ref.String(), "bytes", info.Size, "sha256", info.SHA256, "took", time.Since(start).Round(time.Millisecond))
			return info.Size, nil
		}
		err = fmt.Errorf("fetch %s from %s: %w", ref.brief(), url, err)
		if ctx.Err() != nil || attempt >= c.opts.Attempts || !mayPass(err) {
			return 0, err
		}
		c.log.Warn("fetching a boot file failed, trying again", "ref", ref.String(), "attempt", attempt, "in", delay, "err", err)
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return 0, err
		}
		delay *= 2
	}
}

// URL is where the factory has the file.
func (c *Cache) URL(ref Ref) string { return c.opts.Factory + "/image/" + ref.String() }

// attempt downloads the file once, or what is left of it. It is in the cache,
// whole, or not at all.
func (c *Cache) attempt(ctx context.Context, ref Ref, url string) (Info, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out, err := openDownload(ref.path(c.opts.Dir), url)
	if err != nil {
		return Info{}, err
	}
	defer out.leave()
	resp, err := c.request(ctx, out, url)
	if err != nil {
		return Info{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	size := resp.ContentLength
	if size >= 0 {
		size += out.offset
	}
	allowed, release, err := c.reserve(out, size)
	if err != nil {
		return Info{}, err
	}
	defer release()

	watched := watch(resp.Body, c.opts.StallTimeout, cancel)
	defer watched.stop()
	info, err := c.receive(ctx, ref, out, watched, transfer{size: size, allowed: allowed})
	if err != nil {
		return Info{}, err
	}
	return info, c.store(ref, out.partial, info)
}

// request asks for the file, or for the rest of it, and falls back to the whole
// of it when the server has no ranges or the file has changed.
func (c *Cache) request(ctx context.Context, out *download, url string) (*http.Response, error) {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return nil, err
		}
		// Asking for the plain bytes keeps Content-Length meaningful: net/http
		// drops it when it unpacks a gzip answer on its own.
		req.Header.Set("Accept-Encoding", "identity")
		out.ask(req.Header)
		resp, err := c.opts.Client.Do(req)
		if err != nil {
			return nil, unreachable(err)
		}
		resumed := out.offset
		usable, err := out.accept(resp, url)
		if err == nil && usable {
			err = checkResponse(resp, out.offset > 0)
		}
		if err == nil && usable {
			if out.offset > 0 {
				c.log.Info("going on with a broken download", "url", url, "from", out.offset, "of", out.from.Size)
			}
			return resp, nil
		}
		_ = resp.Body.Close()
		if err != nil {
			return nil, err
		}
		c.log.Info("a broken download cannot be gone on with, fetching the whole file", "url", url, "had", resumed)
	}
}

// transfer is what is known of a body before it comes.
type transfer struct {
	size    int64 // of the whole file, -1 when the server did not say
	allowed int64 // bytes that the file may have
}

// receive copies the body to disk and checks that all of it came and that it is
// not a page meant for a browser.
func (c *Cache) receive(ctx context.Context, ref Ref, out *download, body io.Reader, tr transfer) (Info, error) {
	progress := c.progress(ref, tr.size)
	hash := sha256.New()
	var head prefix
	sums := io.MultiWriter(hash, &head, progress)
	if err := reread(ctx, out, sums); err != nil {
		return Info{}, err
	}
	disk := &diskWriter{f: out.partial, left: tr.allowed - out.offset}
	n, err := io.Copy(io.MultiWriter(disk, sums), body)
	size := out.offset + n
	switch {
	case errors.As(err, new(localError)):
		return Info{}, err
	case err != nil && ctx.Err() != nil:
		// The watchdog's or the callers' reason says more than "context canceled".
		return Info{}, transientError{fmt.Errorf("after %d of %d bytes: %w", size, tr.size, context.Cause(ctx))}
	case err != nil:
		return Info{}, transientError{fmt.Errorf("after %d of %d bytes: %w; the factory or a proxy cut the transfer, check the uplink", size, tr.size, err)}
	case tr.size >= 0 && size != tr.size:
		return Info{}, transientError{fmt.Errorf("got %d bytes, Content-Length says %d; check the uplink", size, tr.size)}
	case size == 0:
		return Info{}, errors.New("the answer is empty; open the URL in a browser to see what the factory says")
	}
	if kind := head.page(); kind != "" {
		out.from = origin{} // nothing to go on with
		return Info{}, notAFile(kind)
	}
	progress.finish(size)
	return Info{Size: size, SHA256: hex.EncodeToString(hash.Sum(nil))}, nil
}

// reread feeds what an earlier transfer left to the hash. It leaves the file at
// the place where the rest goes.
func reread(ctx context.Context, out *download, sums io.Writer) error {
	if out.offset == 0 {
		return nil
	}
	n, err := io.Copy(sums, reading{ctx, io.NewSectionReader(out, 0, out.offset)})
	if err == nil && n != out.offset {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return diskError(fmt.Errorf("read the first part of a broken download: %w", err))
	}
	return nil
}

// store moves the complete file into place and remembers it as verified: the
// hash was computed from the very bytes that were written.
func (c *Cache) store(ref Ref, out *partial, info Info) error {
	if before, err := readRecord(out.final + recordSuffix); err == nil && before != info.SHA256 {
		c.log.Warn("a boot file differs from the one that was here before under the same name", "ref", ref.String(), "before", before, "now", info.SHA256)
	}
	if err := writeRecord(out.final, info.SHA256); err != nil {
		return err
	}
	if err := c.keep(out, info); err != nil {
		return err
	}
	stat, err := os.Stat(out.final)
	if err != nil {
		return diskError(err)
	}
	if stat.Size() != info.Size {
		return fmt.Errorf("%s has %d bytes on disk, %d were written; check the disk", out.final, stat.Size(), info.Size)
	}
	c.remember(ref, info, stat)
	return nil
}

// diskWriter tells a full disk from a broken connection inside io.Copy, and
// keeps a file whose size nobody told within its bounds.
type diskWriter struct {
	f    *partial
	left int64
}

func (w *diskWriter) Write(p []byte) (int, error) {
	if w.left -= int64(len(p)); w.left < 0 {
		return 0, diskError(fmt.Errorf("the file is larger than the room that assets.quota and the disk leave: %w", syscall.ENOSPC))
	}
	n, err := w.f.Write(p)
	if err != nil {
		return n, diskError(err)
	}
	return n, nil
}
