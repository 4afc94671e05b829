package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/talos"
)

// nodeHealth is what a node runs, and how that differs from the inventory.
type nodeHealth struct {
	Node            string   `json:"node"`
	Host            string   `json:"host,omitempty"`
	Role            string   `json:"role,omitempty"`
	Version         string   `json:"talosVersion,omitempty"`
	WantedVersion   string   `json:"wantedTalosVersion,omitempty"`
	Schematic       string   `json:"schematic,omitempty"`
	WantedSchematic string   `json:"wantedSchematic,omitempty"`
	Stage           string   `json:"stage,omitempty"`
	Ready           bool     `json:"ready"`
	Kubernetes      string   `json:"kubernetes,omitempty"` // Ready, NotReady, or "" for a node that it does not know
	Problems        []string `json:"problems,omitempty"`   // unhealthy or drifted, in words
}

// fill compares a node with what the inventory says of it.
func (h *nodeHealth) fill(n clusterNode, seen talos.Running) {
	h.Role, h.Version, h.Schematic, h.Stage, h.Ready = seen.Role, seen.Version, seen.Schematic, seen.Stage, seen.Ready
	if !seen.Reached {
		h.Problems = []string{unreached(seen)}
		return
	}
	if seen.Kubernetes.Registered {
		h.Kubernetes = "NotReady"
		if seen.Kubernetes.Ready {
			h.Kubernetes = "Ready"
		}
	}
	if why := otherMachine(n, seen); why != "" {
		h.add("another machine has this address: %s", why)
	}
	h.differ("Talos", seen.Version, n.TalosVersion)
	if seen.Schematic != n.SchematicID {
		h.differ("schematic", shortSchematic(seen.Schematic), shortSchematic(n.SchematicID))
	}
	h.differ("hostname", seen.Hostname, n.Name)
	h.differ("role", seen.Role, n.role)
	switch {
	case seen.Stage != "running":
		h.add("stage %s", seen.Stage)
	case !seen.Ready:
		h.add("not ready: %s", strings.Join(seen.Unmet, ", "))
	}
	switch {
	case h.Kubernetes == "":
		h.add("not in Kubernetes")
	case h.Kubernetes != "Ready":
		h.add("not Ready in Kubernetes")
	case seen.Kubernetes.Unschedulable:
		h.Kubernetes = "Ready,SchedulingDisabled"
	}
	if seen.Err != nil {
		h.add("not all could be read: %v", seen.Err)
	}
}

func (h *nodeHealth) add(format string, args ...any) {
	h.Problems = append(h.Problems, fmt.Sprintf(format, args...))
}

// differ compares, where both sides say something.
func (h *nodeHealth) differ(what, is, wanted string) {
	if is != "" && wanted != "" && is != wanted {
		h.add("%s %s, not %s", what, is, wanted)
	}
}

// unreached says what stands in the way of a node that tells nothing.
func unreached(seen talos.Running) string {
	switch {
	case seen.State == talos.Maintenance:
		return "in maintenance mode: it has no machine config"
	case seen.WrongPKI:
		return "of another cluster: it does not accept the talosconfig"
	case seen.Err != nil:
		return seen.Err.Error()
	}
	return "does not answer"
}

// otherMachine says what contradicts that this is the node; "" when nothing does.
func otherMachine(n clusterNode, seen talos.Running) string {
	if key, same, why := identity.Compare([]identity.Facts{n.Facts()}, seen.Facts); key != "" && !same {
		return why
	}
	return ""
}

// shortSchematic is a schematic as people tell them apart.
func shortSchematic(schematic string) string {
	const digits = 8
	if len(schematic) <= digits {
		return schematic
	}
	return schematic[:digits] + "…"
}

func healthTable(w io.Writer, nodes []nodeHealth) error {
	rows := make([][]string, 0, len(nodes))
	for _, n := range nodes {
		ready := fmt.Sprint(n.Ready)
		if n.Stage == "" {
			ready = ""
		}
		rows = append(rows, []string{
			n.Node, orDash(n.Role), orDash(n.Version), orDash(shortSchematic(n.Schematic)), orDash(n.Stage), orDash(ready), orDash(n.Kubernetes), strings.Join(n.Problems, "; "),
		})
	}
	return table(w, []string{"NODE", "ROLE", "TALOS", "SCHEMATIC", "STAGE", "READY", "KUBERNETES", "PROBLEMS"}, rows)
}
