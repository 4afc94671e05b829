package firmware

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter bounds one wait that a server asks for.
const maxRetryAfter = 2 * time.Minute

// maxRetries bounds how often a server may put a download off. iPXE itself
// asks for ever.
const maxRetries = 1000

// newHTTPClient speaks HTTP as iPXE does: one kept connection a server for
// script, kernel and initramfs, no compression, no proxy.
func (b *boot) newHTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			var dialer net.Dialer
			if source := b.sourceIP(); source != nil {
				dialer.LocalAddr = &net.TCPAddr{IP: source}
			}
			return dialer.DialContext(ctx, network, address)
		},
		DisableCompression: true,
		MaxConnsPerHost:    1,
		ReadBufferSize:     64 << 10,
	}}
}

// fetch downloads a URL of at most limit bytes into w, by HTTP or TFTP.
func (b *boot) fetch(ctx context.Context, u *url.URL, w io.Writer, limit int64) (Image, error) {
	switch u.Scheme {
	case "http":
		return b.fetchHTTP(ctx, u, w, limit)
	case "tftp":
		server, err := b.tftpServer(u)
		if err != nil {
			return Image{}, err
		}
		image, err := b.download(ctx, server, strings.TrimPrefix(u.Path, "/"), w, limit, "blksize", "1432", "tsize", "0")
		image.Name = path.Base(u.Path)
		return image, err
	default:
		return Image{}, fmt.Errorf("fetching %s: iPXE as emulated speaks http and tftp only", u)
	}
}

func (b *boot) tftpServer(u *url.URL) (netip.AddrPort, error) {
	host, port := u.Hostname(), u.Port()
	if port == "" {
		port = strconv.Itoa(b.machine.TFTPPort)
	}
	server, err := netip.ParseAddrPort(net.JoinHostPort(host, port))
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("fetching %s: the host must be an IP address: %w", u, err)
	}
	return server, nil
}

// fetchHTTP asks again when an error carries Retry-After, whatever its status:
// that is how a server puts off downloads that it cannot serve yet.
func (b *boot) fetchHTTP(ctx context.Context, u *url.URL, w io.Writer, limit int64) (Image, error) {
	for range maxRetries {
		image, again, err := b.get(ctx, u, w, limit)
		if again == 0 {
			return image, err
		}
		b.step("%v; again in %v", err, again)
		if err := sleep(ctx, b.machine.scaled(again)); err != nil {
			return Image{}, err
		}
	}
	return Image{}, fmt.Errorf("fetching %s: the server put it off %d times", u, maxRetries)
}

// get makes one request; again is the wait that the server asked for.
func (b *boot) get(ctx context.Context, u *url.URL, w io.Writer, limit int64) (image Image, again time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return Image{}, 0, fmt.Errorf("fetching %s: %w", u, err)
	}
	request.Header.Set("User-Agent", "iPXE/1.21.1+git20250501.dad20602+dfsg-1")
	response, err := b.http.Do(request)
	if err != nil {
		return Image{}, 0, fmt.Errorf("fetching %s: %w", u, err)
	}
	defer func() {
		// What is left of an error page must be read, or the connection is lost.
		_, _ = io.CopyN(io.Discard, response.Body, 4<<10)
		_ = response.Body.Close()
	}()
	if response.StatusCode != http.StatusOK {
		err := fmt.Errorf("fetching %s: the server answers %s", u, response.Status)
		return Image{}, retryAfter(response), err
	}
	if response.ContentLength < 0 {
		return Image{}, 0, fmt.Errorf("fetching %s: the answer has no Content-Length", u)
	}
	if response.ContentLength > limit {
		return Image{}, 0, fmt.Errorf("fetching %s: %d bytes are more than fit, %d", u, response.ContentLength, limit)
	}
	digest := sha256.New()
	n, err := io.Copy(io.MultiWriter(digest, w), stall(ctx, pace(ctx, response.Body, b.machine.Faults.HTTPRate), b.machine.Faults.StallAfter))
	if err != nil {
		return Image{}, 0, fmt.Errorf("fetching %s: after %d of %d bytes: %w", u, n, response.ContentLength, err)
	}
	return Image{Name: path.Base(u.Path), Size: n, SHA256: hex.EncodeToString(digest.Sum(nil))}, 0, nil
}

// retryAfter is 0 when an answer has none. At least a second, as the header
// counts seconds.
func retryAfter(response *http.Response) time.Duration {
	s, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || s < 0 {
		return 0
	}
	return min(max(time.Duration(s), 1)*time.Second, maxRetryAfter)
}
