package httpboot

import (
	"fmt"
	"strings"
)

// initrdArg tells a UEFI kernel which of iPXE's images is its initramfs; without
// it Linux panics for want of a root (coreos/bugs#1239, typhoon#613). BIOS
// ignores it, so it is always there.
const initrdArg = "initrd=" + initrdName

// initrdName is the name that the initramfs gets inside iPXE.
const initrdName = "initramfs.xz"

// maxArgs bounds the kernel command line: Linux and Talos stop at 4096 bytes.
const maxArgs = 4096 - len(initrdArg) - len(" ") - 1

// operators are the words that end a command in an iPXE script. iPXE has no
// quoting, so an argument that is one of them cannot be passed.
var operators = map[string]bool{"||": true, "&&": true, ";": true}

// CheckArgs says why a kernel command line cannot be written into an iPXE
// script, where it stands on one line with commands after it. iPXE splits that
// line at white space, ends a command at ||, && and ;, drops what follows a word
// beginning with #, and expands ${…}, all without a way to quote (ipxe
// src/core/exec.c). The one use of ${…} that survives is Talos's own, in the
// query of talos.config=<url>: there it is sent percent-encoded.
func CheckArgs(args string) error {
	_, err := kernelArgs(args)
	return err
}

// kernelArgs is the command line as the script carries it: one space between
// words, as iPXE would join them anyway.
func kernelArgs(args string) (string, error) {
	for _, c := range []byte(args) {
		if c != ' ' && c != '\t' && (c < '!' || c > '~') {
			return "", fmt.Errorf("kernel arguments contain the byte %#02x; only printable ASCII on one line reaches the kernel", c)
		}
	}
	words := strings.Fields(args)
	for i, word := range words {
		word = encodeVariables(word)
		switch {
		case operators[word]:
			return "", fmt.Errorf("kernel argument %q would end the command in the boot script; remove it from kernelArgs", word)
		case strings.HasPrefix(word, "#"):
			return "", fmt.Errorf("kernel argument %q would be a comment in the boot script; remove it from kernelArgs", word)
		case strings.Contains(word, "${"):
			return "", fmt.Errorf("kernel argument %q contains ${, which the boot loader would replace; write the value itself into kernelArgs", word)
		}
		words[i] = word
	}
	line := strings.Join(words, " ")
	if len(line) > maxArgs {
		return "", fmt.Errorf("kernel arguments are %d bytes long, the kernel reads %d; shorten kernelArgs", len(line), maxArgs)
	}
	return line, nil
}

// encodeVariables protects Talos's ${uuid}, ${serial}, ${mac}, … in the query of
// talos.config=. Talos decodes the query before it looks for them, so the
// encoded form means the same to it and nothing to iPXE.
func encodeVariables(word string) string {
	if !strings.HasPrefix(word, "talos.config=") {
		return word
	}
	path, query, ok := strings.Cut(word, "?")
	if !ok {
		return word
	}
	return path + "?" + strings.NewReplacer("${", "%24%7B", "}", "%7D").Replace(query)
}

// screenText makes text safe for an echo command: printable ASCII without the
// characters that mean something to iPXE, at most 160 bytes.
func screenText(s string) string {
	const most = 160
	clean := strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' || strings.ContainsRune(`$#;|&\{}`, c) {
			return ' '
		}
		return c
	}, s)
	clean = strings.Join(strings.Fields(clean), " ")
	return clean[:min(len(clean), most)]
}
