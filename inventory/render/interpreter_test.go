package render_test

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// machine is what iPXE's settings show of a machine.
type machine struct{ serial, board, uuid, mac, platform string }

// outcome is what a script made of a machine.
type outcome struct {
	kernel, initrd string // the arguments of the commands; "" when its own disk was booted
	last           string // the last line that was shown
	exit           string // "1", or "disk" for a BIOS machine whose first disk was booted
	failures       int    // attempts that failed
}

// interpreter follows a script as iPXE does (src/core/exec.c): a line is split
// into words first, then settings in the words are expanded, and a command that
// fails ends the script unless ||  follows.
type interpreter struct {
	t        *testing.T
	settings map[string]string
	lines    []string
	next     int
	out      outcome
	done     bool
	fetch    func(attempt int) bool // does the download work?
}

func follow(t *testing.T, script string, m machine, fetch func(int) bool) outcome {
	t.Helper()
	if !strings.HasPrefix(script, "#!ipxe\n") {
		t.Fatalf("no script:\n%s", script)
	}
	v := &interpreter{t: t, lines: strings.Split(script, "\n"), fetch: fetch, settings: map[string]string{
		"serial": m.serial, "board-serial": m.board, "uuid": m.uuid, "mac": m.mac, "platform": m.platform,
	}}
	for steps := 0; !v.done; steps++ {
		if steps > 100000 || v.next >= len(v.lines) {
			t.Fatalf("the script does not end well:\n%s", script)
		}
		v.next++
		v.line(v.lines[v.next-1])
	}
	return v.out
}

func (v *interpreter) line(text string) {
	if text == "" || text[0] == '#' || text[0] == ':' {
		return
	}
	ok, process := true, true
	var command []string
	for _, word := range append(strings.Fields(text), "\n") {
		if word != "||" && word != "&&" && word != "\n" {
			command = append(command, word)
			continue
		}
		if process {
			ok = v.run(command)
			if v.done {
				return
			}
		}
		command, process = nil, (word == "||") != ok
	}
	if !ok {
		v.t.Fatalf("line %q fails and ends the script", text)
	}
}

var expansion = regexp.MustCompile(`\$\{([a-z-]+)(:hex)?\}`)

func (v *interpreter) expand(word string) string {
	return expansion.ReplaceAllStringFunc(word, func(s string) string {
		parts := expansion.FindStringSubmatch(s)
		value := v.settings[parts[1]]
		if parts[2] == "" {
			return value
		}
		var digits []string
		for _, b := range []byte(value) {
			digits = append(digits, hex.EncodeToString([]byte{b}))
		}
		return strings.Join(digits, ":")
	})
}

func (v *interpreter) run(words []string) bool {
	if len(words) == 0 {
		return true
	}
	args := make([]string, len(words))
	for i, w := range words {
		args[i] = v.expand(w)
		if strings.Contains(args[i], "${") {
			v.t.Fatalf("%q leaves a setting unexpanded", words)
		}
	}
	switch command := args[0]; command {
	case "set":
		v.settings[strings.TrimSuffix(args[1], ":int32")] = strings.Join(args[2:], " ")
	case "inc":
		n, _ := strconv.Atoi(v.settings[args[1]])
		v.settings[args[1]] = strconv.Itoa(n + 1)
	case "iseq":
		if len(args) != 3 {
			v.t.Fatalf("iseq with %d arguments: %q", len(args)-1, args[1:])
		}
		return args[1] == args[2]
	case "goto":
		for i, l := range v.lines {
			if l == ":"+args[1] {
				v.next = i + 1
				return true
			}
		}
		v.t.Fatalf("no label %s", args[1])
	case "echo":
		v.out.last = strings.Join(args[1:], " ")
	case "sleep", "imgfree":
	case "kernel":
		if !v.fetch(v.out.failures) {
			v.out.failures++
			return false
		}
		v.out.kernel = strings.Join(args[1:], " ")
	case "initrd":
		v.out.initrd = strings.Join(args[1:], " ")
	case "boot":
		v.done = true
	case "exit":
		v.out.exit, v.done = strings.Join(args[1:], " "), true
	case "sanboot":
		v.out.exit, v.done = "disk", true
	default:
		v.t.Fatalf("command %q is not one that every iPXE has", command)
	}
	return true
}

func always(int) bool { return true }

// node is the label of the node that was booted, "" for none.
func (o outcome) node() string {
	if o.kernel == "" {
		return ""
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(o.last, "provision: "), " boots ")
	return name
}

func (o outcome) String() string { return fmt.Sprintf("%s %q exit %q", o.node(), o.last, o.exit) }
