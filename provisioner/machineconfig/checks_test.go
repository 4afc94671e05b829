package machineconfig_test

import (
	"strings"
	"testing"

	"github.com/talos-provision/provision/inventory"
)

const (
	other = "b8e8fbbe1b520989e6c52c8dc8303070cb42095997e76e812fa8892393e1d176"
	disk  = "disk: /dev/sda, "
)

// rack is a config that suits v1.13.9 with the vanilla schematic.
func rack(install string) string {
	return "machine: {type: worker, kubelet: {image: 'ghcr.io/siderolabs/kubelet:v1.36.3'}, install: {" + install + "}}\n"
}

var metalImage = "image: 'factory.talos.dev/metal-installer/" + vanilla + ":v1.13.9'"

// checkCases have, for a node of v1.13.9, a config, what else its file says, and
// the rule that finds something, with a word of the message.
var checkCases = map[string]struct {
	config, node string
	rule         inventory.Rule
	severity     inventory.Severity
	want         string
}{
	"sound":                         {config: rack(disk + metalImage)},
	"sound, FQDN":                   {config: rack(disk+metalImage) + "---\nkind: HostnameConfig\nhostname: node-01.example.com\n"},
	"sound, from a mirror":          {config: rack(disk + "image: 'registry.local:5000/talos/metal-installer/" + vanilla + ":v1.13.9@sha256:00'")},
	"sound, older name":             {config: rack(disk + "image: 'factory.talos.dev/installer/" + vanilla + ":v1.13.9'")},
	"sound, the release's":          {config: rack(disk + "image: 'ghcr.io/siderolabs/installer:v1.13.9'")},
	"sound, no image":               {config: rack(disk + "wipe: false")},
	"sound, arguments":              {config: rack(disk + "extraKernelArgs: [a=b], grubUseUKICmdline: true, image: 'factory.talos.dev/metal-installer/" + vanilla + ":v1.9.5'"), node: "talosVersion: v1.9.5\n", rule: inventory.RuleConfigKube, want: "Talos 1.9 runs Kubernetes 1.27 to 1.32"},
	"sound, its address":            {config: rack(disk+metalImage) + "---\nkind: LinkConfig\naddresses: [{address: 10.0.0.2/24}]\n", node: "ip: 10.0.0.2\nnetmask: 24\n"},
	"no machine.type":               {config: "machine: {install: {" + disk + metalImage + "}}\n", rule: inventory.RuleConfigType, want: "stay in maintenance mode"},
	"a document alone":              {config: "kind: HostnameConfig\nhostname: node-01\n---\nkind: UnattendedInstallConfig\nprovisioning: {diskSelector: {match: 'true'}}\n", node: "talosVersion: v1.14.0\n", rule: inventory.RuleConfigType, want: "no machine.type"},
	"type init":                     {config: strings.Replace(rack(disk+metalImage), "worker", "init", 1), rule: inventory.RuleConfigType, want: "bootstraps a cluster of its own"},
	"unknown type":                  {config: strings.Replace(rack(disk+metalImage), "worker", "hunter2", 1), rule: inventory.RuleConfigType, want: "does not know"},
	"hostname":                      {config: rack(disk+metalImage) + "---\nkind: HostnameConfig\nhostname: node-02\n", rule: inventory.RuleConfigHostname, want: "has the hostname node-02"},
	"hostname, older form":          {config: strings.Replace(rack(disk+metalImage), "type: worker", "type: worker, network: {hostname: node-02}", 1), rule: inventory.RuleConfigHostname, want: "node-02"},
	"no install":                    {config: "machine: {type: worker}\n", rule: inventory.RuleConfigDisk, want: "installs nothing"},
	"no disk":                       {config: rack(metalImage), rule: inventory.RuleConfigDisk, want: "names no disk"},
	"document of 1.14":              {config: "machine: {type: worker}\n---\nkind: UnattendedInstallConfig\nprovisioning: {diskSelector: {match: 'true'}}\n", rule: inventory.RuleConfigDisk, want: "which Talos v1.13.9 does not know"},
	"version":                       {config: rack(disk + "image: 'factory.talos.dev/metal-installer/" + vanilla + ":v1.12.0'"), rule: inventory.RuleConfigImage, want: "installs Talos v1.12.0, and talosVersion is v1.13.9 (_defaults.yaml:1)"},
	"latest":                        {config: rack(disk + "image: 'factory.talos.dev/metal-installer/" + vanilla + ":latest'"), rule: inventory.RuleConfigImage, want: "whose tag is no version"},
	"no tag":                        {config: rack(disk + "image: factory.talos.dev/metal-installer/" + vanilla), rule: inventory.RuleConfigImage, want: "whose tag is no version"},
	"schematic":                     {config: rack(disk + "image: 'factory.talos.dev/metal-installer/" + other + ":v1.13.9'"), rule: inventory.RuleConfigImage, want: "installs the schematic b8e8fbbe…, and schematicID is 37656798…"},
	"the release's, with a schema":  {config: rack(disk + "image: 'ghcr.io/siderolabs/installer:v1.13.9'"), node: "schematicID: " + other + "\n", rule: inventory.RuleConfigImage, want: "installs the schematic 37656798…, and schematicID is b8e8fbbe…"},
	"no image, with a schematic":    {config: rack(disk + "wipe: false"), node: "schematicID: " + other + "\n", rule: inventory.RuleConfigImage, want: "without the schematic's extensions"},
	"the release's, since 1.14":     {config: rack(disk + "image: 'ghcr.io/siderolabs/installer:v1.14.0'"), node: "talosVersion: v1.14.0\n", rule: inventory.RuleConfigImage, want: "no longer published since Talos 1.14"},
	"other platform":                {config: rack(disk + "image: 'factory.talos.dev/aws-installer/" + vanilla + ":v1.13.9'"), rule: inventory.RuleConfigImage, want: "made for aws"},
	"secure boot":                   {config: rack(disk + "image: 'factory.talos.dev/metal-installer-secureboot/" + vanilla + ":v1.13.9'"), rule: inventory.RuleConfigImage, want: "secureBoot is false"},
	"no secure boot":                {config: rack(disk + metalImage), node: "secureBoot: true\nmac: 0c:c4:7a:00:00:01\n", rule: inventory.RuleConfigImage, want: "secureBoot is true"},
	"image of one's own":            {config: rack(disk + "image: 'registry.local/mine:v1.13.9'"), rule: inventory.RuleConfigImage, severity: inventory.Warning, want: "not called as an installer"},
	"image without a schematic":     {config: rack(disk + "image: 'registry.local/metal-installer:v1.13.9'"), rule: inventory.RuleConfigImage, severity: inventory.Warning, want: "whose schematic its name does not tell"},
	"kubernetes":                    {config: strings.Replace(rack(disk+metalImage), "v1.36.3", "v1.37.0", 1), rule: inventory.RuleConfigKube, want: "has Kubernetes 1.37.0: Talos 1.13 runs Kubernetes 1.31 to 1.36"},
	"extraKernelArgs, grubUseUKI":   {config: rack(disk + "extraKernelArgs: [a=b], grubUseUKICmdline: true, " + metalImage), rule: inventory.RuleConfigArgs, want: "which Talos v1.13.9 refuses"}, // devantler-tech/platform#2099
	"the same, before 1.13.4":       {config: strings.Replace(rack(disk+"extraKernelArgs: [a=b], grubUseUKICmdline: true, "+metalImage), "v1.13.9", "v1.13.3", 1), node: "talosVersion: v1.13.3\n", rule: inventory.RuleConfigArgs, severity: inventory.Warning, want: "ignores"},
	"extraKernelArgs":               {config: rack(disk + "extraKernelArgs: [a=b], " + metalImage), rule: inventory.RuleConfigArgs, severity: inventory.Warning, want: "ignores on a machine with UEFI"},
	"variable in the path":          {config: strings.Replace(strings.Replace(rack(disk+"extraKernelArgs: ['talos.config=https://c/${uuid}'], "+metalImage), "v1.13.9", "v1.9.5", 1), "1.36.3", "1.32.3", 1), node: "talosVersion: v1.9.5\n", rule: inventory.RuleConfigArgs, want: "variable in the path"}, // siderolabs/talos#10225
	"variable in the query":         {config: strings.Replace(strings.Replace(rack(disk+"extraKernelArgs: ['talos.config=https://c/?u=${uuid}'], "+metalImage), "v1.13.9", "v1.9.5", 1), "1.36.3", "1.32.3", 1), node: "talosVersion: v1.9.5\n"},
	"talos.config besides":          {config: rack(disk + metalImage), node: "kernelArgs: talos.config=https://c/\n", rule: inventory.RuleConfigArgs, severity: inventory.Warning, want: "makes the machine fetch one itself"},
	"address":                       {config: rack(disk + metalImage), node: "ip: 10.0.0.2\nnetmask: 24\n", rule: inventory.RuleConfigAddress, severity: inventory.Warning, want: "does not have its ip 10.0.0.2 (k8s/node-01.yaml:1)"},
	"not YAML":                      {config: "[", rule: inventory.RuleConfigSyntax, want: "not YAML"},
	"a template that needs a value": {config: "a: b", node: "machineConfig: ../../{{ .vlan }}.yaml\n", rule: inventory.RuleConfigTemplate, want: "no value for vlan"},
	"no file":                       {config: "a: b", node: "machineConfig: ../../none.yaml\n", rule: inventory.RuleConfigFile, want: "no such file"},
	"no talosconfig":                {config: rack(disk + metalImage), node: "talosconfig: ../../none\n", rule: inventory.RuleConfigFile, want: "no such file"},
	"a talosconfig that is none":    {config: rack(disk + metalImage), node: "talosconfig: ../../c.yaml\n", rule: inventory.RuleConfigSyntax, want: "no talosconfig"},
	"a patch that does not fit":     {config: "machine: {type: worker, hunter2: 1}\n", node: "configPatches: [../../c.yaml]\n", rule: inventory.RuleConfigPatch, want: "no patch"},
}

func TestChecksFindWhatIsWrongAndOnlyThat(t *testing.T) {
	t.Parallel()
	for name, tc := range checkCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, map[string]string{
				"nodes/_defaults.yaml":   "talosVersion: v1.13.9\nschematicID: " + vanilla + "\nmachineConfig: ../c.yaml\n",
				"nodes/k8s/node-01.yaml": tc.node, "c.yaml": tc.config,
			})
			findings := s.source.Check(s.nodes(t))
			if tc.rule == "" {
				if len(findings) > 0 {
					t.Errorf("findings:\n%s", findings)
				}
				return
			}
			if len(findings) != 1 || findings[0].Rule != tc.rule || findings[0].Severity != tc.severity || findings[0].File == "" || findings[0].Line == 0 || findings[0].Field == "" {
				t.Fatalf("findings:\n%s", findings)
			}
			contains(t, findings[0].Message, tc.want)
			if strings.Contains(findings.String(), "hunter2") && tc.rule != inventory.RuleConfigPatch {
				t.Errorf("a value of the config is repeated: %s", findings)
			}
		})
	}
}

// Every rule about machine configs has a case that it finds.
func TestEveryRuleAboutConfigsHasACase(t *testing.T) {
	t.Parallel()
	found := map[inventory.Rule]bool{inventory.RuleConfigPKI: true} // has a test of its own
	for _, tc := range checkCases {
		found[tc.rule] = true
	}
	for _, r := range inventory.Rules() {
		if strings.HasPrefix(string(r.Rule), "config-") && !found[r.Rule] {
			t.Errorf("%s has no case", r.Rule)
		}
	}
}

// siderolabs/talos#9241: with the talosconfig of another cluster a node is
// installed, and then lets nobody in.
func TestConfigsOfDifferentClustersAreTold(t *testing.T) {
	t.Parallel()
	const authority, stranger = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=", "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkJCQkIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="
	config := func(ca string) string {
		return strings.Replace(rack(disk+metalImage), "type: worker", "type: worker, ca: {crt: "+ca+", key: hunter2}", 1)
	}
	talosconfig := func(ca string) string {
		return "context: k8s\ncontexts: {k8s: {endpoints: [10.0.0.1], ca: " + ca + ", crt: hunter2, key: hunter2}}\n"
	}
	s := newSite(t, map[string]string{
		"nodes/_defaults.yaml": "talosVersion: v1.13.9\nschematicID: " + vanilla + "\nmachineConfig: ../{{ .name }}.yaml\ntalosconfig: ../{{ .cluster }}.talosconfig\n",
		"nodes/a/n1.yaml":      "", "nodes/a/n2.yaml": "", "nodes/b/n3.yaml": "", "nodes/c/n4.yaml": "",
		"n1.yaml": config(authority), "n2.yaml": config(stranger), "n3.yaml": config(stranger), "n4.yaml": config(authority),
		"a.talosconfig": talosconfig(authority), "b.talosconfig": talosconfig(authority), "c.talosconfig": talosconfig(authority),
	})
	findings := s.source.Check(s.nodes(t))
	if len(findings) != 2 || findings[0].Rule != inventory.RuleConfigPKI || findings[1].Rule != inventory.RuleConfigPKI {
		t.Fatalf("findings:\n%s", findings)
	}
	contains(t, findings.String(), "the talosconfig of a/n2 is not of the cluster of its machine config", "the talosconfig of b/n3 is not of the cluster")
	s = newSite(t, map[string]string{
		"nodes/_defaults.yaml": "talosVersion: v1.13.9\nschematicID: " + vanilla + "\nmachineConfig: ../{{ .name }}.yaml\n",
		"nodes/a/n1.yaml":      "", "nodes/a/n2.yaml": "", "n1.yaml": config(authority), "n2.yaml": config(stranger),
	})
	contains(t, s.source.Check(s.nodes(t)).String(), "the machine config of a/n2 is of another cluster than that of a/n1")
}
