package upgrade

import (
	"fmt"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/compatibility"
)

// support is what a minor version of Talos takes: the versions of Talos that its
// installer replaces, and those of Kubernetes that it runs.
type support struct {
	// oldestHost is the first version that may be upgraded, belowHost the first that may not be downgraded.
	oldestHost, belowHost              Version
	oldestKubernetes, newestKubernetes int // of 1.x, both included
}

// supported holds what machinery's own tables do not have yet, by minor version of Talos 1.
var supported = map[int]support{
	14: {
		oldestHost: Version{Major: 1, Minor: 12}, belowHost: Version{Major: 1, Minor: 16},
		oldestKubernetes: 32, newestKubernetes: 37,
	},
}

// core is a version without its pre-release: the tables compare no more.
func core(v Version) Version { return Version{Major: v.Major, Minor: v.Minor, Patch: v.Patch} }

// Replaces says whether the installer of target replaces host: the same check
// that the installer itself makes on the node.
func Replaces(target, host Version) error {
	if row, own := supported[target.Minor]; own && target.Major == 1 {
		switch {
		case core(host).Compare(row.oldestHost) < 0:
			return fmt.Errorf("host version %s is too old to upgrade to Talos %s", host, target)
		case core(host).Compare(row.belowHost) >= 0:
			return fmt.Errorf("host version %s is too new to downgrade to Talos %s", host, target)
		}
		return nil
	}
	t, err := talosVersion(target)
	if err != nil {
		return err
	}
	h, err := talosVersion(host)
	if err != nil {
		return err
	}
	return t.UpgradeableFrom(h)
}

// RunsKubernetes says whether a version of Talos runs one of Kubernetes, which
// may be written with or without its "v".
func RunsKubernetes(target Version, kubernetes string) error {
	if row, own := supported[target.Minor]; own && target.Major == 1 {
		k, err := ParseVersion(kubernetes)
		if err != nil {
			return fmt.Errorf("%q is no version of Kubernetes; write it like v1.36.3", kubernetes)
		}
		if k.Major != 1 || k.Minor < row.oldestKubernetes || k.Minor > row.newestKubernetes {
			return fmt.Errorf("version of Kubernetes %s does not run on Talos %s, which takes 1.%d to 1.%d", k, target, row.oldestKubernetes, row.newestKubernetes)
		}
		return nil
	}
	t, err := talosVersion(target)
	if err != nil {
		return err
	}
	k, err := compatibility.ParseKubernetesVersion(kubernetes)
	if err != nil {
		return fmt.Errorf("%q is no version of Kubernetes; write it like v1.36.3: %w", kubernetes, err)
	}
	return k.SupportedWith(t)
}

func talosVersion(v Version) (*compatibility.TalosVersion, error) {
	parsed, err := compatibility.ParseTalosVersion(&machine.VersionInfo{Tag: v.String()})
	if err != nil {
		return nil, fmt.Errorf("%q is no version of Talos; write it like v1.13.9: %w", v, err)
	}
	return parsed, nil
}
