package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// StreamOptions say which events to stream.
type StreamOptions struct {
	// After is the number of the last event that is not wanted any more; 0 begins with the oldest.
	After uint64
	// Follow goes on with new events until the context ends.
	Follow bool
	// Cluster and Run leave out the events of others.
	Cluster, Run string
}

// StreamEvents visits events in order, each once. Without Follow it returns at
// the end of what is written. A connection that breaks, also through a restart of
// the daemon, is made again from the last event that was visited, for as long as
// ctx allows; a first one that cannot be made is ErrUnreachable at once. An error
// of visit ends it and is returned.
func (c *Client) StreamEvents(ctx context.Context, o StreamOptions, visit func(Event) error) error {
	s := &stream{client: c, options: o, last: o.After, visit: visit}
	retry := c.pace.begin()
	for {
		before := s.last
		complete, err := s.once(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case complete && !o.Follow:
			return nil
		case s.visitFailed:
			return err
		case err != nil && (!s.connected || !retryable(err)):
			return err
		}
		if s.last > before {
			retry = c.pace.begin()
		}
		if err := retry.wait(ctx); err != nil {
			return err
		}
	}
}

// stream is one StreamEvents over all its connections.
type stream struct {
	client      *Client
	options     StreamOptions
	last        uint64 // the event that was visited last
	connected   bool   // at least once
	visit       func(Event) error
	visitFailed bool
}

// maxLine bounds one event.
const maxLine = 1 << 20

// once reads one connection to its end. complete says that there is no more.
func (s *stream) once(ctx context.Context) (complete bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	query := url.Values{"after": {strconv.FormatUint(s.last, 10)}, "follow": {strconv.FormatBool(s.options.Follow)}}
	if s.options.Cluster != "" {
		query.Set("cluster", s.options.Cluster)
	}
	if s.options.Run != "" {
		query.Set("run", s.options.Run)
	}
	// A daemon that takes the connection and says nothing is as good as gone.
	watch := newWatchdog(s.client.pace.silence, cancel)
	defer watch.stop()
	response, err := s.client.send(ctx, http.MethodGet, Prefix+"/events?"+query.Encode(), nil, linesType)
	if err != nil {
		return false, watch.explain(err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := s.client.refusal(response); err != nil {
		return false, err
	}
	if kind := response.Header.Get("Content-Type"); kind != linesType {
		return false, unreadable(fmt.Errorf("%q is no stream of events", kind))
	}
	s.connected = true
	scanner := bufio.NewScanner(&watched{r: response.Body, watchdog: watch})
	scanner.Buffer(make([]byte, 0, 4096), maxLine)
	scanner.Split(wholeLine)
	for scanner.Scan() {
		if len(scanner.Bytes()) == 0 {
			continue // a heartbeat
		}
		if complete, err := s.line(scanner.Bytes()); complete || err != nil {
			return complete, err
		}
	}
	if errors.Is(scanner.Err(), bufio.ErrTooLong) {
		return false, unreadable(scanner.Err())
	}
	return false, watch.explain(s.client.unreachable(ctx, errors.Join(errors.New("the stream was cut off"), scanner.Err())))
}

// wholeLine splits at line breaks and drops what a cut left of a line.
func wholeLine(data []byte, _ bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	return 0, nil, nil
}

// line takes one line: an event, or the end of the stream.
func (s *stream) line(raw []byte) (complete bool, err error) {
	var end struct {
		End string `json:"end"`
	}
	if err := json.Unmarshal(raw, &end); err != nil {
		return false, unreadable(err)
	}
	if end.End != "" {
		return ended(raw)
	}
	var e Event
	if err := json.Unmarshal(raw, &e); err != nil {
		return false, unreadable(err)
	}
	if e.Seq <= s.last {
		return false, nil
	}
	if err := s.visit(e); err != nil {
		s.visitFailed = true
		return false, err
	}
	s.last = e.Seq
	return false, nil
}

// ended says what the last line of a stream says.
func ended(raw []byte) (complete bool, err error) {
	var end streamEnd
	if err := json.Unmarshal(raw, &end); err != nil {
		return false, unreadable(err)
	}
	switch {
	case end.End == endComplete:
		return true, nil
	case end.Error != nil:
		return false, end.Error
	}
	return false, Unavailable(errors.New("the daemon ended the stream: "+end.End), "ask again when it is up")
}

func unreadable(err error) error {
	return &Error{Code: CodeInternal, Message: fmt.Sprintf("the stream of events cannot be read: %v", err), Hint: "client and daemon may be of different versions, or it is no `provision serve`", cause: err}
}
