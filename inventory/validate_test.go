package inventory_test

import (
	"testing"
)

// metalArgs are the arguments without which Talos does not boot on metal.
const metalArgs = "talos.platform=metal slab_nomerge pti=on"

const defaults = "netmask: 255.255.255.0\ngateway: 10.0.0.254\nschematicID: " + schematic + "\ntalosVersion: v1.9.5\ninterface: ens1\nkernelArgs: " + metalArgs + "\n"

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
		"_defaults.yaml": "ntp: ''\nnetmask: 24\n", "c/n1.yaml": "ip: 10.0.0.1", "c/n2.yaml": "ip: 10.0.0.2", "c/n3.yaml": "install: true\nkernelArgs: " + metalArgs,
	}))
	says(t, findings,
		`_defaults.yaml:1:6: error: ntp "" is neither a hostname nor an IP address; write it like fr.pool.ntp.org or 192.168.100.1`,
		"c/n3.yaml:1:10: error: n3 is marked install, but has no schematicID or schematic; set it, here or in a _defaults.yaml",
		"c/n3.yaml:1:10: error: n3 is marked install, but has no talosVersion; set it, here or in a _defaults.yaml",
		"c/n3.yaml:1:10: error: n3 is marked install, but nothing identifies its machine; give it a bmc.address, serial, boardSerial, uuid or mac",
	)
}
