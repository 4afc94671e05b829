package httpboot_test

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/talos-provision/provision/pxe/httpboot"
)

// The kernel takes a config at once, also for a machine that is gone: whether it
// got there is told by its acknowledgements. A token that counted as used would
// leave the machine without its config for ever.
func TestAConfigThatDidNotReachItsMachineIsToldAsNotSent(t *testing.T) {
	t.Parallel()
	for name, breaks := range map[string]bool{"read to its end": false, "broken off": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := make(chan bool, 1)
			handOut := func(string, netip.Addr) (httpboot.Handout, bool) {
				return httpboot.Handout{Data: bytes.Repeat([]byte("a: b\n"), 40<<10), Done: func(sent bool) { done <- sent }}, true
			}
			server := httpboot.NewServer(httpboot.New(httpboot.Options{HandOut: handOut}), nil)
			var listen net.ListenConfig
			listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go func() { _ = server.Serve(listener) }()
			t.Cleanup(func() { _ = server.Close() })

			conn, err := (&net.Dialer{}).DialContext(context.WithoutCancel(t.Context()), "tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if breaks {
				tcp, _ := conn.(*net.TCPConn)
				if err := tcp.SetReadBuffer(4 << 10); err != nil {
					t.Fatal(err)
				}
				if err := tcp.SetLinger(0); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := conn.Write([]byte("GET /config/t0ken HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			reader := bufio.NewReader(conn)
			line, err := reader.ReadString('\n')
			if err != nil || !strings.Contains(line, http.StatusText(http.StatusOK)) {
				t.Fatalf("%q, %v", line, err)
			}
			if breaks {
				_ = conn.Close()
			} else if _, err := reader.WriteTo(&bytes.Buffer{}); err != nil {
				t.Fatal(err)
			}
			if sent := <-done; sent == breaks {
				t.Errorf("told as sent: %t, broken off: %t", sent, breaks)
			}
		})
	}
}
