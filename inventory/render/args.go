package render

import (
	"fmt"
	"strings"

	"github.com/talos-provision/provision/inventory"
)

// initramfs is the name of the initramfs inside iPXE. A UEFI kernel is told by
// initrd= which image it is; BIOS ignores that (coreos/bugs#1239).
const initramfs = "initramfs.xz"

// maxLine is what Linux and Talos read of a command line, in bytes.
const maxLine = 4096

// operators end a command in an iPXE script, which has no quoting.
var operators = map[string]bool{"||": true, "&&": true, ";": true}

// kernelArgs is the node's kernel command line as an iPXE script can carry it
// on one line: iPXE ends a command at ||, && and ;, drops what follows a word
// that begins with #, and expands ${…}.
func kernelArgs(n inventory.Node) (string, error) {
	line, err := n.KernelCommandLine()
	if err != nil {
		return "", err
	}
	words := strings.Fields("initrd=" + initramfs + " " + line)
	for i, word := range words {
		word = encodeVariables(word)
		switch {
		case operators[word]:
			return "", fmt.Errorf("the kernel argument %q would end the command in the script: remove it from kernelArgs", word)
		case strings.HasPrefix(word, "#"):
			return "", fmt.Errorf("the kernel argument %q would be a comment in the script: remove it from kernelArgs", word)
		case strings.Contains(word, "${"):
			return "", fmt.Errorf("iPXE would replace ${ in the kernel argument %q: write the value itself into kernelArgs", word)
		case strings.ContainsFunc(word, func(c rune) bool { return c <= ' ' || c > '~' }):
			return "", fmt.Errorf("the kernel argument %q is not printable ASCII: remove it from kernelArgs", word)
		}
		words[i] = word
	}
	line = strings.Join(words, " ")
	if len(line) > maxLine {
		return "", fmt.Errorf("the kernel command line has %d bytes, the kernel reads %d: shorten kernelArgs", len(line), maxLine)
	}
	return line, nil
}

// encodeVariables protects Talos' own ${uuid}, ${serial}, … in the query of
// talos.config=: Talos decodes the query before it looks for them.
func encodeVariables(word string) string {
	path, query, found := strings.Cut(word, "?")
	if !found || !strings.HasPrefix(word, "talos.config=") {
		return word
	}
	return path + "?" + strings.NewReplacer("${", "%24%7B", "}", "%7D").Replace(query)
}
