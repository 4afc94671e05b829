package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// escapes are the terminal control sequences that firmware prints.
var escapes = regexp.MustCompile("\x1b(\\[[0-9;?=]*[A-Za-z]|[()][A-Z0-9]|[=>78c])")

// logPoll is how often a waiting test looks at the serial log.
const logPoll = 50 * time.Millisecond

// readSerial returns what a machine printed, as plain text.
func readSerial(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	text := escapes.ReplaceAllString(string(data), "")
	return strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "").Replace(text)
}

// SerialLog is what the machine has printed to its first serial port since the
// last power-on, without terminal escapes.
func (m *Machine) SerialLog() string { return readSerial(m.SerialPath()) }

// SerialHistory is the output of all power-ons so far, with a heading for each.
func (m *Machine) SerialHistory() string {
	var all strings.Builder
	for i, boot := range m.Boots() {
		fmt.Fprintf(&all, "===== %s: power-on %d, target %q\n", m.config.Name, i+1, boot.Target)
		all.WriteString(readSerial(m.serialPath(i + 1)))
		all.WriteString("\n")
	}
	return all.String()
}

// LogContains reports whether the text was printed since the last power-on.
func (m *Machine) LogContains(text string) bool { return strings.Contains(m.SerialLog(), text) }

// WaitForLog waits until the machine has printed the text since its last
// power-on (a later power-on starts anew). When ctx ends first, the error
// carries the last lines of the log.
func (m *Machine) WaitForLog(ctx context.Context, text string) error {
	ticker := time.NewTicker(logPoll)
	defer ticker.Stop()
	for !m.LogContains(text) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %q on the serial port of %s: %w; the last lines there:\n%s",
				text, m.config.Name, context.Cause(ctx), tail(m.SerialLog(), 25))
		case <-ticker.C:
		}
	}
	return nil
}

// WaitPowered waits until the machine is on (or off, when on is false).
func (m *Machine) WaitPowered(ctx context.Context, on bool) error {
	ticker := time.NewTicker(logPoll)
	defer ticker.Stop()
	for m.Powered() != on {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the power of %s: %w; the last lines on its serial port:\n%s",
				m.config.Name, errors.Join(ctx.Err(), context.Cause(ctx)), tail(m.SerialLog(), 25))
		case <-ticker.C:
		}
	}
	return nil
}

// tail is the last n lines that are not blank.
func tail(text string, n int) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
