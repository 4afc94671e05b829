package httpboot

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Every request is told once, at its end, by what was asked for, with its status and
// the bytes that were sent.
func TestEveryRequestIsToldAtItsEnd(t *testing.T) {
	t.Parallel()
	cache, ref, content := cacheWith(t, 100_000)
	var (
		mu   sync.Mutex
		told []Served
	)
	slow := make(chan struct{})
	h := New(Options{
		OnScript: func(r Request, _ Answer) {
			if r.Facts.Serial == "late" {
				<-slow // who is told takes its time
			}
		},
		Director: director{"A1": installed(node01), "late": installed(node01)}, Assets: cache, IPXEDir: ipxeDir(t),
		HandOut: func(token string, _ netip.Addr) (Handout, bool) {
			return Handout{Data: []byte("machine: {}\n"), Done: func(bool) {}}, token == "good"
		},
		OnRequest: func(s Served) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, s)
		},
	})
	c := dial(t, serveHandler(t, h))
	const facts = "?serial=A1&mac=52-54-00-12-34-56&arch=x86_64&platform=efi"
	type seen struct {
		What   What
		Status int
		Bytes  int64
	}
	requests := []struct {
		text   string
		what   What
		status int
	}{
		{"GET /boot.ipxe" + facts, WhatScript, 200},
		{"GET /boot.ipxe", WhatScript, 200},
		{"GET /autoexec.ipxe", WhatAutoexec, 200},
		{"GET /ipxe/snponly.efi", WhatBinary, 200},
		{"HEAD /ipxe/snponly.efi", WhatBinary, 200},
		{"GET /ipxe/nothing.efi", WhatBinary, 404},
		{"GET /image/" + ref.String(), WhatKernel, 200},
		{"GET /image/../etc/passwd", WhatElse, 404},
		{"GET /image/a/b/c", WhatElse, 404},
		{"GET /uki/52-54-00-00-00-09/amd64.efi", WhatUKI, 404},
		{"GET /config/bad", WhatConfig, 404},
		{"GET /healthz", WhatHealth, 200},
		{"GET /debug/pprof/", WhatElse, 404},
		{"GET /metrics", WhatElse, 404},
		{"POST /healthz", WhatElse, 405},
	}
	want := make([]seen, 0, len(requests))
	for _, request := range requests {
		reply := c.do(request.text)
		if !strings.HasPrefix(reply.status, fmt.Sprint(request.status)) {
			t.Errorf("%s is answered %s", request.text, reply.status)
		}
		want = append(want, seen{request.what, request.status, int64(len(reply.body))})
	}
	c.do("GET /healthz") // what was asked before has been told when the next is answered
	asked := time.Now()
	c.do("GET /boot.ipxe?serial=late")
	answered := time.Since(asked)
	time.AfterFunc(answered+20*time.Millisecond, func() { close(slow) })
	c.do("GET /healthz")
	mu.Lock()
	defer mu.Unlock()
	if late := told[len(want)+1]; late.What != WhatScript || late.Duration > answered {
		t.Errorf("a script that its machine had after %s is told as %+v", answered, late)
	}
	got := make([]seen, 0, len(want))
	for _, s := range told[:min(len(want), len(told))] {
		got = append(got, seen{s.What, s.Status, s.Bytes})
		if !slices.Contains(Whats(), s.What) {
			t.Errorf("%q is not listed", s.What)
		}
		if s.Duration <= 0 {
			t.Errorf("%s took %s", s.What, s.Duration)
		}
	}
	// net/http takes the body of a HEAD and of 404s to it; what was written is what counts.
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if at := slices.IndexFunc(got, func(s seen) bool { return s.What == WhatKernel }); at < 0 || got[at].Bytes != int64(len(content)) {
		t.Errorf("the kernel of %d bytes is told as %+v", len(content), got)
	}
}

// A file counts as being sent from its first byte to its last.
func TestFilesThatAreBeingSentAreCounted(t *testing.T) {
	t.Parallel()
	cache, ref, content := cacheWith(t, 8<<20)
	h := New(Options{Assets: cache})
	slow := dial(t, serveHandler(t, h))
	if n := h.Sending(); n != 0 {
		t.Errorf("%d files are being sent before anybody asked", n)
	}
	if _, err := fmt.Fprintf(slow, "GET /image/%s HTTP/1.1\r\nHost: x\r\n\r\n", ref); err != nil {
		t.Fatal(err)
	}
	if _, err := slow.r.Peek(1); err != nil { // 8 MB do not fit into the socket buffers
		t.Fatal(err)
	}
	if n := h.Sending(); n != 1 {
		t.Errorf("%d files are being sent, want 1", n)
	}
	if _, err := io.CopyN(io.Discard, slow.r, int64(len(content))); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return h.Sending() == 0 })
}
