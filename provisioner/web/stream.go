package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
)

// streamEnd is the last line of a stream: why it ended. Without it the stream was cut off.
type streamEnd struct {
	// End is complete (all there is was sent), stopping (the daemon is) or failed.
	End   string `json:"end"`
	Error *Error `json:"error,omitempty"`
}

const (
	endComplete = "complete"
	endStopping = "stopping"
	endFailed   = "failed"
)

// linesType and sseType are the media types of a stream.
const (
	linesType = "application/x-ndjson"
	sseType   = "text/event-stream"
)

// enterStream counts a stream, and refuses one too many.
func (s *Server) enterStream() (leave func(), err error) {
	select {
	case s.streams <- struct{}{}:
		return func() { <-s.streams }, nil
	default:
		return nil, &Error{Code: CodeTooMany, Message: fmt.Sprintf("%d streams are open already", cap(s.streams)), Hint: "end one of them, or wait"}
	}
}

// events streams events as lines of JSON, or as server-sent events to who asks for them.
func (s *Server) events(w http.ResponseWriter, c *call) error {
	q, err := decodeEvents(c.URL.Query(), c.Header)
	if err != nil {
		return err
	}
	leave, err := s.enterStream()
	if err != nil {
		return err
	}
	defer leave()
	form := streamForm(lines{})
	w.Header().Set("Content-Type", linesType)
	if q.sse {
		form = sse{}
		w.Header().Set("Content-Type", sseType)
	}
	w.Header().Set("X-Accel-Buffering", "no") // a proxy in between must not gather them
	w.WriteHeader(http.StatusOK)

	ctx, cancel := context.WithCancel(c.Context())
	found := s.find(ctx, q)
	// Nothing outlives the call: who looks for events is told to stop, and waited for.
	defer found.wait()
	defer cancel()
	out := s.paced(w)
	end, err := s.copyEvents(ctx, out, form, found)
	if c.caller.stand.ended() {
		end, err = streamEnd{End: endFailed, Error: errRevoked()}, nil
	}
	if err != nil {
		return fmt.Errorf("write a stream to its reader, who has %s to take some of it: %w", s.opts.StreamTimeout, err)
	}
	if err := form.end(out, end); err != nil {
		return err
	}
	return out.flush()
}

// finding is a search for events that goes on beside the writing of them, so that
// the search is held up by the reader, and a silent search keeps nothing from the reader.
type finding struct {
	events chan Event
	done   chan struct{}
	err    error // when done is closed
}

func (f *finding) wait() { <-f.done }

func (s *Server) find(ctx context.Context, q eventQuery) *finding {
	f := &finding{events: make(chan Event, 64), done: make(chan struct{})}
	go func() {
		defer close(f.done)
		defer close(f.events)
		f.err = s.control.Events(ctx, q.after, q.follow, func(seq uint64, e store.Event) error {
			if q.cluster != "" && e.Cluster != q.cluster || q.run != "" && e.Run != q.run {
				return ctx.Err()
			}
			select {
			case f.events <- Event{Seq: seq, Event: e}:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return f
}

// copyEvents writes events as they are found, and sends them when there are no
// more for the moment. Its error is the reader's, the end is everything else's.
func (s *Server) copyEvents(ctx context.Context, out *pacedWriter, form streamForm, found *finding) (streamEnd, error) {
	heartbeat := time.NewTicker(s.opts.Heartbeat)
	defer heartbeat.Stop()
	if err := out.flush(); err != nil { // the reader sees that it was let in
		return streamEnd{}, err
	}
	for {
		select {
		case e, more := <-found.events:
			if !more {
				return found.end(), nil
			}
			if err := form.event(out, e); err != nil {
				return streamEnd{}, err
			}
			if len(found.events) > 0 {
				continue
			}
		case <-heartbeat.C:
			if err := form.heartbeat(out); err != nil {
				return streamEnd{}, err
			}
		case <-s.running.ctx.Done():
			return streamEnd{End: endStopping}, nil
		case <-ctx.Done():
			return streamEnd{}, ctx.Err()
		}
		if err := out.flush(); err != nil {
			return streamEnd{}, err
		}
	}
}

// end says how the search ended.
func (f *finding) end() streamEnd {
	f.wait()
	if f.err != nil {
		return streamEnd{End: endFailed, Error: asError(f.err)}
	}
	return streamEnd{End: endComplete}
}

// streamForm is how a stream is written.
type streamForm interface {
	event(w io.Writer, e Event) error
	heartbeat(w io.Writer) error
	end(w io.Writer, e streamEnd) error
}

// lines is one JSON document a line; an empty line is the heartbeat.
type lines struct{}

func (lines) event(w io.Writer, e Event) error { return writeLine(w, "", e) }

func (lines) heartbeat(w io.Writer) error { return writeAll(w, "\n") }

func (lines) end(w io.Writer, e streamEnd) error { return writeLine(w, "", e) }

// sse is server-sent events, with ids to resume from.
type sse struct{}

func (sse) event(w io.Writer, e Event) error {
	return errors.Join(writeLine(w, fmt.Sprintf("id: %d\ndata: ", e.Seq), e), writeAll(w, "\n"))
}

func (sse) heartbeat(w io.Writer) error { return writeAll(w, ": alive\n\n") }

func (sse) end(w io.Writer, e streamEnd) error {
	return errors.Join(writeLine(w, "event: end\ndata: ", e), writeAll(w, "\n"))
}

func writeLine(w io.Writer, prefix string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write an event as JSON: %w", err)
	}
	return writeAll(w, prefix+string(raw)+"\n")
}

func writeAll(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}
