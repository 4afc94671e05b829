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
	"time"
)

// fetch brings the file from the factory, trying again when the failure may pass.
func (c *Cache) fetch(ctx context.Context, ref Ref) error {
	url := c.opts.Factory + "/image/" + ref.String()
	start := time.Now()
	delay := c.opts.RetryDelay
	for attempt := 1; ; attempt++ {
		info, err := c.attempt(ctx, ref, url)
		if err == nil {
			c.log.Info("fetched a boot file", "ref", ref.String(), "bytes", info.Size, "sha256", info.SHA256, "took", time.Since(start).Round(time.Millisecond))
			return nil
		}
		err = fmt.Errorf("fetch %s from %s: %w", ref.brief(), url, err)
		if ctx.Err() != nil || attempt >= c.opts.Attempts || !mayPass(err) {
			return err
		}
		c.log.Warn("fetching a boot file failed, trying again", "ref", ref.String(), "attempt", attempt, "in", delay, "err", err)
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return err
		}
		delay *= 2
	}
}

// attempt downloads the file once. It is in the cache, whole, or not at all.
func (c *Cache) attempt(ctx context.Context, ref Ref, url string) (Info, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Info{}, err
	}
	// Asking for the plain bytes keeps Content-Length meaningful: net/http
	// drops it when it unpacks a gzip answer on its own.
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := c.opts.Client.Do(req)
	if err != nil {
		return Info{}, unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := checkResponse(resp); err != nil {
		return Info{}, err
	}
	out, err := createPartial(ref.path(c.opts.Dir))
	if err != nil {
		return Info{}, err
	}
	defer out.discard()

	watched := watch(resp.Body, c.opts.StallTimeout, cancel)
	defer watched.stop()
	info, err := c.receive(ctx, ref, out, watched, resp.ContentLength)
	if err != nil {
		return Info{}, err
	}
	return info, c.store(ref, out, info)
}

// receive copies the body to disk and checks that all of it came and that it is
// not a page meant for a browser.
func (c *Cache) receive(ctx context.Context, ref Ref, out *partial, body io.Reader, length int64) (Info, error) {
	progress := c.progress(ref, length)
	hash := sha256.New()
	var head prefix
	disk := diskWriter{out}
	size, err := io.Copy(io.MultiWriter(disk, hash, &head, progress), body)
	switch {
	case errors.As(err, new(localError)):
		return Info{}, err
	case err != nil && ctx.Err() != nil:
		// The watchdog's or the callers' reason says more than "context canceled".
		return Info{}, transientError{fmt.Errorf("after %d of %d bytes: %w", size, length, context.Cause(ctx))}
	case err != nil:
		return Info{}, transientError{fmt.Errorf("after %d of %d bytes: %w; the factory or a proxy cut the transfer, check the uplink", size, length, err)}
	case length >= 0 && size != length:
		return Info{}, transientError{fmt.Errorf("got %d bytes, Content-Length says %d; check the uplink", size, length)}
	case size == 0:
		return Info{}, errors.New("the answer is empty; open the URL in a browser to see what the factory says")
	}
	if kind := head.page(); kind != "" {
		return Info{}, notAFile(kind)
	}
	progress.finish(size)
	return Info{Size: size, SHA256: hex.EncodeToString(hash.Sum(nil))}, nil
}

// store moves the complete file into place and remembers it as verified: the
// hash was computed from the very bytes that were written.
func (c *Cache) store(ref Ref, out *partial, info Info) error {
	if err := writeRecord(out.final, info.SHA256); err != nil {
		return err
	}
	if err := out.commit(); err != nil {
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

// diskWriter tells a full disk from a broken connection inside io.Copy.
type diskWriter struct{ f *partial }

func (w diskWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	if err != nil {
		return n, diskError(err)
	}
	return n, nil
}
