package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/talos-provision/provision/provisioner/machineconfig"
)

// initialised is what init made.
type initialised struct {
	cluster   machineconfig.Cluster
	files     machineconfig.Files
	dir       string
	inventory string
}

// fields are what the cluster's _defaults.yaml has to say.
type initialisedFields struct {
	MachineConfig string   `json:"machineConfig"`
	ConfigPatches []string `json:"configPatches"`
	Talosconfig   string   `json:"talosconfig"`
}

// defaults is the file that speaks for all nodes of the cluster.
func (i initialised) defaults() string {
	return filepath.Join(i.inventory, i.cluster.Name, "_defaults.yaml")
}

func (i initialised) fields() initialisedFields {
	from := i.path(filepath.Dir(i.defaults()))
	return initialisedFields{
		MachineConfig: from("{{ .labels." + roleLabel + " }}.yaml"),
		ConfigPatches: []string{from(machineconfig.NodePatchFile)},
		Talosconfig:   from(machineconfig.TalosconfigFile),
	}
}

// path writes the files' paths as seen from a folder; absolute, if there is no way.
func (i initialised) path(from string) func(name string) string {
	dir, err := filepath.Abs(i.dir)
	if err != nil {
		dir = i.dir
	}
	if base, err := filepath.Abs(from); err == nil {
		if relative, err := filepath.Rel(base, dir); err == nil {
			dir = relative
		}
	}
	return func(name string) string { return filepath.ToSlash(filepath.Join(dir, name)) }
}

func (i initialised) json() any {
	return struct {
		Cluster           string            `json:"cluster"`
		Dir               string            `json:"dir"`
		Files             []string          `json:"files"`
		TalosVersion      string            `json:"talosVersion"`
		KubernetesVersion string            `json:"kubernetesVersion"`
		Image             string            `json:"image"`
		Inventory         initialisedFields `json:"inventory"`
	}{i.cluster.Name, i.dir, i.files.Names(), i.cluster.TalosVersion, i.files.KubernetesVersion, i.image(), i.fields()}
}

func (i initialised) image() string {
	return machineconfig.InstallerImage(i.cluster.TalosVersion, i.cluster.Schematic, i.cluster.SecureBoot)
}

// tell says what was made and what to do next.
func (i initialised) tell(a *app) error {
	var out strings.Builder
	for _, name := range i.files.Names() {
		fmt.Fprintf(&out, "wrote %s\n", filepath.Join(i.dir, name))
	}
	f := i.fields()
	fmt.Fprintf(&out, "\nTalos %s with Kubernetes %s, installed from %s\n", i.cluster.TalosVersion, i.files.KubernetesVersion, i.image())
	fmt.Fprintf(&out, "\nPut this into %s:\n\n", i.defaults())
	fmt.Fprintf(&out, "machineConfig: %s\nconfigPatches:\n- %s\ntalosconfig: %s\n", f.MachineConfig, f.ConfigPatches[0], f.Talosconfig)
	fmt.Fprintf(&out, "\nand the role of each node into its file, controlplane or worker:\n\nlabels: {%s: controlplane}\n\n", roleLabel)
	for _, note := range i.notes() {
		fmt.Fprintf(&out, "%s\n", note)
	}
	_, err := fmt.Fprint(a.out, out.String())
	return err
}

func (i initialised) notes() []string {
	var notes []string
	if i.cluster.InstallDisk == "" {
		notes = append(notes, "No disk is named yet: set machine.install.disk or diskSelector in a patch, or use --install-disk.")
	}
	if len(i.cluster.Endpoints) == 0 {
		notes = append(notes, "The talosconfig has no endpoints yet: no node of the inventory has an ip and the label role: controlplane.")
	}
	if i.cluster.Secrets == "" {
		notes = append(notes, machineconfig.SecretsFile+" is the cluster: whoever has it owns every node, and without it none can be added. Keep a copy, encrypted, and never in git as it is.")
	}
	return notes
}
