package talos

import "strings"

const (
	// keptLines is how many of an installer's last lines are kept.
	keptLines = 100
	// longestLine bounds a line that does not end, in bytes; what follows it is dropped.
	longestLine = 64 << 10
)

// installerLines makes lines of what an installer says. It comes in pieces of 512
// bytes that begin and end anywhere. The installer reads the machine config, and
// its errors may quote it: each line is cleaned before it is handed on (I9).
type installerLines struct {
	redact *redactor
	// emit may be nil.
	emit func(string)
	// kept are the last lines.
	kept []string

	partial strings.Builder
	// dump: lines of a config follow, and what of it is secret is not known.
	dump bool
}

// write takes the next piece.
func (l *installerLines) write(piece string) {
	for {
		end := strings.IndexAny(piece, "\r\n") // a progress line ends in a carriage return
		if end < 0 {
			l.add(piece)
			return
		}
		l.add(piece[:end])
		l.flush()
		piece = piece[end+1:]
	}
}

func (l *installerLines) add(piece string) {
	l.partial.WriteString(piece[:min(len(piece), longestLine-l.partial.Len())])
}

// flush ends the line.
func (l *installerLines) flush() {
	line := l.partial.String()
	l.partial.Reset()
	header := strings.Contains(line, decoding)
	if l.dump && !header {
		// Without the config, only the keys of what the decoder prints are known to be harmless.
		line = keysOnly(decoding + "\n" + line)
		line = strings.TrimPrefix(line, decoding)
	}
	l.dump = l.dump || header && l.redact.strict
	line = l.redact.clean(line)
	if line == "" {
		return
	}
	if l.kept = append(l.kept, line); len(l.kept) > keptLines {
		l.kept = l.kept[1:]
	}
	if l.emit != nil {
		l.emit(line)
	}
}

// last are the newest lines, for an error: often only they tell what is wrong
// (home-operations/tuppr#460).
func (l *installerLines) last() string {
	const few = 3
	return strings.Join(l.kept[max(0, len(l.kept)-few):], " | ")
}
