package upgrade

import "github.com/talos-provision/provision/provisioner/talos"

// API is the call by which a node is told to upgrade itself.
type API = talos.UpgradeAPI

// The calls. Lifecycle writes the boot assets and nothing more, the rest is ours;
// with Legacy the node drains itself, installs and reboots.
const (
	Lifecycle = talos.Lifecycle
	Legacy    = talos.Legacy
)

// lastLegacy is the last version without the LifecycleService; talosctl tells by the same.
var lastLegacy = Version{Major: 1, Minor: 13, Pre: "alpha.2"}

// ChooseAPI chooses the way for a node that runs a version of Talos, and says
// why. dropsArgs: the newer one would drop kernel arguments (siderolabs/talos#13967).
func ChooseAPI(running Version, dropsArgs bool) (API, string) {
	switch {
	case running.Compare(lastLegacy) <= 0 || running.Major > 1:
		return Legacy, "Talos " + running.String() + " has no other"
	case dropsArgs:
		return Legacy, "the newer one would drop machine.install.extraKernelArgs (siderolabs/talos#13967)"
	}
	return Lifecycle, "Talos " + running.String() + " has it"
}
