package talosnode

import (
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/constants"
)

// args is a kernel command line.
type args []string

func argsOf(cmdline string) args { return strings.Fields(cmdline) }

func (a args) String() string { return strings.Join(a, " ") }

// first is the value of the first argument with this name.
func (a args) first(name string) (value string, found bool) {
	for _, arg := range a {
		key, value, _ := strings.Cut(arg, "=")
		if key == name {
			return value, true
		}
	}
	return "", false
}

// halts tells whether the node must not run if Talos is on its disk already.
func (a args) halts() bool {
	value, _ := a.first(constants.KernelParamHaltIfInstalled)
	return value == "1"
}

// wipes tells what of the disk the node empties before it boots: all of it, or
// only what the listed partitions hold.
func (a args) wipes() (all bool, partitions []string) {
	value, found := a.first(constants.KernelParamWipe)
	what, labels, partial := strings.Cut(value, ":")
	switch {
	case !found || what != "system":
		return false, nil
	case !partial:
		return true, nil
	default:
		return false, strings.Split(labels, ",")
	}
}

// hostname is the fifth field of the first ip= argument that has one
// (ip=client:server:gateway:netmask:hostname:device:…).
func (a args) hostname() string {
	for _, arg := range a {
		value, found := strings.CutPrefix(arg, "ip=")
		if !found || strings.Contains(value, "[") {
			continue
		}
		if fields := strings.Split(value, ":"); len(fields) > 4 {
			return fields[4]
		}
	}
	return ""
}
