package machineconfig

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// facts are what is read from a config, leniently: what is not there or has
// another form is empty.
type facts struct {
	kinds       []string
	machineType string
	hostname    string
	clusterName string
	endpoint    string
	kubernetes  string
	machineCA   string // certificate, base64 of PEM
	install     Install
}

// Install is what a config says of the installation.
type Install struct {
	Disk         string            // machine.install.disk, a path
	Selector     map[string]string // machine.install.diskSelector by key: size, model, …; it has priority over Disk
	Match        string            // CEL expression of UnattendedInstallConfig (Talos 1.14)
	Image        string            // container image of the installer; "" leaves it to Talos
	Wipe         bool              // the disk is wiped first
	ExtraArgs    []string          // machine.install.extraKernelArgs
	UKICmdline   bool              // machine.install.grubUseUKICmdline
	Given        bool              // there is machine.install or an UnattendedInstallConfig
	selectorNode *yaml.Node
	bothForms    bool
}

// readers are the documents that something is read from, by kind. Talos moves
// parts of the v1alpha1 document into kinds of their own from version to version.
var readers = map[string]func(*facts, *yaml.Node){
	"v1alpha1":                (*facts).readV1Alpha1,
	"HostnameConfig":          func(f *facts, d *yaml.Node) { setText(&f.hostname, scalar(d, "hostname")) },
	"KubeletConfig":           func(f *facts, d *yaml.Node) { setText(&f.kubernetes, versionOfImage(scalar(d, "image"))) },
	"KubeClusterConfig":       (*facts).readKubeCluster,
	"UnattendedInstallConfig": (*facts).readUnattended,
}

func factsOf(documents []document) facts {
	var f facts
	for _, d := range documents {
		f.kinds = append(f.kinds, d.kind)
		if read := readers[d.kind]; read != nil {
			read(&f, d.root)
		}
	}
	return f
}

func setText(target *string, value string) {
	if value != "" {
		*target = value
	}
}

func (f *facts) readV1Alpha1(d *yaml.Node) {
	setText(&f.machineType, scalar(d, "machine", "type"))
	setText(&f.hostname, scalar(d, "machine", "network", "hostname"))
	setText(&f.clusterName, scalar(d, "cluster", "clusterName"))
	setText(&f.endpoint, scalar(d, "cluster", "controlPlane", "endpoint"))
	setText(&f.kubernetes, versionOfImage(scalar(d, "machine", "kubelet", "image")))
	setText(&f.machineCA, scalar(d, "machine", "ca", "crt"))
	install := find(d, "machine", "install")
	if install == nil || install.Kind != yaml.MappingNode || len(install.Content) == 0 {
		return
	}
	f.install.bothForms = f.install.Given
	f.install.Given = true
	f.install.Disk = scalar(install, "disk")
	f.install.Image = scalar(install, "image")
	f.install.Wipe = isTrue(scalar(install, "wipe"))
	f.install.UKICmdline = isTrue(scalar(install, "grubUseUKICmdline"))
	if args := find(install, "extraKernelArgs"); args != nil {
		for _, arg := range args.Content {
			f.install.ExtraArgs = append(f.install.ExtraArgs, arg.Value)
		}
	}
	if selector := find(install, "diskSelector"); selector != nil && selector.Kind == yaml.MappingNode && len(selector.Content) > 0 {
		f.install.selectorNode = selector
		f.install.Selector = map[string]string{}
		for i := 0; i+1 < len(selector.Content); i += 2 {
			f.install.Selector[selector.Content[i].Value] = selector.Content[i+1].Value
		}
	}
}

func (f *facts) readKubeCluster(d *yaml.Node) {
	setText(&f.clusterName, scalar(d, "clusterName"))
	setText(&f.endpoint, scalar(d, "endpoint"))
}

// readUnattended reads the document that takes the place of machine.install from
// Talos 1.14 on; there wipe is the default.
func (f *facts) readUnattended(d *yaml.Node) {
	f.install.bothForms = f.install.Given
	f.install.Given = true
	f.install.Image = scalar(d, "installer", "image")
	f.install.Match = strings.TrimSpace(scalar(d, "provisioning", "diskSelector", "match"))
	wipe := scalar(d, "provisioning", "wipe")
	f.install.Wipe = wipe == "" || isTrue(wipe)
}

// isTrue reads a boolean as Talos does: YAML 1.1's words are booleans there.
func isTrue(value string) bool {
	switch strings.ToLower(value) {
	case "true", "yes", "on", "y":
		return true
	}
	return false
}

// versionOfImage is the version in the tag of an image, without "v".
func versionOfImage(image string) string {
	name, _, _ := strings.Cut(image, "@")
	_, tag, tagged := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":")
	if !tagged {
		return ""
	}
	return strings.TrimPrefix(tag, "v")
}
