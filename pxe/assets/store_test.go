package assets

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const other = "9cba8e32753f91a16c1837ab8abf356af021706ef284aef07380780177d9a06c"

// byPath serves content by the last part of the path.
func byPath(files map[string][]byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		content, ok := files[filepath.Base(r.URL.Path)]
		if !ok {
			http.NotFound(w, r)
			return
		}
		serve(content)(w, r)
	}
}

func used(t *testing.T, c *Cache) int64 {
	t.Helper()
	n, _, err := c.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestEqualKernelsOfTwoSchematicsAreStoredOnce: the kernel does not depend on
// the schematic.
func TestEqualKernelsOfTwoSchematicsAreStoredOnce(t *testing.T) {
	t.Parallel()
	content := random(1 << 20)
	up := newFactory(t, serve(content))
	dir := t.TempDir()
	c := newCache(t, dir, up.URL)
	second := kernel
	second.Schematic = other
	for range 2 { // and again over what is there
		for _, ref := range []Ref{kernel, second} {
			if !bytes.Equal(content, read(t, c, ref)) {
				t.Fatal("the content is wrong")
			}
		}
	}
	if n := used(t, c); n < 1<<20 || n > 1<<20+1000 {
		t.Errorf("%d bytes on disk for one content of %d", n, len(content))
	}
	entries, err := c.Entries(t.Context())
	if err != nil || len(entries) != 2 || entries[0].Names != 2 || entries[1].SHA256 != digest(content) {
		t.Errorf("error %v, entries %+v", err, entries)
	}
	gone, freed, err := c.Prune(t.Context(), PruneOptions{Keep: func(r Ref) bool { return r == second }})
	if err != nil || len(gone) != 1 || gone[0].Ref != kernel || freed > 1000 {
		t.Errorf("error %v, gone %+v, freed %d", err, gone, freed)
	}
	if !bytes.Equal(content, read(t, newCache(t, dir, "http://127.0.0.1:1"), second)) {
		t.Error("the content that stays is wrong")
	}
}

// TestADamagedContentIsNotSharedFurther: a blob is read before it is linked to.
func TestADamagedContentIsNotSharedFurther(t *testing.T) {
	t.Parallel()
	content := random(10_000)
	up := newFactory(t, serve(content))
	dir := t.TempDir()
	c := newCache(t, dir, up.URL)
	read(t, c, kernel)
	damaged := bytes.Clone(content)
	damaged[1] ^= 1
	if err := os.WriteFile(c.blob(digest(content)), damaged, 0o600); err != nil { // through the link, so the kernel as well
		t.Fatal(err)
	}
	second := kernel
	second.Schematic = other
	if !bytes.Equal(content, read(t, c, second)) || !bytes.Equal(content, read(t, c, kernel)) {
		t.Error("damaged content was served")
	}
	if n := up.requests.Load(); n != 3 {
		t.Errorf("%d requests, want 3: twice the kernel, once the other", n)
	}
}

func TestVerifyReadsEverything(t *testing.T) {
	t.Parallel()
	content := random(5000)
	up := newFactory(t, byPath(map[string][]byte{KernelAMD64: content, InitramfsAMD64: random(6000), CmdlineAMD64: []byte("talos.platform=metal pti=on")}))
	dir := t.TempDir()
	c := newCache(t, dir, up.URL)
	initramfs := Initramfs(plain, version, "amd64")
	for _, ref := range []Ref{kernel, initramfs, Cmdline(plain, version, "amd64", false)} {
		read(t, c, ref)
	}
	check := func(want map[Ref]string) {
		t.Helper()
		got := map[Ref]string{}
		damaged, err := c.Verify(t.Context(), func(e Entry, err error) {
			got[e.Ref] = ""
			if err != nil {
				got[e.Ref] = err.Error()
			}
		})
		bad := 0
		for ref, text := range want {
			if text != "" {
				bad++
			}
			if !strings.Contains(got[ref], text) {
				t.Errorf("%s: %q, want %q", ref, got[ref], text)
			}
		}
		if err != nil || damaged != bad || len(got) != 3 {
			t.Errorf("error %v, %d damaged of %d, want %d of 3", err, damaged, len(got), bad)
		}
	}
	check(map[Ref]string{kernel: ""})
	if err := os.Truncate(kernel.path(dir), 4999); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(initramfs.path(dir) + recordSuffix); err != nil {
		t.Fatal(err)
	}
	check(map[Ref]string{kernel: "recorded was " + digest(content), initramfs: "read its recorded SHA-256"})
	if !bytes.Equal(content, read(t, c, kernel)) {
		t.Error("the damaged file was not fetched again")
	}
}

func TestPruneByUseKeepListAndDryRun(t *testing.T) {
	t.Parallel()
	up := newFactory(t, func(w http.ResponseWriter, r *http.Request) { serve(random(1000+len(r.URL.Path)))(w, r) })
	dir := t.TempDir()
	c := newCache(t, dir, up.URL)
	refs := make([]Ref, 0, 3)
	for i, v := range []string{"v1.9.5", "v1.10.0", "v1.11.0-rc.1"} {
		ref := Kernel(plain, v, "amd64")
		refs = append(refs, ref)
		read(t, c, ref)
		past := time.Now().Add(-time.Duration(i) * 24 * time.Hour)
		for _, name := range []string{ref.path(dir), ref.path(dir) + recordSuffix} {
			if err := os.Chtimes(name, past, past); err != nil {
				t.Fatal(err)
			}
		}
	}
	open, _, err := c.Open(t.Context(), refs[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = open.Close() }()

	old := PruneOptions{UnusedFor: 36 * time.Hour, DryRun: true}
	gone, freed, err := c.Prune(t.Context(), old)
	if err != nil || len(gone) != 1 || gone[0].Ref != refs[2] || freed != gone[0].Size {
		t.Errorf("dry run: error %v, gone %+v, freed %d", err, gone, freed)
	}
	if e, _ := c.Entries(t.Context()); len(e) != 3 {
		t.Errorf("a dry run left %d files of 3", len(e))
	}
	old.DryRun = false
	if gone, freed, err = c.Prune(t.Context(), old); err != nil || len(gone) != 1 || freed < gone[0].Size {
		t.Errorf("error %v, gone %+v, freed %d", err, gone, freed)
	}
	if gone, _, err = c.Prune(t.Context(), PruneOptions{Keep: func(r Ref) bool { return r == refs[1] }}); err != nil || len(gone) != 1 || gone[0].Ref != refs[0] {
		t.Errorf("keep list: error %v, gone %+v", err, gone)
	}
	if _, err := io.ReadAll(open); err != nil {
		t.Errorf("the file that is being sent: %v", err)
	}
	if _, _, err = c.Prune(t.Context(), PruneOptions{}); err != nil || used(t, c) != 0 {
		t.Errorf("error %v, %d bytes are left", err, used(t, c))
	}
	left, err := os.ReadDir(filepath.Join(dir, plain))
	if err == nil {
		t.Errorf("directories are left: %v", left)
	}
}

// A use is noted, so that pruning by age spares what is booted every day.
func TestUseIsNoted(t *testing.T) {
	t.Parallel()
	up := newFactory(t, serve(random(100)))
	dir := t.TempDir()
	read(t, newCache(t, dir, up.URL), kernel)
	past := time.Now().Add(-90 * 24 * time.Hour)
	for _, name := range []string{kernel.path(dir), kernel.path(dir) + recordSuffix} {
		if err := os.Chtimes(name, past, past); err != nil {
			t.Fatal(err)
		}
	}
	c := newCache(t, dir, up.URL)
	if e, ok := c.Entry(kernel); !ok || time.Since(e.LastUsed) < 24*time.Hour {
		t.Errorf("before: %+v", e)
	}
	read(t, c, kernel)
	if e, ok := c.Entry(kernel); !ok || time.Since(e.LastUsed) > time.Hour || time.Since(e.Fetched) < 24*time.Hour {
		t.Errorf("after: %+v", e)
	}
}

func TestTheQuotaRefusesBeforeAByteIsWritten(t *testing.T) {
	t.Parallel()
	up := newFactory(t, byPath(map[string][]byte{KernelAMD64: random(6000), InitramfsAMD64: random(5000)}))
	dir := t.TempDir()
	c := newCache(t, dir, up.URL, func(o *Options) { o.Quota = 10_000; o.Attempts = 3 })
	read(t, c, kernel)
	_, err := c.Ensure(t.Context(), Initramfs(plain, version, "amd64"))
	for _, want := range []string{"does not fit", "assets.quota is 9.8 KiB", "5.9 KiB are used", "provision assets prune"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
	if n := up.requests.Load(); n != 2 {
		t.Errorf("%d requests: another attempt makes no room", n)
	}
	noPartial(t, dir)
	if _, _, err := c.Prune(t.Context(), PruneOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Ensure(t.Context(), Initramfs(plain, version, "amd64")); err != nil {
		t.Errorf("after pruning: %v", err)
	}
}

// A chunked answer has no length to refuse by, so it is cut off at the quota.
func TestTheQuotaHoldsForAFileOfUnknownSize(t *testing.T) {
	t.Parallel()
	content := random(1 << 20)
	up := newFactory(t, func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush() // makes it chunked
		_, _ = w.Write(content)
	})
	dir := t.TempDir()
	c := newCache(t, dir, up.URL, func(o *Options) { o.Quota = 100_000 })
	if _, err := c.Ensure(t.Context(), kernel); err == nil || !strings.Contains(err.Error(), "larger than the room that assets.quota") {
		t.Errorf("error is %v", err)
	}
	noFile(t, dir)
	if !bytes.Equal(content, read(t, newCache(t, dir, up.URL), kernel)) {
		t.Error("without a quota the content is wrong")
	}
}

func TestAnAbsurdSizeIsRefused(t *testing.T) {
	t.Parallel()
	up := newFactory(t, raw("HTTP/1.1 200 OK\r\nContent-Length: 90000000000\r\n\r\nxx"))
	dir := t.TempDir()
	if _, err := newCache(t, dir, up.URL).Ensure(t.Context(), kernel); err == nil || !strings.Contains(err.Error(), "no boot file has more than 8.0 GiB") {
		t.Errorf("error is %v", err)
	}
	noFile(t, dir)
}

func TestSizesAreReadAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0": 0, "1048576": 1 << 20, "50GiB": 50 << 30, "50 G": 50 << 30, "1.5KiB": 1536, "800MB": 800_000_000, "7b": 7, "2tib": 2 << 40} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "GiB", "-1", "1XB", "1 2", "ten", "1..2", "99999999EiB", "1KiBs"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 103_079_215: "98.3 MiB", 8 << 30: "8.0 GiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

func TestTheTableOfNames(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for _, name := range Names() {
		r := Ref{Schematic: plain, Version: version, Name: name}
		if err := r.Validate(); err != nil {
			t.Error(err)
		}
		got[name] = fmt.Sprintf("%s, %s", r.Kind(), r.ContentType())
	}
	want := map[string]string{
		"kernel-amd64": "kernel, application/octet-stream", "initramfs-arm64.xz": "initramfs, application/octet-stream",
		"metal-amd64-secureboot-uki.efi": "uki, application/efi", "metal-arm64-uki.efi": "uki, application/efi",
		"metal-amd64.iso": "iso, application/vnd.efi-iso", "cmdline-metal-arm64-secureboot": "cmdline, text/plain; charset=utf-8",
	}
	for name, form := range want {
		if got[name] != form {
			t.Errorf("%s is %q, want %q", name, got[name], form)
		}
	}
	for _, arch := range []string{"amd64", "arm64"} {
		made := []Ref{UKI(plain, version, arch, true), UKI(plain, version, arch, false), ISO(plain, version, arch, true), ISO(plain, version, arch, false), Cmdline(plain, version, arch, true), Cmdline(plain, version, arch, false)}
		made = append(made, Image{plain, version, arch, false}.Refs()...)
		for _, r := range made {
			if err := r.Validate(); err != nil {
				t.Error(err)
			}
		}
	}
	if diff := cmp.Diff([]Ref{{plain, version, SecureBootUKIAMD64}}, Image{plain, version, "amd64", true}.Refs()); diff != "" {
		t.Error(diff)
	}
}

func FuzzParseRef(f *testing.F) {
	f.Add(kernel.String())
	f.Add("../../etc/passwd")
	f.Add(plain + "/v1.9.5/../kernel-amd64")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRef(text)
		if err != nil {
			return
		}
		if r.String() != text || filepath.Clean(text) != text || strings.Count(text, "/") != 2 || strings.Contains(text, "..") {
			t.Errorf("%q was accepted as %+v", text, r)
		}
	})
}
