package httpboot

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/netip"
	"os"
	"time"
)

// Transfer reports one request that was answered with a file, when it is over.
type Transfer struct {
	// Source is the machine's address.
	Source netip.Addr
	// Name is the file as the URL names it: an iPXE binary, or
	// schematic/version/name of a boot file.
	Name string
	// Method is GET or HEAD; a HEAD has no body.
	Method string
	// Status is the HTTP status: 200, 206 for a range, 304, or an error's.
	Status int
	// Bytes were handed to the network; Size is the whole file. Both in bytes.
	Bytes, Size int64
	// Duration is from the request to the last byte.
	Duration time.Duration
	// Err says why the transfer ended early, nil when it did not.
	Err error
}

// Progress reports a transfer that is under way.
type Progress struct {
	// Source and Name are as in Transfer.
	Source netip.Addr
	Name   string
	// Bytes were handed to the network so far; Size is the whole file. A range
	// counts from where it begins. Both in bytes.
	Bytes, Size int64
}

// progressInterval is the shortest time between two reports of one transfer.
const progressInterval = time.Second

// chunk is how much is handed to the kernel at a time, in bytes: small enough to
// look at the clock now and then, large enough not to cost anything.
const chunk = 1 << 20

// leastProgress is what a machine must take within the stall timeout, in bytes.
// At less, no kernel arrives before somebody looks after the machine, and the
// connection only takes the place of another.
const leastProgress = 64 << 10

// response counts what is sent and gives up on a client that takes nothing.
// It passes io.ReaderFrom through: without that net/http would copy every byte
// through user space in place of sendfile (caddy#4731).
type response struct {
	http.ResponseWriter
	ctl    *http.ResponseController
	stall  time.Duration
	status int
	sent   int64
	last   time.Time // when something was handed to the network last
	err    error

	queue *queue // nil when it is not known

	progress func(sent int64) // nil when nobody wants to know
	reported time.Time
}

var _ io.ReaderFrom = (*response)(nil)

func newResponse(w http.ResponseWriter, stall time.Duration) *response {
	r := &response{ResponseWriter: w, ctl: http.NewResponseController(w), stall: stall, reported: time.Now()}
	// Also covers small answers, which net/http sends after the handler returns.
	r.extend()
	return r
}

// extend gives the client a new period in which to take something. The deadline
// is never cleared: the next request on the connection sets its own.
func (w *response) extend() {
	_ = w.ctl.SetWriteDeadline(time.Now().Add(w.stall)) // a writer without deadlines, as in a unit test, has no client to wait for
}

// Unwrap lets http.ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader notes the status.
func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
	w.last = time.Now()
}

// Write counts.
func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.extend()
	n, err := w.ResponseWriter.Write(p)
	w.sent, w.last = w.sent+int64(n), time.Now()
	w.fail(err)
	w.report()
	return n, err
}

// report tells of the progress when it is time to.
func (w *response) report() {
	if w.progress == nil {
		return
	}
	if now := time.Now(); now.Sub(w.reported) >= progressInterval {
		w.reported = now
		w.progress(w.sent)
	}
}

// ReadFrom sends src in chunks, each by the connection's own ReadFrom. Unwrapping
// the LimitedReader that io.CopyN made matters: the net package looks through one
// of them to find the file, not through two.
func (w *response) ReadFrom(src io.Reader) (int64, error) {
	out, ok := w.ResponseWriter.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{w}, src)
	}
	if w.status == 0 {
		w.status = http.StatusOK
	}
	left := int64(math.MaxInt64)
	limited, _ := src.(*io.LimitedReader)
	if limited != nil {
		src, left = limited.R, limited.N
	}
	var total int64
	for left > 0 {
		part := &io.LimitedReader{R: src, N: min(left, chunk)}
		want := part.N
		w.extend()
		n, err := out.ReadFrom(part)
		total, left, w.sent, w.last = total+n, left-n, w.sent+n, time.Now()
		if limited != nil {
			limited.N = left
		}
		w.report()
		w.queue.adapt(w.sent, left)
		if n >= leastProgress && errors.Is(err, os.ErrDeadlineExceeded) {
			continue // slow, but it moves
		}
		if err != nil {
			w.fail(err)
			return total, err
		}
		if n < want {
			break // end of src
		}
	}
	return total, nil
}

func (w *response) fail(err error) {
	switch {
	case err == nil || w.err != nil:
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.err = fmt.Errorf("the machine took next to nothing for %v", w.stall)
	default:
		w.err = err
	}
}
