package inventory_test

import (
	"strings"
	"testing"

	"github.com/talos-provision/provision/inventory"
)

// Everything that a signed image would not do is refused with the place, the
// reason and what to do, for a node and for what comes from above it.
func TestWhatASignedImageWouldNotDoIsRefused(t *testing.T) {
	t.Parallel()
	const withArgs = "schematic: {customization: {extraKernelArgs: [net.ifnames=0, 'console=ttyS0,115200']}}\n"
	const withNetwork = "schematic: {customization: {meta: [{key: 0x0a, value: 'addresses: []'}]}}\n"
	for name, tc := range map[string]struct {
		defaults, node string
		want           []string // the place, and parts of the finding; none for a sound node
	}{
		"nothing special":            {"", signedNode, nil},
		"what every image has":       {"", signedNode + "kernelArgs: " + metalArgs + " console=tty0\n", nil},
		"signed with the schematic":  {withArgs, signedNode + "kernelArgs: console=ttyS0,115200 net.ifnames=0\n", nil},
		"one that is not":            {withArgs, signedNode + "kernelArgs: net.ifnames=0 quiet\n", []string{"c/n1.yaml:3:13: ", "n1 has secureBoot, and its signed image ignores the kernel arguments quiet;", "put it into the schematic's extraKernelArgs"}},
		"the schematic is not known": {"schematicID: " + schematic + "\n", signedNode + "kernelArgs: net.ifnames=0\n", []string{"arguments net.ifnames=0;", "write the schematic itself in place of schematicID"}},
		"from a _defaults.yaml":      {"kernelArgs: quiet\n", signedNode, []string{"_defaults.yaml:1:13: ", "n1 has secureBoot", "arguments quiet;"}},
		"an address and a bond":      {"", signedNode + "kernelArgs: ip=10.0.0.2::10.0.0.1:255.255.255.0:n::off bond=bond0:eth0,eth1 quiet quiet\n", []string{"bond=bond0:eth0,eth1 quiet;", "let DHCP give the address", "meta, key 0x0a", "extraKernelArgs"}},
		"a machine config":           {"", signedNode + "kernelArgs: talos.config=http://c/?token=hunter2\n", []string{"arguments talos.config=…; apply the machine config to the node"}},
		"another value":              {"", signedNode + "kernelArgs: pti=off\n", []string{"pti=off"}},

		"a vlan":                        {"", signedNode + "vlan: 7\n", []string{"c/n1.yaml:3:7: ", "ignores the argument vlan=, so that it would come up without vlan 7;", "unset it with \"vlan: null\""}},
		"a vlan from above":             {"vlan: 7\ninterface: e\n", signedNode + "ip: 10.0.0.2\nnetmask: 24\n", []string{"_defaults.yaml:1:7: ", "without vlan 7"}},
		"a vlan, unset":                 {"vlan: 7\n", signedNode + "vlan: null\n", nil},
		"a vlan in the image":           {withNetwork, signedNode + "vlan: 7\n", nil},
		"legacy mode":                   {"bmc: {bootMode: legacy}\n", signedNode, []string{"_defaults.yaml:1:17: ", "which is a thing of UEFI, but boots in legacy mode;", "set bmc.bootMode to uefi"}},
		"no name":                       {"", "secureBoot: true\nserial: S1\nboardSerial: B1\n", []string{"c/n1.yaml:1:13: ", "neither mac nor uuid, by which its firmware is told from others when it asks for its image;", "give it a mac or a uuid", "virtual-media"}},
		"no name, secureBoot for all":   {"secureBoot: true\n", "serial: S1\n", []string{"_defaults.yaml:1:13: ", "n1 has secureBoot, but neither mac nor uuid"}},
		"no name, by a virtual medium":  {"", "secureBoot: true\nserial: S1\nbmc: {boot: virtual-media}\n", nil},
		"a uuid":                        {"", "secureBoot: true\nuuid: 4c4c4544-0042-4310-8031-b2c04f333334\n", nil},
		"an address with a reservation": {"", signedNode + "ip: 10.0.0.2\nnetmask: 24\n", nil},
		"an address without one":        {"", "secureBoot: true\nuuid: 4c4c4544-0042-4310-8031-b2c04f333334\nip: 10.0.0.2\nnetmask: 24\n", []string{"c/n1.yaml:3:5: warning: ", "it gets 10.0.0.2 only if DHCP gives it;", "give it a mac"}},
		"an address in the image":       {withNetwork, "secureBoot: true\nuuid: 4c4c4544-0042-4310-8031-b2c04f333334\nip: 10.0.0.2\nnetmask: 24\n", nil},

		"all of it without secureBoot": {"", "secureBoot: false\nserial: S1\nkernelArgs: quiet\nbmc: {bootMode: legacy}\nvlan: 7\ninterface: e\nip: 10.0.0.2\nnetmask: 24\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, findings := load(t, tree(t, map[string]string{"_defaults.yaml": tc.defaults, "c/n1.yaml": tc.node}))
			if (len(findings) == 0) != (tc.want == nil) || len(findings) > 1 {
				t.Fatalf("found:\n%s", findings)
			}
			for _, want := range tc.want {
				if text := findings[0].String(); !strings.Contains(text, want) || strings.Contains(text, "hunter2") {
					t.Errorf("found %q, want one with %q", text, want)
				}
			}
		})
	}
}

// A part of the file that could not be read may be the mac.
func TestAMistypedMACIsNotAMissingOne(t *testing.T) {
	t.Parallel()
	_, findings := load(t, tree(t, map[string]string{"c/n1.yaml": "secureBoot: true\nmaac: 0c:c4:7a:00:00:01\n"}))
	if len(findings) != 1 || findings[0].Rule != inventory.RuleUnknownKey {
		t.Errorf("found:\n%s", findings)
	}
}

// The image has its arguments inside: none are asked of the inventory, and none
// are handed over.
func TestASignedImageNeedsAndGetsNoArguments(t *testing.T) {
	t.Parallel()
	loaded := clean(t, map[string]string{
		"c/n1.yaml": signedNode + "install: true\nschematicID: " + schematic + "\ntalosVersion: v1.13.9\nip: 10.0.0.2\nnetmask: 24\ngateway: 10.0.0.1\n",
	})
	n := node(t, loaded, "n1")
	if line, err := n.KernelCommandLine(); !n.SecureBoot || line != "" || err != nil {
		t.Errorf("secureBoot %v, command line %q, error %v", n.SecureBoot, line, err)
	}
}
