package talosnode

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"gopkg.in/yaml.v3"
)

// kindsSince are config kinds by the minor version of Talos 1 that brought
// them: an older node refuses a config with one.
var kindsSince = map[string]int{
	"EthernetConfig": 10, "UserVolumeConfig": 10,
	"RawVolumeConfig": 11, "SwapVolumeConfig": 11, "ZswapConfig": 11,
	"HostnameConfig": 12, "ResolverConfig": 12, "TimeSyncConfig": 12, "LinkConfig": 12, "LinkAliasConfig": 12,
	"DHCPv4Config": 12, "DHCPv6Config": 12, "BondConfig": 12, "BridgeConfig": 12, "VLANConfig": 12,
	"DummyLinkConfig": 12, "WireguardConfig": 12, "StaticHostConfig": 12, "Layer2VIPConfig": 12, "HCloudVIPConfig": 12,
	"RegistryMirrorConfig": 12, "RegistryAuthConfig": 12, "RegistryTLSConfig": 12,
	"KubeSpanConfig":        13,
	unattendedInstall:       14,
	"SecurityProfileConfig": 14,
}

// unattendedInstall takes the place of .machine.install in 1.14.
const unattendedInstall = "UnattendedInstallConfig"

// unknownKinds are those that our machinery library does not have: a node that has them is a newer one.
func unknownKinds(kind string) bool { return kindsSince[kind] > machineryMinor }

// machineryMinor is the version of Talos whose library this is built with.
const machineryMinor = 13

// kindsOf are the kinds of a config's documents; a config that is no YAML has none, its errors come from elsewhere.
func kindsOf(data []byte) []string {
	var kinds []string
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document struct{ Kind string }
		if err := decoder.Decode(&document); err != nil {
			return kinds
		}
		kinds = append(kinds, document.Kind)
	}
}

// unsupportedKind is the error of a node of this minor version for a kind that is newer than it.
func unsupportedKind(data []byte, minor int) error {
	for _, kind := range kindsOf(data) {
		if kindsSince[kind] > minor {
			return fmt.Errorf("error decoding document /%s/ (line %d): %q %q: not registered", kind, 1, kind, "v1alpha1")
		}
	}
	return nil
}

// withoutDocuments leaves documents out by their kind. Data in which nothing is
// left out, or that is no YAML, comes back as it is.
func withoutDocuments(data []byte, leaveOut func(kind string) bool) []byte {
	var kept [][]byte
	left := false
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return data
		}
		var kind struct{ Kind string }
		if document.Decode(&kind) == nil && leaveOut(kind.Kind) {
			left = true
			continue
		}
		text, err := yaml.Marshal(&document)
		if err != nil {
			return data
		}
		kept = append(kept, text)
	}
	if !left {
		return data
	}
	return bytes.Join(kept, []byte("---\n"))
}
