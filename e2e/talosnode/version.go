package talosnode

import (
	"fmt"
	"strconv"
	"strings"
)

// mode is what the node runs as.
type mode int

const (
	maintenance mode = iota
	configured
)

func (m mode) String() string {
	if m == configured {
		return "configured"
	}
	return "maintenance"
}

// behaviour is how one range of Talos versions differs from the others on port 50000.
type behaviour struct {
	// from is the first minor of 1.x with this behaviour.
	from int
	// apid: the normal API server serves maintenance mode, so that Version works and what a reader
	// may not do is PermissionDenied. Before 1.13 a small server of its own leaves it unimplemented.
	apid bool
	// versionResource: the COSI resource Versions.runtime.talos.dev exists.
	versionResource bool
	// cmdlineResource: the COSI resource KernelCmdlines.runtime.talos.dev exists.
	cmdlineResource bool
	// noRebootMode: a configured node refuses to apply a config with the mode REBOOT.
	noRebootMode bool
}

// behaviours, newest first.
var behaviours = []behaviour{
	{from: 14, apid: true, versionResource: true, cmdlineResource: true, noRebootMode: true},
	{from: 13, apid: true, versionResource: true, cmdlineResource: true},
	{from: 11, versionResource: true, cmdlineResource: true},
	{from: 10, versionResource: true},
	{from: 0},
}

func behaviourOf(version string) (behaviour, error) {
	minor, err := minorOf(version)
	if err != nil {
		return behaviour{}, err
	}
	for _, b := range behaviours {
		if minor >= b.from {
			return b, nil
		}
	}
	return behaviour{}, fmt.Errorf("version %q: no behaviour is known for it", version)
}

// minorOf reads the 13 of "v1.13.9".
func minorOf(version string) (int, error) {
	rest, ok := strings.CutPrefix(version, "v1.")
	minor, _, dotted := strings.Cut(rest, ".")
	n, err := strconv.ParseUint(minor, 10, 16)
	if !ok || !dotted || err != nil {
		return 0, fmt.Errorf("version %q is not a Talos version, want the form v1.13.9", version)
	}
	return int(n), nil
}
