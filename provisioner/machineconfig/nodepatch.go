package machineconfig

import (
	"github.com/siderolabs/talos/pkg/machinery/config"
)

// network is the part of the patch that every version takes. What a machine was
// booted with from the network, ip= and vlan=, is gone when it boots its disk:
// without this a node with an address of its own asks DHCP from then on. A node
// with an ip needs an interface or a mac for it: which card would be the first is
// for Talos to say.
const networkPatch = `machine:
  network:
{{- if has "dns0" }}
    nameservers: ["{{ .dns0 }}"{{ if has "dns1" }}, "{{ .dns1 }}"{{ end }}]
{{- end }}
{{- if has "cidr" }}
    interfaces:
{{- if and (has "macs") (not (has "interface")) }}
    - deviceSelector: {hardwareAddr: "{{ index .macs 0 }}"}
{{- else }}
    - interface: {{ .interface }}
{{- end }}
{{- if has "vlan" }}
      vlans:
      - vlanId: {{ .vlan }}
        addresses: ["{{ .cidr }}"]
{{- if has "gateway" }}
        routes: [{network: "{{ .defaultRoute }}", gateway: "{{ .gateway }}"}]
{{- end }}
{{- else }}
      addresses: ["{{ .cidr }}"]
{{- if has "gateway" }}
      routes: [{network: "{{ .defaultRoute }}", gateway: "{{ .gateway }}"}]
{{- end }}
{{- end }}
{{- end }}
{{- if has "ntp" }}
  time:
    servers: ["{{ .ntp }}"]
{{- end }}
`

const hostnameOld = `    hostname: {{ .name }}
`

// From Talos 1.12 on the hostname has a document of its own.
const hostnameNew = `---
apiVersion: v1alpha1
kind: HostnameConfig
auto: "off"
hostname: {{ .name }}
`

const patchHead = `# What differs from node to node, filled in from the inventory: name, address, DNS and time servers.
`

// nodePatch is a patch template that gives a node its name and network.
func nodePatch(contract *config.VersionContract) []byte {
	const network = "machine:\n  network:\n"
	if contract.MultidocNetworkConfigSupported() {
		return []byte(patchHead + networkPatch + hostnameNew)
	}
	return []byte(patchHead + network + hostnameOld + networkPatch[len(network):])
}
