package fleet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/talos-provision/provision/e2e/firmware"
)

// factory is a local Image Factory: it serves a file for every schematic,
// version and architecture, and knows later which version a file was of.
type factory struct {
	server *http.Server
	url    string
	size   int

	mu       sync.Mutex
	requests int
	versions map[string]image // by the SHA-256 of a file in hex
}

// image is what a file belongs to.
type image struct{ version, schematic string }

func startFactory(ctx context.Context, address netip.Addr, size int, releases []string) (*factory, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", netip.AddrPortFrom(address, 0).String())
	if err != nil {
		return nil, fmt.Errorf("start the local image factory: %w", err)
	}
	f := &factory{url: "http://" + listener.Addr().String(), size: size, versions: map[string]image{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /image/{schematic}/{version}/{name}", f.serve)
	mux.HandleFunc("GET /versions", func(w http.ResponseWriter, r *http.Request) {
		if len(releases) == 0 {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(releases)
	})
	f.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = f.server.Serve(listener) }() // ends with close
	return f, nil
}

func (f *factory) serve(w http.ResponseWriter, r *http.Request) {
	content := f.content(r.PathValue("schematic"), r.PathValue("version"), r.PathValue("name"))
	digest := sha256.Sum256(content)
	f.mu.Lock()
	f.requests++
	f.versions[hex.EncodeToString(digest[:])] = image{r.PathValue("version"), r.PathValue("schematic")}
	f.mu.Unlock()
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(content)
}

// content is different for every file and the same at every request.
func (f *factory) content(schematic, version, name string) []byte {
	line := fmt.Sprintf("stand-in for %s of Talos %s, schematic %s\n", name, version, schematic)
	if strings.HasSuffix(name, "-secureboot-uki.efi") {
		line = firmware.SignedUKI + ", " + line
	}
	return bytes.Repeat([]byte(line), f.size/len(line)+1)
}

// origin tells which Talos version and schematic a kernel with this SHA-256 is of; "" when it is no file of ours.
func (f *factory) origin(sha256 string) (version, schematic string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := f.versions[sha256]
	return of.version, of.schematic
}

// readMedium reads a virtual medium, as a BMC does for its machine, and tells
// which Talos version and schematic is on it.
func (f *Fleet) readMedium(ctx context.Context, uri string) (version, schematic string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, http.NoBody)
	if err != nil {
		return "", "", fmt.Errorf("read the medium: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", "", fmt.Errorf("read the medium: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return "", "", fmt.Errorf("read the medium %s: the server answers %s", uri, response.Status)
	}
	digest := sha256.New()
	if _, err := io.Copy(digest, response.Body); err != nil {
		return "", "", fmt.Errorf("read the medium %s: %w", uri, err)
	}
	version, schematic = f.factory.origin(hex.EncodeToString(digest.Sum(nil)))
	return version, schematic, nil
}

func (f *factory) fetches() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

func (f *factory) close() error {
	if err := f.server.Close(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
