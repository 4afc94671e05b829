package discovery

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

var (
	board   = Field{"boardSerial", []string{"ZM1"}}
	serial  = Field{"serial", []string{"0123 é:#"}}
	macs    = Field{"macs", []string{"0c:c4:7a:00:00:01", "11:22:33:44:55:06"}}
	address = Field{"bmc.address", []string{"10.0.0.1"}}
	trusted = Field{"bmc.insecure", []string{"true"}}
)

func TestFieldsAreAddedAndNothingElseIsTouched(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, before string
		fields       []Field
		want         string
	}{
		{"behind the serial, comments and alignment kept", `# Rack 4, unit 12
serial:   S1      # chassis, shared by four
ip:       10.0.0.1

# ask Jo before you change this
install:  true
bmc: {address: 10.9.0.1,   username: x}   # shelf 2
`, []Field{board, macs}, `# Rack 4, unit 12
serial:   S1      # chassis, shared by four
boardSerial: ZM1
macs:
- 0c:c4:7a:00:00:01
- "11:22:33:44:55:06"
ip:       10.0.0.1

# ask Jo before you change this
install:  true
bmc: {address: 10.9.0.1,   username: x}   # shelf 2
`},
		{"at the end without a key of identity", "ip: 1.2.3.4\nbmc:\n  address: x\n# end\n\n\n", []Field{board}, "ip: 1.2.3.4\nbmc:\n  address: x\n# end\nboardSerial: ZM1\n\n\n"},
		{"no line break at the end", "ip: 1.2.3.4", []Field{serial}, "ip: 1.2.3.4\nserial: \"0123 é:#\"\n"},
		{"line breaks of Windows", "ip: 1.2.3.4\r\nserial: S1\r\nx: y\r\n", []Field{board, macs}, "ip: 1.2.3.4\r\nserial: S1\r\nboardSerial: ZM1\r\nmacs:\r\n- 0c:c4:7a:00:00:01\r\n- \"11:22:33:44:55:06\"\r\nx: y\r\n"},
		{"an empty file", "", []Field{board}, "boardSerial: ZM1\n"},
		{"comments alone", "# todo\n", []Field{board}, "# todo\nboardSerial: ZM1\n"},
		{"a document's start", "---\nserial: S1\n", []Field{board}, "---\nserial: S1\nboardSerial: ZM1\n"},
		{"an indented file", "  serial: S1\n  ip: 1.2.3.4\n", []Field{board, address}, "  serial: S1\n  boardSerial: ZM1\n  ip: 1.2.3.4\n  bmc:\n    address: 10.0.0.1\n"},
		{"a key that waits for its value", "serial:   # fill me in\nip: 1.2.3.4\n", []Field{serial}, "serial: \"0123 é:#\"   # fill me in\nip: 1.2.3.4\n"},
		{"flow style", "{serial: S1, ip: 1.2.3.4} # one line\n", []Field{board, macs}, "{boardSerial: ZM1, macs: [0c:c4:7a:00:00:01, \"11:22:33:44:55:06\"], serial: S1, ip: 1.2.3.4} # one line\n"},
		{"a list over several lines", "macs: [a1,\n  b2]\nip: 1.2.3.4\n", []Field{board}, "macs: [a1,\n  b2]\nboardSerial: ZM1\nip: 1.2.3.4\n"},
		{"a text over several lines", "serial: S1\n  more\nip: 1.2.3.4\n", []Field{board}, "serial: S1\n  more\nip: 1.2.3.4\nboardSerial: ZM1\n"},
		{"a block text at the end", "ip: 1.2.3.4\nkernelArgs: |\n  a=1\n  b=2\n", []Field{board}, "ip: 1.2.3.4\nkernelArgs: |\n  a=1\n  b=2\nboardSerial: ZM1\n"},
		{"into the section bmc", "bmc:\n    # the account\n    username: x\nip: 1.2.3.4\n", []Field{address, trusted}, "bmc:\n    # the account\n    address: 10.0.0.1\n    insecure: true\n    username: x\nip: 1.2.3.4\n"},
		{"into a section on one line", "bmc: {username: x}\n", []Field{address}, "bmc: {address: 10.0.0.1, username: x}\n"},
		{"a section without keys", "bmc:\nip: 1.2.3.4\n", []Field{address, trusted}, "bmc: {address: 10.0.0.1, insecure: true}\nip: 1.2.3.4\n"},
		{"a new section", "ip: 1.2.3.4\n", []Field{address, trusted}, "ip: 1.2.3.4\nbmc:\n  address: 10.0.0.1\n  insecure: true\n"},
	} {
		got, err := addFields([]byte(tc.before), tc.fields)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if diff := cmp.Diff(tc.want, string(got)); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

func TestFilesThatCannotBeAddedToAreLeftAlone(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{
		"not YAML":                 "a: [",
		"a list":                   "- a\n",
		"a word":                   "hello\n",
		"several documents":        "a: 1\n---\nb: 2\n",
		"ended":                    "a: 1\n...\n",
		"unset on purpose":         "boardSerial: null\n",
		"a value already":          "boardSerial: OTHER\n",
		"a quoted key without one": "\"boardSerial\":\n",
	} {
		if got, err := addFields([]byte(before), []Field{board}); err == nil {
			t.Errorf("%s: became %q", name, got)
		}
	}
	if got, err := addFields([]byte("bmc: word\n"), []Field{address}); err == nil {
		t.Errorf("a section that is a word became %q", got)
	}
	if got, err := addFields([]byte("bmc: {address: 1.2.3.4}\n"), []Field{address}); err == nil {
		t.Errorf("a second address: %q", got)
	}
}

// FuzzAddFields: what was there stays, byte for byte, and the file then says
// what it said with the fields added; or the file is not written.
func FuzzAddFields(f *testing.F) {
	f.Add("serial: S1 # c\nip: 1.2.3.4\n", "ZM1")
	f.Add("{a: b}\n", "x: [y]")
	f.Add("a: |\n  x\n\n", "0123")
	f.Add("? a\n: b\n", "yes")
	f.Add("bmc:\n  # c\n  username: x", "\n")
	f.Fuzz(func(t *testing.T, before, value string) {
		after, err := addFields([]byte(before), []Field{{"boardSerial", []string{value}}, {"macs", []string{value, "b"}}, {"bmc.address", []string{value}}})
		if err != nil {
			return
		}
		rest := string(after)
		for _, c := range []byte(before) { // every byte is still there, in order
			i := strings.IndexByte(rest, c)
			if i < 0 {
				t.Fatalf("%q became %q", before, after)
			}
			rest = rest[i+1:]
		}
		var got map[string]any
		if err := yaml.Unmarshal(after, &got); err != nil || got["boardSerial"] != value {
			t.Fatalf("%q became %q: %v, %v", before, after, got, err)
		}
	})
}

func TestDiff(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, before, after, want string }{
		{"new", "", "a\nb\n", "--- /dev/null\n+++ f\n@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"in the middle", "1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\n4\nx\n5\n6\n7\n8\n", "--- f\n+++ f\n@@ -2,6 +2,7 @@\n 2\n 3\n 4\n+x\n 5\n 6\n 7\n"},
		{"no line break", "a", "a\nb\n", "--- f\n+++ f\n@@ -1,1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n"},
		{"two far apart", "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "x\n1\n2\n3\n4\n5\n6\n7\n8\n9\ny\n", "--- f\n+++ f\n@@ -1,3 +1,4 @@\n+x\n 1\n 2\n 3\n@@ -7,3 +8,4 @@\n 7\n 8\n 9\n+y\n"},
		{"two near", "1\n2\n3\n", "x\n1\n2\n3\ny\n", "--- f\n+++ f\n@@ -1,3 +1,5 @@\n+x\n 1\n 2\n 3\n+y\n"},
	} {
		if diff := cmp.Diff(tc.want, Diff("f", []byte(tc.before), []byte(tc.after))); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}
