package machineconfig

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/encoder"
	"github.com/siderolabs/talos/pkg/machinery/config/generate"
	"github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"
	"github.com/siderolabs/talos/pkg/machinery/config/machine"
	"gopkg.in/yaml.v3"
)

// Cluster is a cluster whose configs are to be generated.
type Cluster struct {
	Name     string
	Endpoint string // URL of its Kubernetes API: https://10.20.0.10:6443
	// TalosVersion is that of the nodes, like v1.13.9.
	TalosVersion string
	// KubernetesVersion is without "v"; "" takes DefaultKubernetesVersion.
	KubernetesVersion string
	// InstallDisk is a device path; "" leaves it to a patch.
	InstallDisk string
	// Schematic and SecureBoot say which image is installed.
	Schematic  string
	SecureBoot bool
	// Endpoints and Nodes are the addresses in the talosconfig.
	Endpoints, Nodes []string
	// Secrets is the file of an existing secrets bundle; "" makes new secrets.
	Secrets string
}

// clusterName is what can be a cluster's name: a DNS label, for it becomes part
// of names in Kubernetes and in certificates.
var clusterName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Generate makes the files of a cluster by Talos' own generators, in the form of
// its version of Talos.
func (c Cluster) Generate() (Files, error) {
	row, kube, err := c.check()
	if err != nil {
		return Files{}, err
	}
	contract, err := config.ParseContractFromVersion(row.generateContract)
	if err != nil {
		return Files{}, fmt.Errorf("generate the configs of %s: %w", c.Name, err)
	}
	bundle, fresh, err := c.secrets(contract)
	if err != nil {
		return Files{}, err
	}
	input, err := generate.NewInput(c.Name, c.Endpoint, kube,
		generate.WithSecretsBundle(bundle), generate.WithVersionContract(contract),
		generate.WithInstallDisk(c.InstallDisk), generate.WithInstallImage(InstallerImage(c.TalosVersion, c.Schematic, c.SecureBoot)),
		generate.WithEndpointList(c.Endpoints),
	)
	if err != nil {
		return Files{}, fmt.Errorf("generate the configs of %s: %w", c.Name, err)
	}
	content := map[string][]byte{NodePatchFile: nodePatch(contract)}
	if fresh {
		if content[SecretsFile], err = yaml.Marshal(bundle); err != nil {
			return Files{}, fmt.Errorf("write the secrets of %s: %w", c.Name, err)
		}
	}
	for name, kind := range map[string]machine.Type{ControlPlaneFile: machine.TypeControlPlane, WorkerFile: machine.TypeWorker} {
		provider, err := input.Config(kind)
		if err == nil {
			content[name], err = provider.EncodeBytes(encoder.WithComments(encoder.CommentsDisabled))
		}
		if err != nil {
			return Files{}, fmt.Errorf("generate %s of %s: %w", name, c.Name, err)
		}
	}
	talosconfig, err := input.Talosconfig()
	if err != nil {
		return Files{}, fmt.Errorf("generate the talosconfig of %s: %w", c.Name, err)
	}
	talosconfig.Contexts[c.Name].Nodes = c.Nodes
	if content[TalosconfigFile], err = talosconfig.Bytes(); err != nil {
		return Files{}, fmt.Errorf("write the talosconfig of %s: %w", c.Name, err)
	}
	return Files{kube, &held{content}}, nil
}

// Check tells what is wrong with what was asked for, before keys are made.
func (c Cluster) Check() error {
	_, _, err := c.check()
	return err
}

// check judges what was asked for, and gives the version of Kubernetes.
func (c Cluster) check() (kubernetes, string, error) {
	if !clusterName.MatchString(c.Name) {
		return kubernetes{}, "", fmt.Errorf("%q cannot be a cluster's name: write lower-case letters, digits and hyphens", c.Name)
	}
	if err := checkEndpoint(c.Endpoint); err != nil {
		return kubernetes{}, "", err
	}
	row, err := rowOf(c.TalosVersion)
	if err != nil {
		return kubernetes{}, "", err
	}
	kube := strings.TrimPrefix(c.KubernetesVersion, "v")
	if kube == "" {
		kube = row.recommended
	}
	v, ok := parseVersion(kube)
	if !ok {
		return kubernetes{}, "", fmt.Errorf("%q is not a version of Kubernetes: write it like 1.36.3", c.KubernetesVersion)
	}
	if why := row.refuses(v); why != "" {
		return kubernetes{}, "", fmt.Errorf("kubernetes %s does not fit: %s", kube, why)
	}
	if c.InstallDisk != "" && !strings.HasPrefix(c.InstallDisk, "/dev/") {
		return kubernetes{}, "", fmt.Errorf("%q is not a disk: write its path, like /dev/sda or /dev/disk/by-id/…", c.InstallDisk)
	}
	return row, kube, nil
}

// checkEndpoint: Talos takes https only, and a name or an address that the
// nodes reach.
func checkEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("the endpoint must be the URL of the cluster's Kubernetes API, like https://10.20.0.10:6443 or https://k8s.example.com:6443")
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && (addr.IsLoopback() || addr.IsUnspecified()) {
		return fmt.Errorf("the endpoint %s is each node's own loopback: give the address of a control plane node, of a virtual IP or of a load balancer", endpoint)
	}
	return nil
}

// secrets reads the secrets bundle, or makes a new one. Its errors repeat nothing
// of it (I9).
func (c Cluster) secrets(contract *config.VersionContract) (bundle *secrets.Bundle, fresh bool, err error) {
	if c.Secrets == "" {
		bundle, err = secrets.NewBundle(secrets.NewFixedClock(time.Now()), contract)
		if err != nil {
			return nil, false, fmt.Errorf("make the secrets of %s: %w", c.Name, err)
		}
		return bundle, true, nil
	}
	data, err := os.ReadFile(c.Secrets)
	if err != nil {
		return nil, false, fmt.Errorf("read the secrets of %s: %w", c.Name, err)
	}
	if documents, err := documentsOf(data); err == nil && find(documents[0].root, "sops") != nil {
		return nil, false, fmt.Errorf("read the secrets of %s: %s is encrypted with sops: decrypt it to a file that only you can read, and give that one", c.Name, c.Secrets)
	}
	bundle, err = secrets.LoadBundle(c.Secrets)
	if err == nil {
		err = bundle.Validate()
	}
	if err != nil {
		return nil, false, fmt.Errorf("read the secrets of %s: %s is no whole secrets bundle as talosctl gen secrets writes it: give another file, or none to make new secrets", c.Name, c.Secrets)
	}
	bundle.Clock = secrets.NewFixedClock(time.Now()) // of the certificates that are made now
	return bundle, false, nil
}
