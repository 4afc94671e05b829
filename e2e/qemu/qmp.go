package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// monitor speaks as much of QEMU's machine protocol (QMP) as is needed to see
// why a machine stopped.
type monitor struct {
	lines *bufio.Scanner
}

func newMonitor(channel io.Reader) *monitor {
	return &monitor{lines: bufio.NewScanner(channel)}
}

// message is a line from QEMU: the greeting, an answer or an event.
type message struct {
	Greeting *json.RawMessage `json:"QMP"`
	Return   *json.RawMessage `json:"return"`
	Error    *json.RawMessage `json:"error"`
	Event    string           `json:"event"`
	Data     struct {
		Guest  bool   `json:"guest"`
		Reason string `json:"reason"`
	} `json:"data"`
}

func (q *monitor) next() (message, error) {
	if !q.lines.Scan() {
		if err := q.lines.Err(); err != nil {
			return message{}, err
		}
		return message{}, io.EOF
	}
	var m message
	if err := json.Unmarshal(q.lines.Bytes(), &m); err != nil {
		return message{}, fmt.Errorf("reading a message of QEMU: %w", err)
	}
	return m, nil
}

// greet waits for the greeting and asks for events.
func (q *monitor) greet(ctx context.Context, channel *os.File) error {
	if deadline, ok := ctx.Deadline(); ok {
		if err := channel.SetDeadline(deadline); err != nil {
			return fmt.Errorf("setting the deadline of the control channel: %w", err)
		}
	}
	// The channel stays open for events long after this call.
	defer func() { _ = channel.SetDeadline(time.Time{}) }()
	hello, err := q.next()
	if err != nil {
		return err
	}
	if hello.Greeting == nil {
		return errors.New("the first message of QEMU is no greeting")
	}
	if _, err := io.WriteString(channel, `{"execute":"qmp_capabilities"}`+"\n"); err != nil {
		return fmt.Errorf("answering the greeting of QEMU: %w", err)
	}
	for {
		answer, err := q.next()
		switch {
		case err != nil:
			return err
		case answer.Error != nil:
			return fmt.Errorf("QEMU refused the control channel: %s", *answer.Error)
		case answer.Return != nil:
			return nil
		}
	}
}

// shutdown waits for the machine to stop. Ended channels are reported as io.EOF.
func (q *monitor) shutdown() (reset bool, err error) {
	for {
		m, err := q.next()
		if err != nil {
			return false, err
		}
		if m.Event == "SHUTDOWN" {
			return m.Data.Reason == "guest-reset", nil
		}
	}
}
