package httpboot

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// NewServer wraps a handler in a server with the limits that boot clients need:
// headers within 10 s; no limit on writing, because 130 MB to a slow NIC takes
// minutes and Handler watches for progress itself; connections kept open, since
// closing them after each answer breaks UEFI HTTP boot (edk2#9920); little kept
// in the kernel for machines that take nothing (queue).
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	spare := newSpare()
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       5 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return withQueue(ctx, c, spare)
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
