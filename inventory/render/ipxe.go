package render

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/talos-provision/provision/inventory"
)

// Script says what an iPXE script is made of.
type Script struct {
	// Nodes are those of the whole inventory: a serial that two of them share
	// identifies neither, also when only one is selected.
	Nodes []inventory.Node
	// Selected tells which of them the script may boot; nil means all.
	Selected func(inventory.Node) bool
	// AssetsURL is the Image Factory, or a mirror of it, that machines fetch
	// from: http://host[:port][/path]. Below it lies image/SCHEMATIC/VERSION/FILE.
	AssetsURL string
	// Source is named in the first comment, such as the inventory's folder.
	Source string
}

// IPXE writes the boot script of the selected nodes. A node that is not marked
// install: true, a machine that is unknown, and one that two nodes claim boot
// their own disk. Nodes marked install: true that the script cannot boot are
// the problems; they boot their own disk, too. The error is about AssetsURL.
func IPXE(s Script) (string, []Problem, error) {
	base, err := assetsBase(s.AssetsURL)
	if err != nil {
		return "", nil, err
	}
	w := &scriptWriter{base: base, labels: map[string]bool{}}
	recognise := newRecogniser(s.Nodes)
	var entries []entry
	for _, n := range s.Nodes {
		if s.Selected != nil && !s.Selected(n) {
			continue
		}
		e := entry{node: n, label: w.label(n), recognition: recognise.recognise(n)}
		if n.Install && !e.known() {
			w.problem(n, unknowable(n))
		}
		if e.known() {
			entries = append(entries, e)
		}
	}
	w.head(s.Source, entries)
	w.tables(entries)
	for _, e := range entries {
		w.section(e)
	}
	w.text.WriteString(tail)
	return w.text.String(), w.problems, nil
}

// assetsBase checks the URL that file names are appended to.
func assetsBase(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return "", fmt.Errorf("assets URL %q is not http://HOST or https://HOST: give the Image Factory or a mirror of it", text)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || !plain.MatchString(strings.ReplaceAll(strings.ReplaceAll(text, "[", ""), "]", "")):
		return "", fmt.Errorf("assets URL %q has characters that an iPXE script cannot carry: give scheme, host, port and a plain path", u.Redacted())
	}
	return strings.TrimRight(text, "/"), nil
}

func unknowable(n inventory.Node) string {
	const ask = "`provision inventory discover` reads them from its BMC"
	switch {
	case n.BoardSerial != "":
		return fmt.Sprintf("another node has its boardSerial %s: correct one of them", n.BoardSerial)
	case n.Serial != "":
		return fmt.Sprintf("other nodes share its serial %s and it has no boardSerial, uuid or mac of its own; %s", n.Serial, ask)
	}
	return "it has no serial, boardSerial, uuid or mac to be recognised by; " + ask
}

// entry is a node that the script recognises.
type entry struct {
	node  inventory.Node
	label string
	recognition
}

// scriptWriter collects the script and what is wrong with it.
type scriptWriter struct {
	text     strings.Builder
	base     string
	labels   map[string]bool
	problems []Problem
}

func (w *scriptWriter) line(format string, args ...any) {
	fmt.Fprintf(&w.text, format+"\n", args...)
}

func (w *scriptWriter) problem(n inventory.Node, message string) {
	w.problems = append(w.problems, Problem{Node: n.ID(), File: n.File, Message: message})
}

// label names the node's place in the script by cluster and name, never by a
// serial: a label ends at the first space, and a serial may contain anything.
func (w *scriptWriter) label(n inventory.Node) string {
	safe := strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '-' || c == '.' {
			return c
		}
		return '_'
	}, n.ID())
	label := "node_" + safe
	for i := 2; w.labels[label]; i++ {
		label = fmt.Sprintf("node_%s_%d", safe, i)
	}
	w.labels[label] = true
	return label
}

// head clears what an earlier script may have set: settings outlive a script.
func (w *scriptWriter) head(source string, entries []entry) {
	install := 0
	for _, e := range entries {
		if e.node.Install {
			install++
		}
	}
	w.line("#!ipxe")
	w.line("# Written by `provision inventory render --format ipxe` from %s: do not edit.", comment(source))
	w.line("# Nodes: %d, of which %d are marked install: true. Every other machine boots its own disk.", len(entries), install)
	w.line("set by-board none")
	w.line("set by-serial none")
	w.line("set by-other none")
	w.line("set attempt:int32 0")
	w.line("")
}

// tables find the node by what the machine shows. A machine that is one node by
// its board and another by something else is neither (I1).
func (w *scriptWriter) tables(entries []entry) {
	w.line("# Board serials")
	for _, e := range entries {
		for _, t := range e.byBoard {
			w.line("%s && set by-board %s ||", t, e.label)
		}
	}
	w.line("# Serials of nodes whose board serial is not known, if no other node shares them")
	for _, e := range entries {
		for _, t := range e.bySerial {
			w.line("%s && set by-serial %s ||", t, e.label)
		}
	}
	w.line("# UUIDs or MACs of nodes that no serial identifies")
	for _, e := range entries {
		for _, row := range e.byOther {
			w.line("%s && set by-other %s ||", joined(row, " && "), e.label)
		}
	}
	w.text.WriteString(decision)
}

// decision goes to the one node that all tables agree on.
const decision = `
iseq ${by-board} none && set by-board ${by-serial} ||
iseq ${by-board} none && set by-board ${by-other} ||
iseq ${by-serial} none && set by-serial ${by-board} ||
iseq ${by-other} none && set by-other ${by-board} ||
iseq ${by-board} none && goto unknown ||
iseq ${by-board} ${by-serial} || goto conflict
iseq ${by-board} ${by-other} || goto conflict
goto ${by-board}

`

func joined(row []test, separator string) string {
	texts := make([]string, len(row))
	for i, t := range row {
		texts[i] = t.String()
	}
	return strings.Join(texts, separator)
}

// section is what one node does.
func (w *scriptWriter) section(e entry) {
	n := e.node
	w.line("# %s, %s", comment(n.ID()), comment(n.File))
	w.line(":%s", e.label)
	if !n.Install {
		w.line("echo provision: %s is not marked install: true", e.label)
		w.line("goto local")
		w.line("")
		return
	}
	args, err := kernelArgs(n)
	if err == nil {
		err = bootable(n)
	}
	if err != nil {
		w.problem(n, err.Error())
		w.line("echo provision: %s cannot be booted from the network", e.label)
		w.line("goto local")
		w.line("")
		return
	}
	if len(e.uuids) > 0 {
		w.line("%s || goto conflict", joined(e.uuids, " || "))
	}
	folder := fmt.Sprintf("%s/image/%s/%s", w.base, n.SchematicID, n.TalosVersion)
	w.line("echo provision: %s boots Talos %s", e.label, n.TalosVersion)
	w.line("imgfree")
	w.line("kernel %s/kernel-%s %s || goto failed", folder, n.Arch, args)
	w.line("initrd --name %s %s/initramfs-%s.xz || goto failed", initramfs, folder, n.Arch)
	w.line("boot || goto failed")
	w.line("goto failed")
	w.line("")
}

// bootable checks what becomes part of a URL.
func bootable(n inventory.Node) error {
	if n.SecureBoot {
		return errors.New("secureBoot needs the signed image by UEFI HTTP boot, and this script boots what is not signed: install it by `provision`")
	}
	for _, part := range []struct{ name, value string }{
		{"schematicID", n.SchematicID}, {"talosVersion", n.TalosVersion}, {"arch", n.Arch},
	} {
		switch {
		case part.value == "":
			return fmt.Errorf("%s is not set: set it", part.name)
		case !plain.MatchString(part.value) || strings.Contains(part.value, "/"):
			return fmt.Errorf("%s %q cannot be part of a URL: correct it", part.name, part.value)
		}
	}
	return nil
}

// tail is the end of every script. On UEFI only a failing exit makes the
// firmware try the next boot entry (netboot.xyz#1276); some BIOSes hang on exit,
// so iPXE boots the first disk itself there (sidero#1205).
const tail = `# Downloads start over: iPXE does not resume them.
:failed
iseq ${attempt} 10 && goto local ||
inc attempt
echo provision: failed, retry ${attempt} of 10
sleep 5
goto ${by-board}

:conflict
echo provision: this machine is claimed by two nodes, or its UUID is not the node's: correct the inventory
goto local

:unknown
echo provision: no node has this machine's serial or board serial

:local
iseq ${platform} pcbios && sanboot --no-describe --drive 0x80 ||
exit 1
`
