package inventory_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/talos-provision/provision/inventory"
)

// ruleCase is an inventory that breaks a rule, and the same one put right.
type ruleCase struct {
	broken, sound map[string]string
	// with makes in the broken one what a map of files cannot hold.
	with func(t *testing.T, dir string)
}

func one(content string) map[string]string { return map[string]string{"c/n1.yaml": content} }

func pair(n1, n2 string) map[string]string {
	return map[string]string{"_defaults.yaml": "netmask: 24\nbmc: {passwordEnv: P}\n", "c/n1.yaml": n1, "d/n2.yaml": n2}
}

func link(target, name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

const installable = "serial: S1\nschematicID: " + schematic + "\ntalosVersion: v1.13.9\nkernelArgs: " + metalArgs + "\n"

const signedNode = "secureBoot: true\nmac: 0c:c4:7a:00:00:01\n"

// ruleCases has a case for every rule.
var ruleCases = map[inventory.Rule]ruleCase{
	inventory.RuleUnreadable:  {one(""), one(""), link("nowhere.yaml", "c/lost.yaml")},
	inventory.RuleLinkOutside: {one(""), one(""), link("/etc/hostname", "c/out.yaml")},
	inventory.RuleNotAFile: {one(""), one(""), func(t *testing.T, dir string) {
		if err := syscall.Mkfifo(filepath.Join(dir, "c", "pipe.yaml"), 0o600); err != nil {
			t.Fatal(err)
		}
	}},
	inventory.RuleTooLarge: {broken: one("#" + strings.Repeat("x", 1<<20)), sound: one("#" + strings.Repeat("x", 1<<20-1))},
	inventory.RuleNotUTF8:  {broken: one("# caf\xe9\n"), sound: one("# café\n")},
	inventory.RuleSyntax:   {broken: one("a: [\n"), sound: one("macs: []\n")},
	inventory.RuleAliases: {
		broken: one("macs: &a [*a]\n"), sound: one("labels: {a: &a x, b: *a}\n"),
	},
	inventory.RuleIgnored:       {broken: map[string]string{"c/n1.yaml": "", "c/_default.yaml": ""}, sound: map[string]string{"c/n1.yaml": "", "c/_template.yaml": ""}},
	inventory.RuleDefaultsTwice: {broken: map[string]string{"c/n1.yaml": "", "c/_defaults.yaml": "", "c/_defaults.yml": ""}, sound: map[string]string{"c/n1.yaml": "", "c/_defaults.yml": ""}},
	inventory.RuleNoNodes:       {broken: map[string]string{"_defaults.yaml": ""}, sound: one("")},

	inventory.RuleUnknownKey:    {broken: one("serail: A1\n"), sound: one("serial: A1\n")},
	inventory.RuleKeyTwice:      {broken: one("serial: A1\nserial: A1\n"), sound: one("serial: A1\n")},
	inventory.RuleWrongType:     {broken: one("install: 'no'\n"), sound: one("install: false\n")},
	inventory.RuleInvalid:       {broken: one("gateway: 10.0.0.256\n"), sound: one("gateway: 10.0.0.254\n")},
	inventory.RuleSchematic:     {broken: one("schematicID: abc\n"), sound: one("schematicID: " + schematic + "\n")},
	inventory.RuleVersion:       {broken: one("talosVersion: 1.13.9\n"), sound: one("talosVersion: v1.13.9\n")},
	inventory.RuleUnsupported:   {broken: one("talosVersion: v1.15.0\n"), sound: one("talosVersion: v1.14.0\n")},
	inventory.RulePlaceholder:   {broken: one("serial: Default string\n"), sound: one("serial: DEF4ULT\n")},
	inventory.RuleSpaces:        {broken: one("serial: 'A1 '\n"), sound: one("serial: A1 \n")},
	inventory.RuleClearPassword: {broken: one("bmc: {password: hunter2}\n"), sound: one("bmc: {passwordEnv: P}\n")},
	inventory.RuleOmni:          {broken: one("kernelArgs: siderolink.api=https://x\n"), sound: one("kernelArgs: quiet\n")},
	inventory.RuleTalosConfig:   {broken: one("kernelArgs: talos.config=https://x/${uuid}\n"), sound: one("kernelArgs: talos.config=https://x/?u=${uuid}\n")},
	inventory.RuleUnbootable:    {broken: one("kernelArgs: 'a && b'\n"), sound: one("kernelArgs: 'a&&b'\n")},
	inventory.RuleMissingArgument: {
		broken: one(strings.Replace(installable, "slab_nomerge", "", 1) + "install: true\n"), sound: one(installable + "install: true\n"),
	},
	inventory.RuleCommandLine: {broken: one("kernelArgs: " + strings.Repeat("x", 4076)), sound: one("kernelArgs: " + strings.Repeat("x", 4075))},

	inventory.RuleHostname:       {broken: map[string]string{"c/n_1.yaml": ""}, sound: map[string]string{"c/n-1.yaml": ""}},
	inventory.RuleNoCluster:      {broken: map[string]string{"n1.yaml": ""}, sound: map[string]string{"n1.yaml": "cluster: c\n"}},
	inventory.RuleIsGateway:      {broken: one("ip: 10.0.0.1\nnetmask: 24\ngateway: 10.0.0.1\n"), sound: one("ip: 10.0.0.1\nnetmask: 24\ngateway: 10.0.0.2\n")},
	inventory.RuleIsNetwork:      {broken: one("ip: 10.0.1.0\nnetmask: 24\n"), sound: one("ip: 10.0.1.0\nnetmask: 23\n")},
	inventory.RuleIsBroadcast:    {broken: one("ip: 10.0.0.255\nnetmask: 24\n"), sound: one("ip: 10.0.0.255\nnetmask: 23\n")},
	inventory.RuleAddressFamily:  {broken: one("ip: 10.0.0.1\nnetmask: 24\ngateway: fd00::1\n"), sound: one("ip: fd00::2\nnetmask: 64\ngateway: fd00::1\n")},
	inventory.RuleGatewayOutside: {broken: one("ip: 10.0.0.1\nnetmask: 24\ngateway: 10.0.1.254\n"), sound: one("ip: 10.0.0.1\nnetmask: 23\ngateway: 10.0.1.254\n")},
	inventory.RuleNoNetmask:      {broken: one("ip: 10.0.0.1\n"), sound: one("ip: 10.0.0.1\nnetmask: 24\n")},
	inventory.RuleTimeServerName: {broken: one("ip: 10.0.0.1\nnetmask: 24\nntp: pool.ntp.org\n"), sound: one("ip: 10.0.0.1\nnetmask: 24\nntp: 10.0.0.254\n")},
	inventory.RuleVLANUnused:     {broken: one("vlan: 7\ninterface: e\n"), sound: one("vlan: 7\ninterface: e\nip: 10.0.0.1\nnetmask: 24\n")},
	inventory.RuleVLANNowhere:    {broken: one("vlan: 7\nip: 10.0.0.1\nnetmask: 24\n"), sound: one("vlan: 7\ninterface: e\nip: 10.0.0.1\nnetmask: 24\n")},
	inventory.RuleVLANName: {
		broken: one("vlan: 1234\ninterface: enp129s0f0n\nip: 10.0.0.1\nnetmask: 24\n"), sound: one("vlan: 1234\ninterface: enp129s0f0\nip: 10.0.0.1\nnetmask: 24\n"),
	},
	inventory.RuleUnidentified:   {broken: one(strings.Replace(installable, "serial: S1\n", "", 1) + "install: true\n"), sound: one(installable + "install: true\n")},
	inventory.RuleUnbootableNode: {broken: one(strings.Replace(installable, "schematicID: "+schematic, "", 1) + "install: true\n"), sound: one(installable + "install: true\n")},
	inventory.RuleTwoPasswords:   {broken: one("bmc: {passwordEnv: P, passwordFile: /p}\n"), sound: one("bmc: {passwordEnv: P, passwordFile: null}\n")},
	inventory.RuleNoPassword:     {broken: one("bmc: {address: b}\n"), sound: one("bmc: {address: b, passwordCommand: pass b}\n")},
	inventory.RuleTwoSchematics:  {broken: one("schematicID: " + strings.Repeat("0", 64) + "\nschematic: {}\n"), sound: one("schematicID: " + schematic + "\nschematic: {}\n")},
	inventory.RuleSignedArgument: {broken: one(signedNode + "kernelArgs: quiet\n"), sound: one(signedNode + "kernelArgs: " + metalArgs + "\n")},
	inventory.RuleSignedVLAN:     {broken: one(signedNode + "vlan: 7\n"), sound: one(signedNode + "vlan: null\n")},
	inventory.RuleSignedLegacy:   {broken: one(signedNode + "bmc: {bootMode: legacy}\n"), sound: one(signedNode + "bmc: {bootMode: uefi}\n")},
	inventory.RuleSignedNameless: {broken: one("secureBoot: true\nserial: S1\n"), sound: one("secureBoot: true\nuuid: 4c4c4544-0042-4310-8031-b2c04f333334\n")},
	inventory.RuleSignedAddress: {
		broken: one("secureBoot: true\nuuid: 4c4c4544-0042-4310-8031-b2c04f333334\nip: 10.0.0.2\nnetmask: 24\n"), sound: one(signedNode + "ip: 10.0.0.2\nnetmask: 24\n"),
	},

	inventory.RuleSameName: {broken: map[string]string{"c/a/n1.yaml": "", "c/b/n1.yaml": ""}, sound: map[string]string{"c/a/n1.yaml": "", "d/b/n1.yaml": ""}},
	inventory.RuleSameIP:   {broken: pair("ip: 10.0.0.1\n", "ip: 10.0.0.1\n"), sound: pair("ip: 10.0.0.1\n", "ip: 10.0.0.2\n")},
	inventory.RuleSameSerial: {
		broken: pair("serial: S1\n", "serial: s1\n"), sound: pair("serial: S1\nboardSerial: B1\n", "serial: s1\nboardSerial: B2\n"),
	},
	inventory.RuleSameBoardSerial: {broken: pair("boardSerial: B1\n", "boardSerial: B1\n"), sound: pair("boardSerial: B1\n", "boardSerial: B2\n")},
	inventory.RuleSameUUID: {
		broken: pair("uuid: 005CB4E7-0989-EB11-8000-7CC255000001\n", "uuid: e7b45c00-8909-11eb-8000-7cc255000001\n"),
		sound:  pair("uuid: 005CB4E7-0989-EB11-8000-7CC255000001\n", "uuid: e7b45c00-8909-11eb-8000-7cc255000002\n"),
	},
	inventory.RuleSameMAC: {broken: pair("mac: 0c:c4:7a:00:00:01\n", "macs: [0CC47A000001]\n"), sound: pair("mac: 0c:c4:7a:00:00:01\n", "macs: [0CC47A000002]\n")},
	inventory.RuleSameBMC: {broken: pair("bmc: {address: b}\n", "bmc: {address: 'https://B:443'}\n"), sound: pair("bmc: {address: b}\n", "bmc: {address: 'https://B:444'}\n")},
}

// ownRules are the rules that Load applies. Those about the files of machine
// configs are applied, and tested, where these are read.
func ownRules() []inventory.RuleInfo {
	return slices.DeleteFunc(inventory.Rules(), func(r inventory.RuleInfo) bool { return strings.HasPrefix(string(r.Rule), "config-") })
}

func TestEveryRuleFindsWhatIsWrongAndOnlyThat(t *testing.T) {
	t.Parallel()
	for _, rule := range ownRules() {
		t.Run(string(rule.Rule), func(t *testing.T) {
			t.Parallel()
			test, has := ruleCases[rule.Rule]
			if !has {
				t.Fatal("the rule has no case")
			}
			dir := tree(t, test.broken)
			if test.with != nil {
				test.with(t, dir)
			}
			_, findings := load(t, dir)
			if len(findings) == 0 {
				t.Fatal("nothing is found")
			}
			for _, f := range findings {
				if f.Rule != rule.Rule || f.Severity != rule.Severity || f.File == "" || f.Message == "" || f.Hint == "" && f.Rule != inventory.RuleCommandLine {
					t.Errorf("found: %s [%s]", f, f.Rule)
				}
			}
			if _, findings := load(t, tree(t, test.sound)); len(findings) > 0 {
				t.Errorf("put right, it is found still:\n%s", findings)
			}
		})
	}
}

// CI systems keep the names of rules.
func TestRulesHaveNamesAndTexts(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	seen := make([]inventory.Rule, 0, len(ruleCases))
	for _, r := range inventory.Rules() {
		if !name.MatchString(string(r.Rule)) || slices.Contains(seen, r.Rule) || !strings.HasSuffix(r.Text, ".") {
			t.Errorf("rule %+v", r)
		}
		seen = append(seen, r.Rule)
	}
	if own := ownRules(); len(own) != len(ruleCases) {
		t.Errorf("%d rules, %d cases", len(own), len(ruleCases))
	}
}
