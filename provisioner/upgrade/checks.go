package upgrade

import (
	"errors"
	"slices"
	"strings"

	"github.com/talos-provision/provision/provisioner/talos"
)

// nodeChecks are all reasons not to upgrade one node, and fill in the plan's
// decisions on the way: each may use what those before it decided.
var nodeChecks = []func(p planner, m Machine, n *PlanNode) []Finding{
	checkPresence, checkPath, checkCompatibility, checkKubernetesVersion, checkSecureBoot, checkSchematic, checkConfig, checkAPI, checkInstaller, checkNetBoot, checkKubernetesNode,
}

// checkPresence: is it there, and a working node of this cluster?
func checkPresence(_ planner, m Machine, _ *PlanNode) []Finding {
	r := m.Running
	switch {
	case r.State == talos.Maintenance:
		return []Finding{find(CodeMaintenance, m.Name, "it is in maintenance mode, so it is no node of the cluster")}
	case r.WrongPKI:
		return []Finding{find(CodeWrongCluster, m.Name, "%s belongs to another cluster than the talosconfig", m.Host)}
	case !r.Reached:
		return []Finding{find(CodeUnreachable, m.Name, "it does not let us in: %v", r.Err)}
	case r.Role != ControlPlane && r.Role != Worker:
		return []Finding{find(CodeRoleUnknown, m.Name, "it does not tell whether it is a control plane")}
	case r.BootID == "":
		return []Finding{find(CodeDetailsUnknown, m.Name, "it does not tell its boot ID, by which a reboot is told: %v", r.Err)}
	case !m.settled():
		return []Finding{find(CodeNotRunning, m.Name, "its stage is %q and ready: %t %s", r.Stage, r.Ready, strings.Join(r.Unmet, ", "))}
	}
	return nil
}

// checkPath: which stops lie between what runs and the target?
func checkPath(p planner, m Machine, n *PlanNode) []Finding {
	if !m.Running.Reached {
		return nil
	}
	running, known := m.version()
	if !known {
		return []Finding{find(CodeVersionUnknown, m.Name, "it runs %q, which is no version of Talos", m.Running.Version)}
	}
	stops, err := Path(running, p.Target, p.Releases)
	var unknown *UnknownStopError
	switch {
	case errors.Is(err, ErrDowngrade):
		return []Finding{find(CodeDowngrade, m.Name, "it runs %s, which is newer than %s", running, p.Target)}
	case errors.As(err, &unknown):
		return []Finding{find(CodePathUnknown, m.Name, "%s to %s: %v", running, p.Target, err)}
	case stops == nil && m.Schematic != "" && m.Schematic != m.Running.Schematic:
		stops = []Version{p.Target} // the same version anew, with another schematic
	}
	n.Stops = append(n.Stops, stops...)
	if len(stops) > 1 && !p.Stops {
		return []Finding{find(CodePath, m.Name, "Talos migrates between adjacent minor versions only: %s", wayOf(running, stops))}
	}
	return nil
}

// wayOf writes a path down: v1.11.3 -> v1.12.12 -> v1.13.9.
func wayOf(from Version, stops []Version) string {
	way := from.String()
	for _, s := range stops {
		way += " -> " + s.String()
	}
	return way
}

// checkCompatibility: does each stop's installer replace what runs then?
func checkCompatibility(_ planner, m Machine, n *PlanNode) []Finding {
	from := n.Version
	for _, stop := range n.Stops {
		if err := Replaces(stop, from); err != nil {
			return []Finding{find(CodeIncompatible, m.Name, "%s to %s: %v", from, stop, err)}
		}
		from = stop
	}
	return nil
}

// checkKubernetesVersion: does each stop run the Kubernetes that there is?
func checkKubernetesVersion(p planner, m Machine, n *PlanNode) []Finding {
	if len(n.Stops) == 0 {
		return nil
	}
	var versions []string
	for _, v := range []string{p.serverVersion(), m.kubelet()} {
		if v != "" && !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
	}
	if len(versions) == 0 {
		return []Finding{find(CodeKubernetesUnsure, m.Name, "nobody tells which version of Kubernetes it runs")}
	}
	for _, stop := range n.Stops {
		for _, v := range versions {
			if err := RunsKubernetes(stop, v); err != nil {
				return []Finding{find(CodeKubernetes, m.Name, "%v", err)}
			}
		}
	}
	return nil
}

// serverVersion is that of the Kubernetes API server.
func (p planner) serverVersion() string {
	if p.Survey.Kubernetes != "" {
		return p.Survey.Kubernetes
	}
	return p.KubernetesVersion
}

func (m Machine) kubelet() string {
	if m.Kubernetes == nil {
		return ""
	}
	return m.Kubernetes.Kubelet
}

// checkSecureBoot: an installer of the other kind leaves a disk that does not boot.
func checkSecureBoot(_ planner, m Machine, n *PlanNode) []Finding {
	switch {
	case len(n.Stops) == 0:
		return nil
	case m.DetailsErr != nil:
		return []Finding{find(CodeDetailsUnknown, m.Name, "it does not tell how it was installed: %v", m.DetailsErr)}
	case !m.Details.SecureBootKnown:
		return []Finding{find(CodeSecureBootUnsure, m.Name, "it does not tell whether it booted with Secure Boot")}
	case m.Details.SecureBoot != m.SecureBoot:
		return []Finding{find(CodeSecureBootSwitch, m.Name, "it booted with Secure Boot: %t, and the inventory says %t", m.Details.SecureBoot, m.SecureBoot)}
	}
	return nil
}

// checkSchematic: without one the extensions would be lost.
func checkSchematic(_ planner, m Machine, n *PlanNode) []Finding {
	switch {
	case len(n.Stops) == 0:
		return nil
	case !schematicPattern.MatchString(n.TargetSchematic):
		return []Finding{find(CodeSchematic, m.Name, "neither the node nor the inventory tells its schematic (%q)", n.TargetSchematic)}
	case n.TargetSchematic != m.Running.Schematic:
		return []Finding{find(CodeSchematicChanges, m.Name, "the schematic changes from %q to %s", m.Running.Schematic, n.TargetSchematic)}
	}
	return nil
}

// firstRefusing is the first version that refuses a machine config with both
// machine.install.extraKernelArgs and grubUseUKICmdline.
var firstRefusing = Version{Major: 1, Minor: 13, Patch: 4}

// checkConfig: does each stop take the config that the node has? One that it
// refuses leaves the node without any after its reboot.
func checkConfig(_ planner, m Machine, n *PlanNode) []Finding {
	if len(m.Details.ExtraKernelArgs) == 0 || !m.Details.GrubUseUKICmdline {
		return nil
	}
	for _, stop := range n.Stops {
		if stop.Compare(firstRefusing) >= 0 {
			return []Finding{find(CodeConfigRefused, m.Name, "its machine config has extraKernelArgs together with grubUseUKICmdline, which Talos %s refuses", stop)}
		}
	}
	return nil
}

// checkAPI: in which way is it told?
func checkAPI(p planner, m Machine, n *PlanNode) []Finding {
	if len(n.Stops) == 0 {
		return nil
	}
	args := len(m.Details.DroppedArgs()) > 0
	n.API, n.APIReason = ChooseAPI(n.Version, args)
	lifecycle, _ := ChooseAPI(n.Version, false)
	switch {
	case p.API == Lifecycle && args && lifecycle == Lifecycle:
		n.API, n.APIReason = Lifecycle, "it was asked for"
		return []Finding{find(CodeKernelArgsDrop, m.Name, "the %s API would drop machine.install.extraKernelArgs (siderolabs/talos#13967)", Lifecycle)}
	case p.API == Legacy && lifecycle == Lifecycle:
		n.API, n.APIReason = Legacy, "it was asked for"
	case args && lifecycle == Lifecycle:
		return []Finding{find(CodeKernelArgs, m.Name, "the %s API keeps machine.install.extraKernelArgs, the newer one drops them (siderolabs/talos#13967)", Legacy)}
	}
	return nil
}

// checkInstaller: which image, and is it the right one?
func checkInstaller(p planner, m Machine, n *PlanNode) []Finding {
	if len(n.Stops) == 0 {
		return nil
	}
	want := factoryImage(p.Registry, n.TargetSchematic, m.SecureBoot, n.next())
	n.Image = want.String()
	if m.Image == "" {
		return nil
	}
	n.Image = m.Image
	if len(n.Stops) > 1 {
		return []Finding{find(CodeImageStops, m.Name, "%s installs one version, and the way has %d", m.Image, len(n.Stops))}
	}
	return checkImage(m.Name, m.Image, want, n.next())
}

// checkKubernetesNode: is its Node object ready to be drained?
func checkKubernetesNode(p planner, m Machine, n *PlanNode) []Finding {
	if p.NoDrain || p.KubernetesErr != nil || !m.Running.Reached {
		return nil
	}
	k := m.Kubernetes
	if k == nil {
		return []Finding{find(CodeNotRegistered, m.Name, "Kubernetes has no Node object of it")}
	}
	var found []Finding
	if !k.Ready {
		found = append(found, find(CodeNotReady, m.Name, "its Node object %s is not Ready", k.Name))
	}
	if len(n.Stops) == 0 {
		return found
	}
	if k.Unschedulable && !k.Ours {
		found = append(found, find(CodeCordoned, m.Name, "somebody else cordoned its Node object %s", k.Name))
	}
	// The pods of a cluster's only node are not moved.
	if len(m.Budgets) > 0 && len(p.Machines) > 1 {
		found = append(found, find(CodeBudget, m.Name, "its pods cannot be evicted now: %s", strings.Join(m.Budgets, ", ")))
	}
	if m.ServesAPI {
		found = append(found, find(CodeServesAPI, m.Name, "our way to the Kubernetes API leads to it, so that API is away during its turn"))
	}
	return found
}
