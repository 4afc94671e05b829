package docs

// fieldsOfInit does what `cluster init` tells its user to do, afterInit also takes the nodes to Ready.
const (
	fieldsOfInit = `printf '%s\n' 'machineConfig: ../../configs/k8s-prod/{{ .labels.role }}.yaml' 'configPatches:' '- ../../configs/k8s-prod/node.yaml.tmpl' \
  'talosconfig: ../../configs/k8s-prod/talosconfig' >>nodes/k8s-prod/_defaults.yaml`
	afterInit = fieldsOfInit + ` && provision --cluster k8s-prod`
	initLine  = `provision cluster init k8s-prod .*`
)

// rules are the proofs of all commands. What asks a question is answered with "yes".
var rules = []rule{
	// The reference is made from the program, with examples of each command: they are
	// understood by it. What they do is executed from the other pages.
	{page: "docs/reference/cli/*", match: re(`.*`), way: elsewhere, by: "TestEveryCommandOfTheDocumentationParses"},

	// Installing the program: what would change the host is done by stand-ins.
	{page: "docs/install.md", match: re(`sha256sum --check .*|tar -xzf provision_VERSION_linux_amd64\.tar\.gz`), way: excused, by: "a downloaded release"},
	{page: "docs/install.md", match: re(`(IPXE=source IPXE_REF=COMMIT )?make (deb|image)`), way: executed},
	{page: "docs/install.md", match: re(`sudo install (-D )?-m 644 (\S+) (\S+)`), way: executed, as: `test -s ${2} && ${0}`},
	{page: "docs/install.md", match: re(`sudo (install|setcap|systemd-sysusers|systemctl|sudoedit|apt-get)\b.*|sudoedit .*`), way: executed},
	{page: "docs/install.md", match: re(`docker .*`), way: excused, by: "lines of `talosctl`, `kubectl`, `docker`, `ssh` and `git clone`"},
	{page: "docs/install.md", match: re(`cd deploy/compose`), way: executed},
	{page: "docs/install.md", match: re(`mkdir config|cp (-r )?\.\./\.\./docs/\S+ config/|cp secrets\.env\.example .*`), way: executed, as: `cd deploy/compose && ${0}`},
	{page: "docs/install.md", match: re(`sudo provision doctor --config \S+ --inventory /etc/provision/nodes`), way: executed, before: `mkdir -p etc && cp -r nodes etc`, as: `${0}; [ $$? -le 1 ]`, says: `(?s)ports.*TFTP`},
	{page: "docs/install.md", match: re(`sudo provision healthz --ready --config \S+`), way: elsewhere, by: "TestEveryCommandOfTheDocumentationWorks"},
	{page: "docs/install.md", match: re(`sudo provision state backup before\.backup --config \S+`), way: executed},

	// Targets of the Makefile: that they are there is proven by make itself, what they do by tests.
	{match: re(`make build`), way: executed},
	{match: re(`make demo`), way: elsewhere, by: "TestTheDemoProvisionsTwelveNodes"},
	{match: re(`make demo-ready`), way: elsewhere, by: "TestTheDemoOfClustersEndsWithSixReadyNodes"},
	{match: re(`make demo-upgrade`), way: elsewhere, by: "TestTheDemoOfUpgradesEndsTwoMinorVersionsUp"},
	{match: re(`make (deps|e2e)`), way: elsewhere, by: "TestAMachineInstallsItselfAndRunsFromItsDisk"},
	{page: "docs/dashboard.md", match: re(`make demo-dashboard`), way: executed, says: `12 done, 0 failed`,
		as: `DEMO_END=1 BIN={{dir}}/bin DIR={{dir}}/.demo LISTEN={{secondprefix}}0.9:9090 bash {{repository}}/cmd/fleetsim/demo-dashboard.sh --network {{second}} --post 100ms --kernel-time 100ms`},
	{match: re(`make demo-dashboard`), way: elsewhere, by: "TestEveryCommandOfTheDocumentationWorks"},
	{match: re(`provision dashboard( --read-only)?`), way: elsewhere, by: "TestTheDashboardIsOpenedByALink"},
	{match: re(`(?:E2E=required )?go test (?:-count=1 -v )?-run (Test\w+)(?:\[A-Z\])? .*`), way: elsewhere, by: "$1"},
	{match: re(`make test`), way: elsewhere, by: "TestEveryCommandOfTheDocumentationWorks"},
	{match: re(`(sudo )?make bench-(boot|fleet)`), way: excused, by: "`make bench-boot` and `make bench-fleet`"},
	{match: re(`go test \./bmc/redfishtest \./bmc`), way: elsewhere, by: "TestTheSupportMatrixNamesWhatExists"},

	// The host.
	{match: re(`sudo (install|apt-get install) \S+( \S+)?`), way: executed},
	{match: re(`export BMC_PASSWORD=(…|\.\.\.)`), way: executed, after: `test -n "$BMC_PASSWORD"`},

	// bmc.md is executed line by line where its own tests are.
	{page: "docs/bmc.md", match: re(`provision bmc .*`), way: elsewhere, by: "TestTheCommandsOfTheBMCPageRun"},

	// Installing.
	{match: re(`(sudo -E )?provision --cluster k8s-prod --yes -o json`), way: executed, says: `"state":"Maintenance"`},
	{match: re(`(sudo -E )?provision --cluster \S+( --until \w+| --max-failures 3| --yes)?`), way: executed, says: `4 done, 0 failed`},
	{match: re(`sudo -E provision --cluster k8s-prod --node node-0\d( --until configured| --reinstall node-03)?`), way: executed, says: `1 done, 0 failed`},
	{match: re(`provision plan --cluster k8s-prod --node node-03 --reinstall node-03`), way: executed, says: `will be wiped`},
	{page: "docs/howto/take-a-node-out.md", match: re(`provision plan --cluster k8s-prod`), way: executed, status: 3, says: `node-03: .* holds it`},
	{match: re(`provision (plan|status) --cluster \S+`), way: executed, says: `node-01`},
	// Loopback is no network for real machines, so the doctor finds fault with it.
	{match: re(`(sudo (?:-E )?)?provision doctor( --cluster k8s-prod)?`), way: executed, as: `${0}; [ $$? -le 1 ]`, says: `(?s)ports.*TFTP`},

	{match: re(`provision events( --cluster k8s-prod -o json)?`), way: executed},
	{match: re(`provision hold node-0\d --cluster k8s-prod --reason '.*'`), way: executed},
	{match: re(`provision hold`), way: executed, says: `node-03`},
	{match: re(`provision release node-0\d --cluster k8s-prod`), way: executed},
	{match: re(`provision bmc (info|power status|boot clear|power off) .*`), way: executed},

	// Programs of others, which act on real clusters.
	{match: re(`(talosctl|kubectl|ssh) .*|git clone .*`), way: excused, by: "lines of `talosctl`, `kubectl`, `docker`, `ssh` and `git clone`"},
	{page: "docs/metrics.md", match: re(`curl --cacert .*/metrics`), way: elsewhere, by: "TestWhoMayDoWhat"},
	{page: "docs/metrics.md", match: re(`promtool (check|test) rules \S+`), way: elsewhere, by: "TestTheAlertRulesDoAsTheirTestsSay"},
	{page: "docs/metrics.md", match: re(`(curl --unix-socket .*|go tool) pprof.*|curl --unix-socket .*/debug/pprof/.*`), way: elsewhere, by: "TestProfilesAreForTheAdmin"},
	{match: re(`openssl rand -hex 32 > /etc/provision/read\.token`), way: executed, before: `mkdir -p etc`, after: `grep -Eq '^[0-9a-f]{64}$' etc/read.token`},
	{match: re(`echo "whsec_\$\(openssl rand -base64 32\)" > /etc/provision/webhook\.secret`), way: executed, before: `mkdir -p etc`, after: `grep -q '^whsec_.' etc/webhook.secret`},
	{match: re(`cd provision`), way: executed, before: "mkdir -p provision"},

	// The first rack: the example is the fleet's inventory with another account.
	{page: "docs/first-rack.md", match: re(`cp -r docs/examples fleet|cd fleet|provision version`), way: executed},
	{page: "docs/first-rack.md", match: re(`read -rs BMC_PASSWORD`), way: executed, after: `export BMC_PASSWORD=$(cat bmc-password)`},
	{page: "docs/first-rack.md", match: re(`export BMC_PASSWORD`), way: executed, after: `test -n "$BMC_PASSWORD"`},

	// The quickstart's own fleet, on a network of its own.
	{page: "docs/quickstart.md", match: re(`bin/provision --config \.demo/provision\.yaml (status|plan --cluster demo|events)`), way: elsewhere, by: "TestTheDemoProvisionsTwelveNodes"},
	{page: "docs/quickstart.md", match: re(`bin/fleetsim --dir \.demo --cluster k8s-prod --nodes 4`), way: executed, as: `mkdir -p .demo; ${0} -network {{second}} & echo $$! > fleetsim.pid
for i in $$(seq 300); do [ -e .demo/ready ] && break; sleep 0.1; done; [ -e .demo/ready ]`},
	{page: "docs/quickstart.md", match: re(`bin/provision --config \.demo/provision\.yaml doctor`), way: executed, as: `${0}; [ $$? -le 1 ]`, says: `(?s)ports.*TFTP`},
	{page: "docs/quickstart.md", match: re(`bin/provision --config \.demo/provision\.yaml (inventory (validate|list)|plan --cluster k8s-prod)`), way: executed},
	{page: "docs/quickstart.md", match: re(`bin/provision --config \.demo/provision\.yaml --cluster k8s-prod`), way: executed, says: `4 done, 0 failed`},

	// The inventory.
	{page: "docs/gitops.md", match: re(`provision inventory validate -o (gitlab|github)`), way: executed},
	{page: "docs/gitops.md", match: re(`provision plan --cluster k8s-prod --state \.no-state -o markdown`), way: executed, says: `\| node-01 `},
	{page: "docs/gitops.md", match: re(`provision reload --commit "\$CI_COMMIT_SHA" --timeout 5m`), way: elsewhere, by: "TestReloadSaysWhichInventoryIsUsed"},
	{match: re(`provision inventory validate`), way: executed, says: `nodes: 4, errors: 0`},
	{match: re(`provision inventory list`), way: executed, says: `k8s-prod +node-04`},
	{match: re(`provision inventory list --exclude node-9`), way: executed, status: 2, says: `no node is called node-9: did you mean node-0`},
	{match: re(`provision inventory show --node \S+`), way: executed, says: `bmc\.address`},
	{match: re(`provision inventory schema > nodes/inventory\.schema\.json`), way: executed, after: `grep -q talosVersion nodes/inventory.schema.json`},

	// Clusters.
	{page: "README.md", match: re(initLine), way: executed, says: `wrote \S*configs/k8s-prod/talosconfig`, after: afterInit},
	{page: "docs/first-rack.md", match: re(initLine), way: executed, says: `wrote \S*configs/k8s-prod/talosconfig`, after: fieldsOfInit},
	{match: re(initLine), way: executed, before: `mv configs configs.fleet`,
		says: `wrote \S*configs/k8s-prod/talosconfig`, after: `rm -r configs && mv configs.fleet configs`},
	{match: re(`provision cluster kubeconfig k8s-prod --out ~/\.kube/config --merge`), way: executed, before: `mkdir -p ~/.kube`},
	{match: re(`provision cluster kubeconfig k8s-prod( --out -)?`), way: executed},
	{match: re(`provision cluster kubeconfig k8s-prod --force`), way: executed},
	{match: re(`provision cluster health k8s-prod`), way: executed, says: `is healthy`},

	// Boot files.
	{match: re(`provision assets (list|pull|verify|prune)( --cluster k8s-prod| --dry-run| --unused-for \w+| --all)*( --urls > urls\.txt)?`), way: executed},
	{match: re(`cd /var/cache/provision/\S+ && sha256sum -c \*\.sha256`), way: executed, says: `kernel-amd64: OK`},
	{match: re(`mkdir carry && cd carry && wget .*`), way: executed},
	{match: re(`provision assets import carry/?`), way: executed, says: `skipped: 0, failed: 0`},
	{match: re(`provision assets import --schematic .* release/`), way: executed, before: `mkdir release && cp "$(find carry -name kernel-amd64)" release/`},
	{match: re(`cat schematic\.yaml`), way: executed, before: `printf '%s' "$DOC_OUTPUT" > schematic.yaml`},
	{match: re(`provision assets (list|pull) --schematic schematic\.yaml --talos-version v1\.13\.9`), way: executed},

	// Discovery: the emulated fleet of the page is one more, on a network of its own.
	{match: re(`provision inventory discover --bmc CIDR.*`), way: executed, as: `provision inventory discover --bmc {{bmcs}} --port 8443 --cluster k8s-prod --username provisioner --password-file bmc-password --insecure`},
	{match: re(`provision inventory discover --bmc 10\.99\.0\.\S+ (.*)`), way: executed, as: `provision inventory discover --bmc {{bmcs}} --port 8443 ${1}`, says: `node-01`},
	{match: re(`bin/fleetsim -dir demo -nodes 4 &`), way: executed, as: `mkdir -p demo; bin/fleetsim -dir demo -nodes 4 -network {{second}} & echo $$! > fleetsim.pid
for i in $$(seq 300); do [ -e demo/ready ] && break; sleep 0.1; done; [ -e demo/ready ]`},
	{match: re(`rm demo/nodes/demo/\S+`), way: executed},
	{match: re(`(bin/provision --config demo/provision.yaml inventory discover --bmc) 127\.80\.(\S+) (.*)`), way: executed, as: `${1} {{secondprefix}}${2} ${3}`, says: `node-04`},

	// Beside a dnsmasq of one's own.
	{match: re(`provision inventory render --format (dnsmasq > dnsmasq\.conf|ipxe --cluster \S+ > boot\.ipxe)`), way: executed},
	{match: re(`dnsmasq --test --conf-file=dnsmasq\.conf`), way: executed, says: `syntax check OK`},
	{match: re(`grep -o ' ip=\.\* \|\|' boot\.ipxe`), way: executed, says: ` ip=`},
	{match: re(`mkdir -p /srv/tftp`), way: executed},
	{match: re(`cp /usr/lib/ipxe/.* /srv/tftp/|chmod a\+r /srv/tftp/\*`), way: executed},
	{match: re(`dnsmasq --conf-file=dnsmasq\.conf --keep-in-foreground --log-facility=-`), way: elsewhere, by: "TestRenderedFilesBootNodesByDNSMasq"},

	// The state.
	{match: re(`provision state check`), way: executed},
	{match: re(`provision state backup provision-\$\(date \+%F\)\.backup`), way: executed, after: `[ -e provision-2026-11-30.backup ] || cp provision-*.backup provision-2026-11-30.backup`},
	{match: re(`provision state backup provision\.backup`), way: executed, before: `rm -f provision.backup`},
	{match: re(`provision state restore provision\.backup --state /var/lib/provision-new`), way: executed},
	{match: re(`provision plan --cluster k8s-prod --state /var/lib/provision-new`), way: executed, says: `node-01`},
	{match: re(`provision state restore provision\.backup --state etcd://\S+`), way: elsewhere, by: "TestABackupIsRestoredFromEitherIntoEither"},
	{match: re(`provision state restore (\S+) --state /var/lib/provision`), way: executed, as: `provision state restore ${1} --state {{dir}}/restored`},

	// Upgrades.
	{match: re(`provision upgrade --cluster k8s-prod --to v1\.13\.9 --dry-run`), way: executed,
		as: `${0} --no-drain --kubernetes-version v1.34.0`, status: 3, says: `take the stops one after the other`},
	{match: re(`provision upgrade --cluster k8s-prod --to v1\.13\.9`), way: elsewhere, by: "TestTheDemoOfUpgradesEndsTwoMinorVersionsUp"},
	{match: re(`provision upgrade --cluster k8s-prod --dry-run`), way: executed, as: `${0} --no-drain --kubernetes-version v1.34.0`, status: 3, says: `take the stops one after the other`},
	{match: re(`provision upgrade --cluster k8s-prod --canary node-02`), way: executed, as: `provision upgrade --cluster k8s-prod --canary node-04 --stops --no-drain --kubernetes-version v1.34.0`, says: `4 upgraded, 0 failed`},
	{match: re(`provision upgrade --cluster k8s-prod( --to v1\.13\.9 --stops)? --continue`), way: elsewhere, by: "TestI8AKilledUpgradeGoesOnAndRebootsNoNodeTwice"},
	{match: re(`provision upgrade --cluster k8s-prod --to v1\.13\.9 --stops --no-drain --kubernetes-version v1\.34\.0`), way: executed, says: `4 upgraded, 0 failed`},
}
