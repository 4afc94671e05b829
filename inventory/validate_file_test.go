package inventory_test

import (
	"strings"
	"testing"
)

const (
	ways         = "bmc.passwordEnv, the name of an environment variable, bmc.passwordFile, the path of a file, or bmc.passwordCommand, a program that prints it"
	passwordHint = "remove it and change the password, since it may be in the history of the files; then give " + ways
	bootable     = "serial: S1\nschematicID: " + schematic + "\ntalosVersion: v1.9.5\nkernelArgs: " + metalArgs + "\n"
)

// fileCase is one file and what a person reads of it. The schema of the
// inventory must refuse it too, unless it says why it cannot: a single value is
// fine and only wrong among others, or YAML keeps something from a schema.
type fileCase struct{ content, want string }

// fileCases are wrong in what one file can show.
var fileCases = map[string]fileCase{
	"unknown key in bmc":                    {"bmc: {addresss: 10.0.0.1}", "1:7: error: unknown key bmc.addresss; did you mean bmc.address?"},
	"unknown key, near none":                {"colour: red", "1:1: error: unknown key colour; the keys here are arch, bmc, boardSerial, cluster, configPatches, dns0, dns1, gateway, install, interface, ip, kernelArgs, labels, localBoot, mac, machineConfig, macs, netmask, ntp, schematic, schematicID, secureBoot, serial, talosVersion, talosconfig, uuid, vlan"},
	"key of a section":                      {"passwordEnv: BMC_PASSWORD", "1:1: error: unknown key passwordEnv; did you mean bmc.passwordEnv? Write passwordEnv below bmc:"},
	"dotted key":                            {"bmc.address: 10.0.0.1", "1:1: error: unknown key bmc.address; did you mean bmc.address? Write address below bmc:"},
	"key outside of bmc":                    {"bmc: {vlan: 1}", "1:7: error: unknown key bmc.vlan; did you mean vlan? It belongs outside of bmc"},
	"hostname key":                          {"hostname: n2", "1:1: error: unknown key hostname; a node's hostname is the name of its file"},
	"merge key":                             {"bmc: &b {insecure: true}\n<<: *b", "2:1: error: unknown key <<; merge keys are not read: put shared values into a _defaults.yaml, or write them out"},
	"password in clear":                     {"bmc:\n  password: hunter2", "2:3: error: bmc.password: passwords are not written in the inventory; " + passwordHint},
	"password at the top":                   {"Password: hunter2", "1:1: error: Password: passwords are not written in the inventory; " + passwordHint},
	"password in the address":               {"bmc: {address: 'https://root:hunter2@bmc-1'}", "1:16: error: bmc.address contains a user or a password, which do not belong there; give bmc.username, and " + ways},
	"password as variable":                  {"bmc: {passwordEnv: 'hunter2!'}", "1:20: error: bmc.passwordEnv is not the name of an environment variable; give the variable's name, like BMC_PASSWORD, and the password in the environment"},
	"two passwords":                         {"bmc: {address: b, passwordEnv: P, passwordFile: /p}", "1:49: error: n1 has both bmc.passwordEnv (c/n1.yaml:1) and bmc.passwordFile; unset one, for example with \"passwordEnv: null\""},
	"no password":                           {"bmc: {address: b}", "1:16: warning: n1 has a BMC, but no way to its password; give " + ways},
	"BMC without TLS":                       {"bmc: {address: 'http://bmc-1', passwordEnv: P}", "1:16: error: bmc.address does not use HTTPS, so that the password would travel in the clear; write it like 10.0.0.11, bmc-01.example.com:443 or https://10.0.0.11"},
	"BMC with a path":                       {"bmc: {address: bmc-1/redfish, passwordEnv: P}", "1:16: error: bmc.address has a path after the host; write it like 10.0.0.11, bmc-01.example.com:443 or https://10.0.0.11"},
	"BMC address":                           {"bmc: {address: 'b m c', passwordEnv: P}", "1:16: error: bmc.address is not an address; write it like 10.0.0.11, bmc-01.example.com:443 or https://10.0.0.11"},
	"bootMode":                              {"bmc: {bootMode: UEFI}", "1:17: error: bmc.bootMode \"UEFI\" is not known; write uefi or legacy"},
	"arch":                                  {"arch: x86_64", "1:7: error: arch \"x86_64\" is not known; write amd64 or arm64"},
	"list for a value":                      {"ip: [10.0.0.1]", "1:5: error: ip must be one value, not a list; write it on one line, without brackets"},
	"mapping for a value":                   {"ip: {v4: 10.0.0.1}", "1:5: error: ip must be one value, not a mapping; write it on one line, without brackets"},
	"value for a list":                      {"macs: 0c:c4:7a:00:00:01", "1:7: error: macs must be a list, not the text \"0c:c4:7a:00:00:01\"; write \"- \" before each of its values, or [a, b]"},
	"value for a section":                   {"bmc: 10.0.0.1", "1:6: error: bmc must be a mapping; write its keys below it, indented"},
	"empty item":                            {"macs:\n- 0c:c4:7a:00:00:01\n-\n", "3:2: error: macs has an empty item; remove the item"},
	"label":                                 {"labels: {a: [b]}", "1:13: error: labels.a must be one value, not a list; write it on one line, without brackets"},
	"tag":                                   {"serial: !vault abc", "1:9: error: serial has the tag !vault; tags are not read: write the plain value"},
	"key twice":                             {"ip: null\nserial: A1\nip: null", "3:1: error: ip is given twice; remove it here or in line 1"},
	"key that is no word":                   {"? [a]\n: b", "1:3: error: a key is not a word; write lines like \"serial: ABC123\""},
	"yes is no boolean":                     {"install: yes", "1:10: error: install must be true or false, not the text \"yes\"; write true or false without quotes"},
	"ip":                                    {"ip: 192.168.001.1\nnetmask: 24", "1:5: error: ip \"192.168.001.1\" is not an IP address; write it like 192.168.100.1 or fd00::1, without a mask"},
	"ip with a mask":                        {"ip: 192.168.1.1/24\nnetmask: 24", "1:5: error: ip \"192.168.1.1/24\" is not an IP address; write it like 192.168.100.1 or fd00::1, without a mask"},
	"ip without netmask":                    {"ip: 10.0.0.1", "1:5: error: n1 has an ip but no netmask; set netmask, here or in a _defaults.yaml"},
	"network address":                       {"ip: 10.0.0.0\nnetmask: 24", "1:5: error: ip 10.0.0.0 of n1 is the address of the network 10.0.0.0/24 itself; give the node another address"},
	"broadcast address":                     {"ip: 10.0.1.255\nnetmask: 255.255.254.0", "1:5: error: ip 10.0.1.255 of n1 is the broadcast address of 10.0.0.0/23; give the node another address"},
	"netmask":                               {"netmask: 255.255.0.255", "1:10: error: netmask \"255.255.0.255\" is not a netmask; write it like 255.255.255.0 or 24"},
	"netmask of IPv6":                       {"ip: 10.0.0.1\nnetmask: 64", "2:10: error: n1 has netmask 64, which does not fit ip 10.0.0.1; write a netmask of the same kind as ip"},
	"gateway":                               {"gateway: router", "1:10: error: gateway \"router\" is not an IP address; write it like 192.168.100.1 or fd00::1, without a mask"},
	"gateway of IPv6":                       {"ip: 10.0.0.1\nnetmask: 24\ngateway: fd00::1", "3:10: error: n1 has gateway fd00::1, which does not fit ip 10.0.0.1; write a gateway of the same kind as ip"},
	"vlan":                                  {"vlan: 4095\nip: 10.0.0.1\nnetmask: 24\ninterface: e", "1:7: error: vlan \"4095\" is not a VLAN; write a number from 1 to 4094"},
	"vlan with zeros":                       {"vlan: 0100\nip: 10.0.0.1\nnetmask: 24\ninterface: e", "1:7: error: vlan \"0100\" is not a VLAN; write a number from 1 to 4094"},
	"vlan without interface":                {"vlan: 10\nip: 10.0.0.1\nnetmask: 24", "1:7: error: n1 has a vlan but no interface; set interface, here or in a _defaults.yaml"},
	"vlan without ip":                       {"vlan: 10\ninterface: ens1", "1:7: warning: n1 has a vlan but no ip: it boots with DHCP and without the vlan; set ip, or unset vlan with \"vlan: null\""},
	"long vlan interface":                   {"vlan: 1234\nip: 10.0.0.1\nnetmask: 24\ninterface: enp129s0f0np0", "1:7: warning: the vlan interface enp129s0f0np0.1234 of n1 is longer than the 15 characters that Linux takes; use a shorter name of the interface, like enx0cc47a000001 without a vlan, or net.ifnames=0 and eth0"},
	"interface":                             {"interface: ens1:0", "1:12: error: interface \"ens1:0\" is not a network interface; write the name that Linux gives it, like ens1 or enx0cc47a000001"},
	"dns":                                   {"dns1: dns.example.com", "1:7: error: dns1 \"dns.example.com\" is not an IP address; write it like 192.168.100.1 or fd00::1, without a mask"},
	"ntp":                                   {"ntp: 'a:b c'", "1:6: error: ntp \"a:b c\" is neither a hostname nor an IP address; write it like fr.pool.ntp.org or 192.168.100.1"},
	"schematic":                             {"schematicID: 376567988AD3", "1:14: error: schematicID \"376567988AD3\" is not a schematic ID; copy the 64 lower-case hex digits that the Image Factory shows"},
	"version":                               {"talosVersion: 1.9", "1:15: error: talosVersion \"1.9\" is not a Talos version; write it like v1.13.9"},
	"siderolink":                            {"kernelArgs: pti=on siderolink.api=https://omni", "1:13: error: kernelArgs contains siderolink.api=; remove it: a node that joins Omni never shows the maintenance API that confirms it"},
	"control character":                     {"kernelArgs: \"a\\eb\"", "1:13: error: kernelArgs contains a control character; remove it"},
	"long command line":                     {"kernelArgs: " + strings.Repeat("x", 4097), "1:13: error: kernel command line of n1 has 4097 bytes, the kernel takes 4096: shorten kernelArgs"},
	"board serial":                          {"boardSerial: 0123456789", "1:14: error: boardSerial \"0123456789\" is a placeholder that many machines share and identifies nothing; remove it, and give the node another serial, a uuid, a mac or a bmc.address"},
	"long serial":                           {"serial: " + strings.Repeat("ab", 200), "1:9: error: serial of 400 bytes is too long for a serial; copy it from the machine's label or its BMC"},
	"uuid":                                  {"uuid: abc", "1:7: error: uuid \"abc\" is not a UUID; write it like 4c4c4544-0042-4310-8031-b2c04f333334"},
	"placeholder uuid":                      {"uuid: ffffffff-ffff-ffff-ffff-ffffffffffff", "1:7: error: uuid \"ffffffff-ffff-ffff-ffff-ffffffffffff\" is a placeholder that many machines share and identifies nothing; remove it, and give the node a serial, a boardSerial, a mac or a bmc.address"},
	"mac":                                   {"macs: [0c:c4:7a:00:00:0g]", "1:8: error: macs \"0c:c4:7a:00:00:0g\" is not the MAC of one network card; write it like 0c:c4:7a:00:00:01"},
	"cluster":                               {"cluster: a/b", "1:10: error: cluster \"a/b\" is not a cluster's name; write a name without spaces and slashes"},
	"nothing identifies it":                 {"install: true\nschematicID: " + schematic + "\ntalosVersion: v1.9.5\nkernelArgs: " + metalArgs, "1:10: error: n1 is marked install, but nothing identifies its machine; give it a bmc.address, serial, boardSerial, uuid or mac"},
	"no schematic":                          {"serial: S1\ntalosVersion: v1.9.5\ninstall: true\nkernelArgs: " + metalArgs, "3:10: error: n1 is marked install, but has no schematicID or schematic; set it, here or in a _defaults.yaml"},
	"no version":                            {"serial: S1\nschematicID: " + schematic + "\ninstall: true", "3:10: error: n1 is marked install, but has no talosVersion; set it, here or in a _defaults.yaml"},
	"all is well":                           {bootable + "install: true\nbmc: {address: '[fd00::1]:443', passwordFile: /run/p, bootMode: legacy, caFile: /ca, system: '1', username: a, insecure: false}\n", ""},
	"a bare IPv6 BMC":                       {"bmc: {address: 'fd00::1', passwordEnv: P}", ""},
	"gateway outside /32":                   {"ip: 10.0.0.1\nnetmask: 32\ngateway: 172.16.0.1", ""},
	"link-local gateway":                    {"ip: fd00::2\nnetmask: 64\ngateway: fe80::1", ""},
	"a release candidate":                   {"talosVersion: v1.14.0-rc.1", ""},
	"password with a prefix":                {"bmc: {adminPassword: hunter2}", "1:7: error: bmc.adminPassword: passwords are not written in the inventory; " + passwordHint},
	"password as a label":                   {"labels: {ipmi_password: hunter2}", "1:10: error: labels.ipmi_password: passwords are not written in the inventory; " + passwordHint},
	"password in the command":               {"bmc: {passwordCommand: echo hunter2}", "1:24: error: bmc.passwordCommand prints a password that is written here; remove it and change the password; then give " + ways},
	"password in talos.config":              {"kernelArgs: talos.config=https://u:hunter2@c.example/", "1:13: error: kernelArgs has a user or a password in talos.config=; remove it and change the password: kernel arguments are given to everybody in the provisioning network"},
	"key near the password's":               {"bmc: {passwordEnvs: P}", "1:7: error: unknown key bmc.passwordEnvs; did you mean bmc.passwordEnv?"},
	"empty command":                         {"bmc: {passwordCommand: []}", "1:24: error: bmc.passwordCommand is empty; write a program and its arguments, like [pass, show, bmc/rack-1]"},
	"command of mappings":                   {"bmc: {passwordCommand: [{a: b}]}", "1:25: error: bmc.passwordCommand must be one value, not a mapping; write it on one line, without brackets"},
	"three passwords":                       {"bmc: {address: b, passwordEnv: P, passwordCommand: pass show b}", "1:52: error: n1 has both bmc.passwordEnv (c/n1.yaml:1) and bmc.passwordCommand; unset one, for example with \"passwordEnv: null\""},
	"boot":                                  {"bmc: {boot: http}", "1:13: error: bmc.boot \"http\" is not known; write pxe or uefi-http or virtual-media"},
	"fingerprint":                           {"bmc: {fingerprint: abc}", "1:20: error: bmc.fingerprint \"abc\" is not a fingerprint; write the SHA-256 of the certificate's public key, 64 hex digits or 44 characters of base64"},
	"legacyTLS":                             {"bmc: {legacyTLS: 1}", "1:18: error: bmc.legacyTLS must be true or false, not the text \"1\"; write true or false without quotes"},
	"a machine config in place of its path": {"machineConfig: |\n  machine:\n    token: hunter2\n", "1:16: error: machineConfig holds several lines of text; write them to a file and give its path here"},
	"a patch in place of its path":          {"configPatches:\n- |\n  machine:\n    token: hunter2\n", "2:3: error: configPatches holds several lines of text; write them to a file and give its path here"},
	"a path with spaces around it":          {"talosconfig: ' a'", "1:14: error: talosconfig \" a\" is not a path; write the path of a file, without spaces around it"},
	"version too old":                       {"talosVersion: v1.8.4", "1:15: error: talosVersion \"v1.8.4\" is not supported; write a version from v1.9 to v1.14"},
	"version too new":                       {"talosVersion: v2.9.0", "1:15: error: talosVersion \"v2.9.0\" is not supported; write a version from v1.9 to v1.14"},
	"variable in the path":                  {"kernelArgs: talos.config=https://c.example/${uuid}/c.yaml", "1:13: error: kernelArgs has a variable in the path of talos.config=, where Talos does not replace it; put it into the query, like http://10.0.0.1/config?uuid=${uuid}"},
	"unknown variable":                      {"kernelArgs: talos.config=https://c.example/?a=${asset}", "1:13: error: kernelArgs has the variable \"${asset}\" in talos.config=, which Talos does not know; Talos knows ${uuid}, ${serial}, ${mac}, ${hostname}, ${code}"},
	"talos.config by TFTP":                  {"kernelArgs: talos.config=tftp://c.example/c", "1:13: error: kernelArgs has a talos.config= that is neither an HTTP URL nor metal-iso; write talos.config=https://HOST/PATH or talos.config=metal-iso"},
	"talos.config is sound":                 {"kernelArgs: talos.config=https://c.example/?u=${uuid}&m=${MAC}", ""},
	"variable of iPXE":                      {"kernelArgs: hostname=${net0/mac}", "1:13: error: kernelArgs contains \"hostname=${net0/mac}\", in which iPXE would replace ${; write the value itself"},
	"operator of iPXE":                      {"kernelArgs: a || b", "1:13: error: kernelArgs contains \"||\", which ends the command in iPXE; remove it"},
	"comment of iPXE":                       {"kernelArgs: 'a #b'", "1:13: error: kernelArgs contains \"#b\", which begins a comment in iPXE; remove it"},
	"letters that are not ASCII":            {"kernelArgs: a=é", "1:13: error: kernelArgs contains \"é\", which does not reach the kernel; write it in ASCII"},
	"missing argument":                      {bootable + "install: true\nlabels: {a: b}\n---\n", ""},
	"no pti":                                {"serial: S1\nschematicID: " + schematic + "\ntalosVersion: v1.9.5\ninstall: true\nkernelArgs: talos.platform=metal slab_nomerge= pti=off pti=on", "5:13: error: Talos v1.9.5 does not boot on metal without pti=on; add it to kernelArgs, here or in a _defaults.yaml"},
	"no kernelArgs":                         {"serial: S1\nschematicID: " + schematic + "\ntalosVersion: v1.14.0\ninstall: true", "4:10: error: n1 is marked install, but Talos v1.14.0 does not boot on metal without talos.platform=metal, slab_nomerge and pti=on; add them to kernelArgs, here or in a _defaults.yaml"},
	"no kernelArgs, not to install":         {"serial: S1\ntalosVersion: v1.14.0", ""},
	"command line with the boot loader's":   {"kernelArgs: " + strings.Repeat("x", 4080), "1:13: error: kernel command line of n1 has 4080 bytes, and with the 21 of the boot loader more than the 4096 that the kernel takes: shorten kernelArgs"},
	"all of the BMC":                        {"bmc: {address: b, boot: virtual-media, passwordCommand: [pass, show, b], legacyTLS: true, fingerprint: '0yLxDTFKw1Q6RyHtGzdTUjgFrT6Sk6cqFxQHhTxC2vU='}", ""},
	"fingerprint in hex":                    {"bmc: {fingerprint: 'D3:22:f1:0d314ac3543a4721ed1b3753523805ad3e9293a72a171407853c42daf5'}", ""},
}

func TestFindingsInOneFile(t *testing.T) {
	t.Parallel()
	for name, test := range fileCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, findings := load(t, tree(t, map[string]string{"c/n1.yaml": test.content}))
			if test.want == "" {
				says(t, findings)
			} else {
				says(t, findings, "c/n1.yaml:"+test.want)
			}
			if strings.Contains(findings.String(), "hunter2") {
				t.Errorf("a finding repeats a password (I9): %s", findings)
			}
		})
	}
}
