package inventory_test

import (
	"strings"
	"testing"
)

const defaults = "netmask: 255.255.255.0\ngateway: 10.0.0.254\nschematicID: " + schematic + "\ntalosVersion: v1.9.5\ninterface: ens1\n"

// T13: one report names file, line and column of everything that is wrong.
func TestT13OneReportForAll(t *testing.T) {
	t.Parallel()
	loaded, findings := load(t, tree(t, map[string]string{
		"_defaults.yaml":     defaults,
		"dev/_defaults.yaml": "",
		"dev/n1.yaml":        "serial: SN0001\nip: 10.0.0.1\ninstall: true\n",
		"dev/n2.yaml":        "serial: To Be Filled By O.E.M.\nip: 10.0.0.1\n",
		"dev/n3.yaml":        "serial: \"SN0003 \"\nip: 10.0.0.254\n",
		"dev/n4.yaml":        "serial: 0123\nip: 10.0.1.4\n",
		"dev/n5.yaml":        "serial: 1e5\ninstall: \"no\"\n",
		"prod/n6.yaml":       "ip: 10.0.0.6\nserail: SN0006\ninstall: true\n",
		"prod/n7.yaml":       "ip: 10.0.0.7\nserial: sn0001\n",
	}))
	says(t, findings,
		"dev/n1.yaml:1:9: error: serial SN0001 of n1 is also that of n7 (prod/n7.yaml:2); give each of them boardSerial, uuid, mac or bmc.address, or correct one",
		"dev/n1.yaml:2:5: error: ip 10.0.0.1 of n1 is also that of n2 (dev/n2.yaml:2); give each node its own address",
		`dev/n2.yaml:1:9: error: serial "To Be Filled By O.E.M." is a placeholder that many machines share and identifies nothing; remove it, and give the node another serial, a uuid, a mac or a bmc.address`,
		"dev/n2.yaml:2:5: error: ip 10.0.0.1 of n2 is also that of n1 (dev/n1.yaml:2); give each node its own address",
		`dev/n3.yaml:1:9: warning: serial "SN0003 " has spaces around it, which are ignored; remove them`,
		"dev/n3.yaml:2:5: warning: n3 has the address of its gateway, 10.0.0.254; give the node its own address, if another machine is the gateway",
		"dev/n4.yaml:2:5: error: ip 10.0.1.4 of n4 and gateway 10.0.0.254 are not in one network of netmask 255.255.255.0; correct ip, netmask (_defaults.yaml:1) or gateway (_defaults.yaml:2)",
		`dev/n5.yaml:2:10: error: install must be true or false, not the text "no"; write true or false without quotes`,
		"prod/n6.yaml:2:1: error: unknown key serail; did you mean serial?",
		"prod/n7.yaml:2:9: error: serial sn0001 of n7 is also that of n1 (dev/n1.yaml:1); give each of them boardSerial, uuid, mac or bmc.address, or correct one",
	)
	for name, serial := range map[string]string{"n4": "0123", "n5": "1e5", "n3": "SN0003 "} {
		if got := node(t, loaded, name).Serial; got != serial {
			t.Errorf("%s has serial %q, want %q", name, got, serial)
		}
	}
}

func TestATimeServerByNameIsWarnedOfOnceForAllNodes(t *testing.T) {
	t.Parallel()
	_, findings := load(t, tree(t, map[string]string{
		"_defaults.yaml": "ntp: pool.ntp.org\nnetmask: 255.255.255.0\n",
		"a/n1.yaml":      "ip: 10.0.0.1\nserial: S1\n",
		"a/n2.yaml":      "ip: 10.0.0.2\nserial: S2\n",
		"a/n3.yaml":      "ip: 10.0.0.3\nserial: S3\nntp: 10.0.0.254\n",
		"a/n4.yaml":      "serial: S4\n", // no ip: no ip= argument
	}))
	says(t, findings, "_defaults.yaml:1:6: warning: ntp pool.ntp.org is a name: Talos would ignore the ip= and vlan= arguments altogether and ask DHCP for an address; "+
		`write the address of a time server, or unset ntp with "ntp: null"`)
}

func TestDuplicateSerials(t *testing.T) {
	t.Parallel()
	const isError = "; give each of them boardSerial, uuid, mac or bmc.address, or correct one"
	both := func(severity, hint string) []string {
		return []string{
			"a/n1.yaml:1:9: " + severity + ": serial S1 of n1 is also that of n2 (b/n2.yaml:1)" + hint,
			"b/n2.yaml:1:9: " + severity + ": serial S1 of n2 is also that of n1 (a/n1.yaml:1)" + hint,
		}
	}
	tests := map[string]struct {
		n1, n2 string
		want   []string
	}{
		"nothing else":                       {"", "", both("error", isError)},
		"different board serials":            {"boardSerial: B1\n", "boardSerial: B2\n", nil},
		"a board serial and a MAC":           {"boardSerial: B1\n", "mac: 0c:c4:7a:00:00:02\n", nil},
		"different UUIDs":                    {"uuid: 00000000-0000-0000-0000-0cc47a000001\n", "uuid: 00000000-0000-0000-0000-0cc47a000002\n", nil},
		"one has nothing of its own":         {"boardSerial: B1\n", "", both("error", isError)},
		"BMCs report what tells them apart":  {"bmc: {address: 10.0.0.1}\n", "bmc: {address: 10.0.0.2}\n", nil},
		"one has a BMC, the other has a MAC": {"bmc: {address: 10.0.0.1}\n", "mac: 0c:c4:7a:00:00:02\n", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, findings := load(t, tree(t, map[string]string{
				"_defaults.yaml": "bmc: {passwordEnv: BMC_PASSWORD}\n",
				"a/n1.yaml":      "serial: S1\n" + test.n1, "b/n2.yaml": "serial: S1\n" + test.n2,
			}))
			says(t, findings, test.want...)
		})
	}
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		files map[string]string
		want  []string
	}{
		"IPs in two notations": {
			map[string]string{"a/n1.yaml": "netmask: 64\nip: fd00::1\n", "b/n2.yaml": "netmask: 64\nip: fd00:0::1\n"},
			[]string{
				"a/n1.yaml:2:5: error: ip fd00::1 of n1 is also that of n2 (b/n2.yaml:2); give each node its own address",
				"b/n2.yaml:2:5: error: ip fd00:0::1 of n2 is also that of n1 (a/n1.yaml:2); give each node its own address",
			},
		},
		"IPs of five nodes": {
			map[string]string{
				"_defaults.yaml": "netmask: 24\n", "a/n1.yaml": "ip: 10.0.0.1", "a/n2.yaml": "ip: 10.0.0.1", "a/n3.yaml": "ip: 10.0.0.1",
				"a/n4.yaml": "ip: 10.0.0.1", "a/n5.yaml": "ip: 10.0.0.1",
			},
			[]string{
				"a/n1.yaml:1:5: error: ip 10.0.0.1 of n1 is also that of n2 (a/n2.yaml:1), n3 (a/n3.yaml:1), n4 (a/n4.yaml:1) and more; give each node its own address",
				"a/n2.yaml:1:5: error: ip 10.0.0.1 of n2 is also that of n1 (a/n1.yaml:1), n3 (a/n3.yaml:1), n4 (a/n4.yaml:1) and more; give each node its own address",
				"a/n3.yaml:1:5: error: ip 10.0.0.1 of n3 is also that of n1 (a/n1.yaml:1), n2 (a/n2.yaml:1), n4 (a/n4.yaml:1) and more; give each node its own address",
				"a/n4.yaml:1:5: error: ip 10.0.0.1 of n4 is also that of n1 (a/n1.yaml:1), n2 (a/n2.yaml:1), n3 (a/n3.yaml:1) and more; give each node its own address",
				"a/n5.yaml:1:5: error: ip 10.0.0.1 of n5 is also that of n1 (a/n1.yaml:1), n2 (a/n2.yaml:1), n3 (a/n3.yaml:1) and more; give each node its own address",
			},
		},
		"an IP of the defaults": {
			map[string]string{"_defaults.yaml": "netmask: 24\nip: 10.0.0.1\n", "a/n1.yaml": "", "a/n2.yaml": ""},
			[]string{"_defaults.yaml:2:5: error: ip gives one value to n1 and n2; give each node its own address"},
		},
		"hostnames of one cluster": {
			map[string]string{"a/x/n1.yaml": "", "a/y/n1.yaml": "", "b/n1.yaml": ""},
			[]string{
				"a/x/n1.yaml: error: the hostname n1 is also that of a/y/n1.yaml; rename one of the files",
				"a/y/n1.yaml: error: the hostname n1 is also that of a/x/n1.yaml; rename one of the files",
			},
		},
		"board serials": {
			map[string]string{"a/n1.yaml": "boardSerial: B1", "a/n2.yaml": "boardSerial: \"b1\""},
			[]string{
				"a/n1.yaml:1:14: error: boardSerial B1 of n1 is also that of n2 (a/n2.yaml:1); a board is one machine: correct one of them",
				"a/n2.yaml:1:14: error: boardSerial b1 of n2 is also that of n1 (a/n1.yaml:1); a board is one machine: correct one of them",
			},
		},
		"a serial that is another's board serial": {
			map[string]string{"a/n1.yaml": "serial: B1", "a/n2.yaml": "boardSerial: B1", "a/n3.yaml": "serial: B3\nboardSerial: B3"},
			[]string{"a/n1.yaml:1:9: error: serial B1 of n1 is the boardSerial of n2 (a/n2.yaml:1); a board is one machine: correct one of them"},
		},
		"UUIDs in both byte orders": {
			map[string]string{"a/n1.yaml": "uuid: 005CB4E7-0989-EB11-8000-7CC255000001", "a/n2.yaml": "uuid: e7b45c00-8909-11eb-8000-7cc255000001"},
			[]string{
				"a/n1.yaml:1:7: error: uuid 005CB4E7-0989-EB11-8000-7CC255000001 of n1 is also that of n2 (a/n2.yaml:1); correct one of them, or remove both if the machines really share it",
				"a/n2.yaml:1:7: error: uuid e7b45c00-8909-11eb-8000-7cc255000001 of n2 is also that of n1 (a/n1.yaml:1); correct one of them, or remove both if the machines really share it",
			},
		},
		"MACs": {
			map[string]string{"a/n1.yaml": "mac: 0c:c4:7a:00:00:01", "a/n2.yaml": "macs:\n- 0cc4.7a00.0002\n- 0C-C4-7A-00-00-01\n"},
			[]string{
				"a/n1.yaml:1:6: error: mac 0c:c4:7a:00:00:01 of n1 is also that of n2 (a/n2.yaml:2); a network card is in one machine: correct one of them",
				"a/n2.yaml:2:1: error: mac 0c:c4:7a:00:00:01 of n2 is also that of n1 (a/n1.yaml:1); a network card is in one machine: correct one of them",
			},
		},
		"BMC addresses": {
			map[string]string{
				"_defaults.yaml": "bmc: {passwordEnv: P}\n",
				"a/n1.yaml":      "bmc: {address: \"https://BMC-1:443/\"}", "a/n2.yaml": "bmc: {address: bmc-1}",
				"a/n3.yaml": "bmc: {address: bmc-1:8443}", "a/n4.yaml": "bmc: {address: bmc-1, system: System_1}",
			},
			[]string{
				"a/n1.yaml:1:16: error: bmc.address https://BMC-1:443/ of n1 is also that of n2 (a/n2.yaml:1); correct one of them, or set bmc.system if one BMC serves several systems",
				"a/n2.yaml:1:16: error: bmc.address bmc-1 of n2 is also that of n1 (a/n1.yaml:1); correct one of them, or set bmc.system if one BMC serves several systems",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, findings := load(t, tree(t, test.files))
			says(t, findings, test.want...)
		})
	}
}

// Each rule for one file, with the report that a person reads.
func TestFindingsInOneFile(t *testing.T) {
	t.Parallel()
	const (
		passwordHint = "remove it and change the password, since it may be in the history of the files; then give bmc.passwordEnv, " +
			"the name of an environment variable, or bmc.passwordFile, the path of a file"
		bootable = "serial: S1\nschematicID: " + schematic + "\ntalosVersion: v1.9.5\n"
	)
	tests := map[string]struct{ content, want string }{
		"unknown key in bmc":      {"bmc: {addresss: 10.0.0.1}", "1:7: error: unknown key bmc.addresss; did you mean bmc.address?"},
		"unknown key, near none":  {"colour: red", "1:1: error: unknown key colour; the keys here are arch, bmc, boardSerial, cluster, dns0, dns1, gateway, install, interface, ip, kernelArgs, labels, mac, macs, netmask, ntp, schematicID, serial, talosVersion, uuid, vlan"},
		"key of a section":        {"passwordEnv: BMC_PASSWORD", "1:1: error: unknown key passwordEnv; did you mean bmc.passwordEnv? Write passwordEnv below bmc:"},
		"dotted key":              {"bmc.address: 10.0.0.1", "1:1: error: unknown key bmc.address; did you mean bmc.address? Write address below bmc:"},
		"key outside of bmc":      {"bmc: {vlan: 1}", "1:7: error: unknown key bmc.vlan; did you mean vlan? It belongs outside of bmc"},
		"hostname key":            {"hostname: n2", "1:1: error: unknown key hostname; a node's hostname is the name of its file"},
		"merge key":               {"bmc: &b {insecure: true}\n<<: *b", "2:1: error: unknown key <<; merge keys are not read: put shared values into a _defaults.yaml, or write them out"},
		"password in clear":       {"bmc:\n  password: hunter2", "2:3: error: bmc.password: passwords are not written in the inventory; " + passwordHint},
		"password at the top":     {"Password: hunter2", "1:1: error: Password: passwords are not written in the inventory; " + passwordHint},
		"password in the address": {"bmc: {address: 'https://root:hunter2@bmc-1'}", "1:16: error: bmc.address contains a user or a password, which do not belong there; give bmc.username, and bmc.passwordEnv or bmc.passwordFile"},
		"password as variable":    {"bmc: {passwordEnv: 'hunter2!'}", "1:20: error: bmc.passwordEnv is not the name of an environment variable; give the variable's name, like BMC_PASSWORD, and the password in the environment"},
		"two passwords":           {"bmc: {address: b, passwordEnv: P, passwordFile: /p}", "1:49: error: n1 has both bmc.passwordEnv (c/n1.yaml:1) and bmc.passwordFile; unset one, for example with \"passwordEnv: null\""},
		"no password":             {"bmc: {address: b}", "1:16: warning: n1 has a BMC, but no way to its password; give bmc.passwordEnv, the name of an environment variable, or bmc.passwordFile, the path of a file"},
		"BMC without TLS":         {"bmc: {address: 'http://bmc-1', passwordEnv: P}", "1:16: error: bmc.address does not use HTTPS, so that the password would travel in the clear; write it like 10.0.0.11, bmc-01.example.com:443 or https://10.0.0.11"},
		"BMC with a path":         {"bmc: {address: bmc-1/redfish, passwordEnv: P}", "1:16: error: bmc.address has a path after the host; write it like 10.0.0.11, bmc-01.example.com:443 or https://10.0.0.11"},
		"BMC address":             {"bmc: {address: 'b m c', passwordEnv: P}", "1:16: error: bmc.address is not an address; write it like 10.0.0.11, bmc-01.example.com:443 or https://10.0.0.11"},
		"bootMode":                {"bmc: {bootMode: UEFI}", "1:17: error: bmc.bootMode \"UEFI\" is not known; write uefi or legacy"},
		"arch":                    {"arch: x86_64", "1:7: error: arch \"x86_64\" is not known; write amd64 or arm64"},
		"list for a value":        {"ip: [10.0.0.1]", "1:5: error: ip must be one value, not a list; write it on one line, without brackets"},
		"mapping for a value":     {"ip: {v4: 10.0.0.1}", "1:5: error: ip must be one value, not a mapping; write it on one line, without brackets"},
		"value for a list":        {"macs: 0c:c4:7a:00:00:01", "1:7: error: macs must be a list, not the text \"0c:c4:7a:00:00:01\"; write \"- \" before each of its values, or [a, b]"},
		"value for a section":     {"bmc: 10.0.0.1", "1:6: error: bmc must be a mapping; write its keys below it, indented"},
		"empty item":              {"macs:\n- 0c:c4:7a:00:00:01\n-\n", "3:2: error: macs has an empty item; remove the item"},
		"label":                   {"labels: {a: [b]}", "1:13: error: labels.a must be one value, not a list; write it on one line, without brackets"},
		"tag":                     {"serial: !vault abc", "1:9: error: serial has the tag !vault; tags are not read: write the plain value"},
		"key twice":               {"ip: null\nserial: A1\nip: null", "3:1: error: ip is given twice; remove it here or in line 1"},
		"key that is no word":     {"? [a]\n: b", "1:3: error: a key is not a word; write lines like \"serial: ABC123\""},
		"yes is no boolean":       {"install: yes", "1:10: error: install must be true or false, not the text \"yes\"; write true or false without quotes"},
		"ip":                      {"ip: 192.168.001.1\nnetmask: 24", "1:5: error: ip \"192.168.001.1\" is not an IP address; write it like 192.168.100.1 or fd00::1, without a mask"},
		"ip with a mask":          {"ip: 192.168.1.1/24\nnetmask: 24", "1:5: error: ip \"192.168.1.1/24\" is not an IP address; write it like 192.168.100.1 or fd00::1, without a mask"},
		"ip without netmask":      {"ip: 10.0.0.1", "1:5: error: n1 has an ip but no netmask; set netmask, here or in a _defaults.yaml"},
		"network address":         {"ip: 10.0.0.0\nnetmask: 24", "1:5: error: ip 10.0.0.0 of n1 is the address of the network 10.0.0.0/24 itself; give the node another address"},
		"broadcast address":       {"ip: 10.0.1.255\nnetmask: 255.255.254.0", "1:5: error: ip 10.0.1.255 of n1 is the broadcast address of 10.0.0.0/23; give the node another address"},
		"netmask":                 {"netmask: 255.255.0.255", "1:10: error: netmask \"255.255.0.255\" is not a netmask; write it like 255.255.255.0 or 24"},
		"netmask of IPv6":         {"ip: 10.0.0.1\nnetmask: 64", "2:10: error: n1 has netmask 64, which does not fit ip 10.0.0.1; write a netmask of the same kind as ip"},
		"gateway":                 {"gateway: router", "1:10: error: gateway \"router\" is not an IP address; write it like 192.168.100.1 or fd00::1, without a mask"},
		"gateway of IPv6":         {"ip: 10.0.0.1\nnetmask: 24\ngateway: fd00::1", "3:10: error: n1 has gateway fd00::1, which does not fit ip 10.0.0.1; write a gateway of the same kind as ip"},
		"vlan":                    {"vlan: 4095\nip: 10.0.0.1\nnetmask: 24\ninterface: e", "1:7: error: vlan \"4095\" is not a VLAN; write a number from 1 to 4094"},
		"vlan with zeros":         {"vlan: 0100\nip: 10.0.0.1\nnetmask: 24\ninterface: e", "1:7: error: vlan \"0100\" is not a VLAN; write a number from 1 to 4094"},
		"vlan without interface":  {"vlan: 10\nip: 10.0.0.1\nnetmask: 24", "1:7: error: n1 has a vlan but no interface; set interface, here or in a _defaults.yaml"},
		"vlan without ip":         {"vlan: 10\ninterface: ens1", "1:7: warning: n1 has a vlan but no ip: it boots with DHCP and without the vlan; set ip, or unset vlan with \"vlan: null\""},
		"long vlan interface":     {"vlan: 1234\nip: 10.0.0.1\nnetmask: 24\ninterface: enp129s0f0np0", "1:7: warning: the vlan interface enp129s0f0np0.1234 of n1 is longer than the 15 characters that Linux takes; use a shorter name of the interface, like enx0cc47a000001 without a vlan, or net.ifnames=0 and eth0"},
		"interface":               {"interface: ens1:0", "1:12: error: interface \"ens1:0\" is not a network interface; write the name that Linux gives it, like ens1 or enx0cc47a000001"},
		"dns":                     {"dns1: dns.example.com", "1:7: error: dns1 \"dns.example.com\" is not an IP address; write it like 192.168.100.1 or fd00::1, without a mask"},
		"ntp":                     {"ntp: 'a:b c'", "1:6: error: ntp \"a:b c\" is neither a hostname nor an IP address; write it like fr.pool.ntp.org or 192.168.100.1"},
		"schematic":               {"schematicID: 376567988AD3", "1:14: error: schematicID \"376567988AD3\" is not a schematic ID; copy the 64 lower-case hex digits that the Image Factory shows"},
		"version":                 {"talosVersion: 1.9", "1:15: error: talosVersion \"1.9\" is not a Talos version; write it like v1.9.5"},
		"siderolink":              {"kernelArgs: pti=on siderolink.api=https://omni", "1:13: error: kernelArgs contains siderolink.api=; remove it: a node that joins Omni never shows the maintenance API that confirms it"},
		"control character":       {"kernelArgs: \"a\\eb\"", "1:13: error: kernelArgs contains a control character; remove it"},
		"long command line":       {"kernelArgs: " + strings.Repeat("x", 4097), "1:13: error: kernel command line of n1 has 4097 bytes, the kernel takes 4096: shorten kernelArgs"},
		"board serial":            {"boardSerial: 0123456789", "1:14: error: boardSerial \"0123456789\" is a placeholder that many machines share and identifies nothing; remove it, and give the node another serial, a uuid, a mac or a bmc.address"},
		"long serial":             {"serial: " + strings.Repeat("ab", 200), "1:9: error: serial of 400 bytes is too long for a serial; copy it from the machine's label or its BMC"},
		"uuid":                    {"uuid: abc", "1:7: error: uuid \"abc\" is not a UUID; write it like 4c4c4544-0042-4310-8031-b2c04f333334"},
		"placeholder uuid":        {"uuid: ffffffff-ffff-ffff-ffff-ffffffffffff", "1:7: error: uuid \"ffffffff-ffff-ffff-ffff-ffffffffffff\" is a placeholder that many machines share and identifies nothing; remove it, and give the node a serial, a boardSerial, a mac or a bmc.address"},
		"mac":                     {"macs: [0c:c4:7a:00:00:0g]", "1:8: error: macs \"0c:c4:7a:00:00:0g\" is not the MAC of one network card; write it like 0c:c4:7a:00:00:01"},
		"cluster":                 {"cluster: a/b", "1:10: error: cluster \"a/b\" is not a cluster's name; write a name without spaces and slashes"},
		"nothing identifies it":   {"install: true\nschematicID: " + schematic + "\ntalosVersion: v1.9.5", "1:10: error: n1 is marked install, but nothing identifies its machine; give it a bmc.address, serial, boardSerial, uuid or mac"},
		"no schematic":            {"serial: S1\ntalosVersion: v1.9.5\ninstall: true", "3:10: error: n1 is marked install, but has no schematicID; set it, here or in a _defaults.yaml"},
		"no version":              {"serial: S1\nschematicID: " + schematic + "\ninstall: true", "3:10: error: n1 is marked install, but has no talosVersion; set it, here or in a _defaults.yaml"},
		"all is well":             {bootable + "install: true\nbmc: {address: '[fd00::1]:443', passwordFile: /run/p, bootMode: legacy, caFile: /ca, system: '1', username: a, insecure: false}\n", ""},
		"a bare IPv6 BMC":         {"bmc: {address: 'fd00::1', passwordEnv: P}", ""},
		"gateway outside /32":     {"ip: 10.0.0.1\nnetmask: 32\ngateway: 172.16.0.1", ""},
		"link-local gateway":      {"ip: fd00::2\nnetmask: 64\ngateway: fe80::1", ""},
		"a release candidate":     {"talosVersion: v1.14.0-rc.1", ""},
	}
	for name, test := range tests {
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

func TestNamesOfFilesAndFolders(t *testing.T) {
	t.Parallel()
	_, findings := load(t, tree(t, map[string]string{
		"c/Node_01.yaml": "", "c/a.example.com.yaml": "", "c/-a.yaml": "", "lonely.yaml": "serial: S1\n", "placed.yaml": "cluster: c\n",
	}))
	const hint = "is not a hostname; name the file with lower-case letters, digits and hyphens, at most 63, like node-01.yaml"
	says(t, findings,
		`c/-a.yaml: error: "-a" `+hint,
		`c/Node_01.yaml: error: "Node_01" `+hint,
		`c/a.example.com.yaml: error: "a.example.com" `+hint,
		"lonely.yaml:1:1: error: lonely is in no cluster; move the file into a folder named after its cluster, or set cluster",
	)
}

// A mistake in the defaults of many nodes is one finding.
func TestMistakeInDefaultsIsReportedOnce(t *testing.T) {
	t.Parallel()
	_, findings := load(t, tree(t, map[string]string{
		"_defaults.yaml": "ntp: ''\nnetmask: 24\n", "c/n1.yaml": "ip: 10.0.0.1", "c/n2.yaml": "ip: 10.0.0.2", "c/n3.yaml": "install: true",
	}))
	says(t, findings,
		`_defaults.yaml:1:6: error: ntp "" is neither a hostname nor an IP address; write it like fr.pool.ntp.org or 192.168.100.1`,
		"c/n3.yaml:1:10: error: n3 is marked install, but has no schematicID; set it, here or in a _defaults.yaml",
		"c/n3.yaml:1:10: error: n3 is marked install, but has no talosVersion; set it, here or in a _defaults.yaml",
		"c/n3.yaml:1:10: error: n3 is marked install, but nothing identifies its machine; give it a bmc.address, serial, boardSerial, uuid or mac",
	)
}
