package assets

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/talos-provision/provision/inventory/schematic"
)

func put(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// imports runs Import and gives what became of each file, by its base name.
func imports(t *testing.T, c *Cache, path string, o ImportOptions) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := c.Import(t.Context(), path, o, func(i Imported) {
		name, err := filepath.Rel(path, i.Path)
		if err != nil {
			t.Error(err)
		}
		switch {
		case i.Err != nil:
			got[name] = i.Err.Error()
		case i.Skipped != "":
			got[name] = "skipped: " + i.Skipped
		case i.Present:
			got[name] = "present " + i.Ref.String()
		default:
			got[name] = "new " + i.Ref.String()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestImportOfACopiedCache is the air-gapped site: what one host fetched is
// carried to another, which has no way to the factory.
func TestImportOfACopiedCache(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{KernelAMD64: random(5000), InitramfsAMD64: random(6000)}
	up := newFactory(t, byPath(files))
	carried := t.TempDir()
	online := newCache(t, carried, up.URL)
	for name := range files {
		read(t, online, Ref{plain, version, name})
	}
	up.Close()
	c := newCache(t, t.TempDir(), "http://127.0.0.1:1")
	for _, want := range []string{"new ", "present "} {
		got := imports(t, c, carried, ImportOptions{})
		for name := range files {
			ref := Ref{plain, version, name}
			if got[ref.String()] != want+ref.String() {
				t.Errorf("%s: %q", name, got[ref.String()])
			}
		}
		if len(got) != 2 {
			t.Errorf("imported %v", got)
		}
	}
	for name, content := range files {
		if !bytes.Equal(content, read(t, c, Ref{plain, version, name})) {
			t.Errorf("%s is wrong", name)
		}
	}
}

// TestImportOfATalosRelease: flat files whose image the options name, some of
// them bad in the ways that files go bad on their way.
func TestImportOfATalosRelease(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := append([]byte("MZ"), random(4000)...)
	put(t, filepath.Join(dir, "vmlinuz-amd64"), good)
	put(t, filepath.Join(dir, "vmlinuz-arm64"), append([]byte("\x28\xb5\x2f\xfd"), random(4000)...)) // an initramfs
	put(t, filepath.Join(dir, "initramfs-amd64.xz"), random(4000))                                   // cut on its way
	put(t, filepath.Join(dir, "initramfs-arm64.xz"), []byte(page))
	put(t, filepath.Join(dir, "metal-amd64.iso"), nil)
	put(t, filepath.Join(dir, "talosctl-linux-amd64"), random(100))
	put(t, filepath.Join(dir, "sha256sum.txt"), fmt.Appendf(nil, "%s  _out/vmlinuz-amd64\n%s  _out/initramfs-amd64.xz\n", digest(good), digest(random(9000))))
	c := newCache(t, t.TempDir(), "http://127.0.0.1:1")
	got := imports(t, c, dir, ImportOptions{Schematic: plain, Version: version})
	for name, want := range map[string]string{
		"vmlinuz-amd64":        "new " + kernel.String(),
		"vmlinuz-arm64":        "begins like a zstd archive, which is not what a kernel looks like",
		"initramfs-amd64.xz":   "but sha256sum.txt says",
		"initramfs-arm64.xz":   "it is a page (text/html)",
		"metal-amd64.iso":      "not a file with content",
		"talosctl-linux-amd64": "skipped: \"talosctl-linux-amd64\" is not the name of a boot file",
	} {
		if !strings.Contains(got[name], want) {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	if e, err := c.Entries(t.Context()); err != nil || len(e) != 1 || e[0].SHA256 != digest(good) {
		t.Errorf("error %v, entries %+v", err, e)
	}
}

func TestImportAsksWhichImageAFileIsOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, KernelAMD64)
	put(t, path, random(1000))
	c := newCache(t, t.TempDir(), "http://127.0.0.1:1")
	one := func(o ImportOptions) (last Imported) {
		if err := c.Import(t.Context(), path, o, func(i Imported) { last = i }); err != nil {
			t.Fatal(err)
		}
		return last
	}
	if i := one(ImportOptions{}); i.Err == nil || !strings.Contains(i.Err.Error(), "say which image it is of") {
		t.Errorf("without options: %+v", i)
	}
	if i := one(ImportOptions{Schematic: plain, Version: "1.13.9"}); i.Err == nil || !strings.Contains(i.Err.Error(), "form v1.13.9") {
		t.Errorf("bad version: %+v", i)
	}
	image := ImportOptions{Schematic: plain, Version: version}
	if i := one(image); i.Err != nil || i.Info.Size != 1000 {
		t.Errorf("good: %+v", i)
	}
	put(t, path, random(1001))
	if i := one(image); i.Err == nil || !strings.Contains(i.Err.Error(), "another file of that name") {
		t.Errorf("another content: %+v", i)
	}
	image.Replace = true
	if i := one(image); i.Err != nil || i.Info.Size != 1001 {
		t.Errorf("replace: %+v", i)
	}
	if err := c.Import(t.Context(), filepath.Join(dir, "missing"), image, func(Imported) {}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a path that is not there: %v", err)
	}
}

// registry is a factory that serves an image only after its schematic was posted.
type registry struct {
	known atomic.Bool
	posts atomic.Int64
	id    func(text []byte) string // the id it gives
	fail  int                      // status of POST, 0 for 201
}

func (g *registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && r.URL.Path == "/schematics" {
		g.posts.Add(1)
		if g.fail != 0 {
			http.Error(w, "no", g.fail)
			return
		}
		text, _ := io.ReadAll(r.Body)
		g.known.Store(true)
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]string{"id": g.id(text)})
		return
	}
	if !g.known.Load() || !strings.Contains(r.URL.Path, "/"+version+"/") {
		http.NotFound(w, r)
		return
	}
	serve(random(700))(w, r)
}

func TestAMissingSchematicIsRegisteredOnce(t *testing.T) {
	t.Parallel()
	s, err := schematic.Parse([]byte("customization: {extraKernelArgs: [noapic, nolapic]}"))
	if err != nil {
		t.Fatal(err)
	}
	honest := digest
	for name, tc := range map[string]struct {
		registry *registry
		version  string
		want     string // part of the error
		posts    int64
	}{
		"missing":              {&registry{id: honest}, version, "", 1},
		"the version is wrong": {&registry{id: honest}, "v1.99.0", "status 404 Not Found; check talosVersion", 1},
		"another id":           {&registry{id: func([]byte) string { return plain }}, version, "the factory gives this schematic the id \"" + plain + "\"", 1},
		"no id":                {&registry{id: func([]byte) string { return "" }}, version, "has no id", 1},
		"refused":              {&registry{id: honest, fail: http.StatusBadRequest}, version, "status 400 Bad Request: \"no\\n\"", 1},
		"broken for a while":   {&registry{id: honest, fail: http.StatusBadGateway}, version, "status 502", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newFactory(t, tc.registry.ServeHTTP)
			c := newCache(t, t.TempDir(), up.URL, func(o *Options) { o.Attempts = 2 })
			id, err := c.Know(s)
			if err != nil || id != other {
				t.Fatalf("id %s, error %v", id, err)
			}
			_, err = c.Ensure(t.Context(), Kernel(id, tc.version, "amd64"))
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
			if n := tc.registry.posts.Load(); n != tc.posts {
				t.Errorf("%d registrations, want %d", n, tc.posts)
			}
		})
	}
	// A schematic of which only the id is known is never registered.
	g := &registry{id: honest}
	up := newFactory(t, g.ServeHTTP)
	if _, err := newCache(t, t.TempDir(), up.URL).Ensure(t.Context(), Kernel(other, version, "amd64")); err == nil || g.posts.Load() != 0 {
		t.Errorf("error %v, %d registrations", err, g.posts.Load())
	}
}
