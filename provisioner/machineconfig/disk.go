package machineconfig

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/api/resource/definitions/block"
	"github.com/siderolabs/talos/pkg/machinery/cel"
	"github.com/siderolabs/talos/pkg/machinery/cel/celenv"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"

	"github.com/talos-provision/provision/provisioner/talos"
)

// ErrInstallDisk says that it is not certain on which disk Talos would be
// installed.
var ErrInstallDisk = errors.New("the install disk is not certain")

// SelectDisk finds the disk that the config installs Talos on among those that
// the node reports. A path or selector that means none of them, or several, is
// refused with the list of disks: Talos takes the first of several, and which
// disk is the first changes between boots. Read-only disks and CD-ROMs never
// match. Errors wrap ErrInstallDisk.
//
// A node on which Talos is installed already keeps it on its disk whatever the
// config says (siderolabs/talos#14228): another disk is refused.
func (c Config) SelectDisk(disks []talos.Disk) (talos.Disk, error) {
	install := c.Install()
	matches, err := install.matcher()
	if err != nil {
		return talos.Disk{}, fmt.Errorf("%w: %w", ErrInstallDisk, err)
	}
	var found []talos.Disk
	for _, d := range disks {
		match, err := matches(d)
		if err != nil {
			return talos.Disk{}, fmt.Errorf("%w: %s cannot be evaluated for %s: %w", ErrInstallDisk, install.says(), d.DevPath, err)
		}
		if match {
			found = append(found, d)
		}
	}
	switch {
	case len(disks) == 0:
		return talos.Disk{}, fmt.Errorf("%w: the node reports no disk at all: look at its disk controller and the drivers in its image", ErrInstallDisk)
	case len(found) == 0:
		return talos.Disk{}, fmt.Errorf("%w: %s means none of the node's disks: correct it; they are\n%s", ErrInstallDisk, install.says(), list(disks, nil))
	case len(found) > 1:
		return talos.Disk{}, fmt.Errorf("%w: %s means %d of the node's disks, and Talos would take any of them: say more, such as serial or wwid; they are (* means that it matches)\n%s",
			ErrInstallDisk, install.says(), len(found), list(disks, found))
	}
	for _, d := range disks {
		if d.System && d.DevPath != found[0].DevPath {
			return talos.Disk{}, fmt.Errorf("%w: %s means %s, but Talos was installed on %s before and would stay there: wipe that disk, or name it in the config; the disks are\n%s",
				ErrInstallDisk, install.says(), found[0].DevPath, d.DevPath, list(disks, found))
		}
	}
	return found[0], nil
}

// says names what was given, as a person wrote it.
func (i Install) says() string {
	switch {
	case i.Match != "":
		return fmt.Sprintf("provisioning.diskSelector.match %q", i.Match)
	case i.selectorNode != nil:
		parts := make([]string, 0, len(i.Selector))
		for _, key := range slices.Sorted(maps.Keys(i.Selector)) {
			parts = append(parts, key+": "+i.Selector[key])
		}
		return "machine.install.diskSelector {" + strings.Join(parts, ", ") + "}"
	}
	return "machine.install.disk " + i.Disk
}

// matcher tells whether a disk is meant.
func (i Install) matcher() (func(talos.Disk) (bool, error), error) {
	switch {
	case i.bothForms:
		return nil, errors.New("the config has machine.install and an UnattendedInstallConfig, which Talos refuses: keep one of them")
	case i.Match != "":
		expression, err := cel.ParseBooleanExpression(i.Match, celenv.DiskLocator())
		if err != nil {
			return nil, fmt.Errorf("%s is not understood: %w", i.says(), withoutPosition(err))
		}
		return evaluate(expression), nil
	case i.selectorNode != nil:
		expression, err := i.selector()
		if err != nil {
			return nil, fmt.Errorf("%s is not understood: %w", i.says(), err)
		}
		return evaluate(expression), nil
	case i.Disk != "":
		return i.isPath, nil
	}
	return nil, errors.New("the config names no disk: set machine.install.disk or diskSelector, or with Talos 1.14 provisioning.diskSelector.match of an UnattendedInstallConfig")
}

// isPath compares device paths. A path of links, as of /dev/disk/by-id, is one of
// the disk's symlinks.
func (i Install) isPath(d talos.Disk) (bool, error) {
	name := path.Clean(i.Disk)
	return !d.ReadOnly && !d.CDROM && (name == d.DevPath || slices.Contains(d.Symlinks, name)), nil
}

// selectorKeys are the keys of a diskSelector. Talos refuses others; here they
// would select more disks than was meant.
var selectorKeys = []string{"size", "model", "serial", "modalias", "uuid", "wwid", "type", "busPath"}

// selector makes the expression that Talos makes of a diskSelector.
func (i Install) selector() (cel.Expression, error) {
	for key := range i.Selector {
		if !slices.Contains(selectorKeys, key) {
			return cel.Expression{}, fmt.Errorf("there is no key %s: there are %s", key, strings.Join(selectorKeys, ", "))
		}
	}
	var selector v1alpha1.InstallDiskSelector
	if err := i.selectorNode.Decode(&selector); err != nil {
		return cel.Expression{}, err
	}
	expression, err := (&v1alpha1.InstallConfig{InstallDiskSelector: &selector}).DiskMatchExpression()
	if err != nil {
		return cel.Expression{}, err
	}
	return *expression, nil
}

// evaluate runs an expression over a disk, as Talos does. What cannot be written
// never matches, whatever the expression says.
func evaluate(expression cel.Expression) func(talos.Disk) (bool, error) {
	return func(d talos.Disk) (bool, error) {
		if d.ReadOnly || d.CDROM {
			return false, nil
		}
		return expression.EvalBool(celenv.DiskLocator(), map[string]any{"disk": specOf(d), "system_disk": d.System})
	}
}

// specOf gives a disk the form that expressions are written for.
func specOf(d talos.Disk) *block.DiskSpec {
	return &block.DiskSpec{
		DevPath: d.DevPath, Size: d.Size, Model: d.Model, Serial: d.Serial, Modalias: d.Modalias, Wwid: d.WWID, Uuid: d.UUID,
		BusPath: d.BusPath, SubSystem: d.SubSystem, Transport: transport(d), Rotational: d.Rotational,
		Readonly: d.ReadOnly, Cdrom: d.CDROM, Symlinks: d.Symlinks,
	}
}

// transport is how the disk is attached. Talos 1.9 tells the type instead, from
// which the two transports follow that a diskSelector can name.
func transport(d talos.Disk) string {
	switch {
	case d.Transport != "" || d.Type == "":
		return d.Transport
	case d.Type == "nvme":
		return "nvme"
	case d.Type == "sd":
		return "mmc"
	}
	return "unknown"
}

func withoutPosition(err error) error {
	first, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	return errors.New(first)
}
