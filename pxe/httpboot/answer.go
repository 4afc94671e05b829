package httpboot

import (
	"context"
	"errors"
	"fmt"

	"github.com/talos-provision/provision/pxe/assets"
)

// Kind is what a machine is told to do.
type Kind int

// The kinds. The zero value is the one that can do no harm.
const (
	// LocalBoot sends the machine to its own disk.
	LocalBoot Kind = iota
	// Install starts Talos from the network.
	Install
	// Wait makes the machine ask again in a few seconds.
	Wait
)

// String is the kind in lower-case words.
func (k Kind) String() string {
	switch k {
	case LocalBoot:
		return "local boot"
	case Install:
		return "install"
	case Wait:
		return "wait"
	default:
		return fmt.Sprintf("kind %d", int(k))
	}
}

// Answer is what a Director decides for one machine.
type Answer struct {
	Kind Kind
	// Node is the inventory's name of the machine, "" when it is nobody's.
	Node string
	// Schematic and Version name the image of an Install.
	Schematic, Version string
	// Args is the kernel command line of an Install, without initrd=. With
	// SecureBoot it is not used: the signed image has its own.
	Args string
	// ConfigToken, when set, has the machine fetch its machine config from
	// ConfigURL: talos.config= is added to Args. A signed UKI takes no arguments.
	ConfigToken string
	// SecureBoot makes an Install the signed UKI in place of kernel and
	// initramfs. It needs UEFI.
	SecureBoot bool
	// LocalBoot is how this machine is sent to its own disk, one of
	// LocalBootMethods; empty means auto. It counts for every answer that ends
	// there, a refused Install too.
	LocalBoot string
	// Reason is a sentence for the log and for the machine's screen.
	Reason string

	// Script is what the machine was sent, without ConfigToken: the Handler sets it for OnScript.
	Script string
}

// Director decides what a machine boots. Its answer to a machine that it does
// not know without ambiguity, or that is not armed, must be LocalBoot (I3).
// Direct is called concurrently and may be called again for the same boot: a
// machine repeats a request whose answer was lost. A Request with Head set only
// asks what the answer would be: it must not count as the machine's request.
type Director interface {
	Direct(ctx context.Context, r Request) Answer
}

// check turns an answer that cannot be carried out into a local boot that says why.
func (a Answer) check(r Request) Answer {
	switch a.Kind {
	case LocalBoot:
		return a
	case Wait:
		if r.Waits >= maxWaits {
			return a.refused(fmt.Errorf("it has waited %d times in a row", r.Waits))
		}
		return a
	case Install:
	default:
		return a.refused(fmt.Errorf("the answer's kind %d is unknown", a.Kind))
	}
	if r.Arch == "" {
		return a.refused(fmt.Errorf("its architecture has no Talos image"))
	}
	if err := assets.Kernel(a.Schematic, a.Version, r.Arch).Validate(); err != nil {
		return a.refused(err)
	}
	if a.SecureBoot {
		if r.Platform == "pcbios" {
			return a.refused(errors.New("the signed image of secureBoot needs UEFI, and the machine booted by BIOS"))
		}
		return a
	}
	if err := CheckArgs(a.args(longestBase)); err != nil {
		return a.refused(err)
	}
	return a
}

// longestBase is as long as the base URL of a server can be, so that a command
// line that is checked with it fits with any.
const longestBase = "http://[0000:0000:0000:0000:0000:0000:0000:0000]:65535"

// args is the kernel command line with the argument that fetches the config.
func (a Answer) args(base string) string {
	if a.ConfigToken == "" {
		return a.Args
	}
	return a.Args + " " + ConfigArg + ConfigURL(base, a.ConfigToken)
}

func (a Answer) refused(err error) Answer {
	return Answer{Kind: LocalBoot, Node: a.Node, LocalBoot: a.LocalBoot, Reason: fmt.Sprintf("%v refused, booting the local disk: %v", a.Kind, err)}
}
