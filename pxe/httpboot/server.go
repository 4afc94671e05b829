package httpboot

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxUnsent is how much the kernel queues for a connection beyond what is on its
// way, in bytes. By default it takes megabytes from us for a machine that takes
// nothing from it, and a thousand of those use up the memory that the kernel has
// for all of TCP (net.ipv4.tcp_mem): then honest machines wait as well. What is
// on its way is not bounded by this, so it costs no speed; a smaller bound costs
// processor time, because we are woken more often (measured beside nginx: 512 KiB
// move 0.7 times its bytes per CPU-second, 2 MiB 0.98; with 4 MiB a thousand stalled
// machines already hold up an honest one).
const maxUnsent = 2 << 20

// NewServer wraps a handler in a server with the limits that boot clients need:
// headers within 10 s; no limit on writing, because 130 MB to a slow NIC takes
// minutes and Handler watches for progress itself; connections kept open, since
// closing them after each answer breaks UEFI HTTP boot (edk2#9920); little kept
// in the kernel for machines that take nothing.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       5 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			boundUnsent(c)
			return ctx
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

func boundUnsent(c net.Conn) {
	conn, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent) // not all kernels have it; it works without
	})
}
