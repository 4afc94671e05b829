package tftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pin/tftp/v3"
)

// silencer ends transfers without a packet where the protocol wants silence:
// the library (v3.2.0) answers a client's ERROR with an ERROR of its own, which
// RFC 1350 forbids and EDK2's size probe provokes at each boot. The library
// calls its hook before it sends that packet and cleans up when the hook does
// not return; so the hook panics with a clientError and send, which started the
// transfer on the same goroutine, recovers it.
type silencer struct{}

// OnSuccess implements tftp.Hook.
func (silencer) OnSuccess(tftp.TransferStats) {}

// OnFailure implements tftp.Hook. Failures outside a transfer have no client.
func (silencer) OnFailure(stats tftp.TransferStats, err error) {
	if stats.RemoteAddr != nil && fromClient(err) {
		panic(clientError{fmt.Sprintf("the client ended the transfer: %s", printable(err.Error()))})
	}
}

// fromClient recognises the library's error for a received ERROR packet,
// "sending block N: code=N, error: TEXT": it has no type.
func fromClient(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "sending block ") && strings.Contains(text, ": code=")
}

// send runs the transfer and turns a panic into its error: those of the hook
// and the back-off, which mean to end it, and any other, which must not end the
// server.
func send(to io.ReaderFrom, content *body) (err error) {
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case clientError:
			err = cause
		case stopped:
			err = errStopping
		default:
			err = fmt.Errorf("the transfer caused a panic, please report this: %v", cause)
		}
	}()
	if _, err := to.ReadFrom(content); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// stopped ends a transfer that waits for a silent client while the server stops.
type stopped struct{}

// backoff waits a little longer before each repetition, on top of the timeout.
func backoff(ctx context.Context) func(attempt int) time.Duration {
	return func(attempt int) time.Duration {
		if ctx.Err() != nil {
			panic(stopped{})
		}
		return min(time.Duration(attempt)*100*time.Millisecond, time.Second)
	}
}

// printable cuts a text that came from the network at the first byte that may
// not reach a log.
func printable(text string) string {
	if end := strings.IndexFunc(text, unprintable); end >= 0 {
		text = text[:end]
	}
	const longest = 128
	return text[:min(len(text), longest)]
}

var errReadOnly = errors.New("access violation: this server is read-only")
