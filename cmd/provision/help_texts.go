package main

// helps is by the command's path below the program's name. The nodes of the examples
// are those of docs/examples.
var helps = map[string]help{
	"": {example: `provision plan --cluster k8s-prod
provision --cluster k8s-prod
provision --cluster k8s-prod --node 'node-[01-03]' --until maintenance --yes
provision --cluster k8s-prod --reinstall node-02`},

	"plan": {
		long: `plan finds each node through its BMC and looks whether a configured Talos answers at
its address, as a run does before it touches a machine. It says what the run would do
to the node: install it, go on with it, or leave it alone, and why. Nothing is powered,
nothing is written. With -o markdown it is a comment for a merge request (docs/gitops.md).`,
		exit: "0 all that is asked for can be done; 1 a node cannot be done as things are; 2 usage, configuration or inventory error; 3 a node is held for safety.",
		example: `provision plan --cluster k8s-prod
provision plan --cluster k8s-prod --node node-01 -o json
provision plan --cluster k8s-prod -o markdown > plan.md`,
	},
	"status": {
		long: `status shows what the state, or the daemon that holds it, knows of every node: how far
it is, since when, after how many attempts. It asks no machine. With --unknown it shows
the machines that asked for a boot script and are in no file of the inventory.`,
		exit: exitOfState,
		example: `provision status --cluster k8s-prod
provision status --selector role=worker -o json
provision status --unknown`,
	},
	"events": {
		long: `events shows each change of a node's state: of runs that are over from the state, of
runs that go on from the daemon that does them. With -o json each event is a line.`,
		exit: exitOfState,
		example: `provision events --cluster k8s-prod
provision events --cluster k8s-prod --follow -o json`,
	},
	"stop": {
		long: `stop ends the run of a cluster that a daemon carries out. What was begun with a machine
is brought to a state from which the same command goes on later.`,
		exit:    exitOfState,
		example: `provision stop --cluster k8s-prod`,
	},
	"reload": {example: "provision reload\nprovision reload --commit 4f2a9c1e8b7d6a5f4e3d2c1b0a9f8e7d6c5b4a39 --timeout 2m"},
	"hold": {
		exit: exitOfState,
		example: `provision hold node-02 --cluster k8s-prod --reason "a disk is changed"
provision hold --cluster k8s-prod`,
	},
	"release": {
		long:    `release ends a hold. Runs work on the node again; nothing else is done to it now.`,
		exit:    exitOfState,
		example: `provision release node-02 --cluster k8s-prod`,
	},
	"watch": {
		exit:    exitOfState,
		example: `provision watch --cluster k8s-prod`,
	},
	"dashboard": {
		exit: "0 done; 1 no daemon answers, or it refuses; 2 usage or configuration error.",
		example: `provision dashboard
provision dashboard --read-only`,
	},
	"doctor": {example: `provision doctor
provision doctor --cluster k8s-prod -o json`},
	"serve": {example: `provision serve --config provision.yaml
provision serve --log-level info`},
	"upgrade": {example: `provision upgrade --cluster k8s-prod --dry-run
provision upgrade --cluster k8s-prod --to v1.13.9 --canary node-02
provision upgrade --cluster k8s-prod --continue --yes`},
	"version": {
		long:    `version prints the version of this program; with -o json as {"version": …}.`,
		exit:    "0 done.",
		example: `provision version`,
	},

	"inventory": {
		long: `The inventory is a folder of YAML files, one a node, with _defaults.yaml for what many
have in common (docs/inventory.md). These commands read it, and ask no machine but
discover, which asks BMCs.`,
		example: `provision inventory validate
provision inventory list --cluster k8s-prod`,
	},
	"inventory validate": {example: `provision inventory validate
provision inventory validate --strict -o github`},
	"inventory show": {
		long: `show prints a node's values as they are after the defaults of its folders were merged
in, each with the file and line that it comes from, and the kernel command line made
of them. Passwords are no part of an inventory.`,
		exit: exitOfReading,
		example: `provision inventory show --node node-01
provision inventory show --node k8s-prod/node-01 -o json --origin`,
	},
	"inventory list": {example: `provision inventory list
provision inventory list --selector role=controlplane -o json`},
	"inventory schema":   {exit: exitOfReading, example: `provision inventory schema > inventory.schema.json`},
	"inventory render":   {example: "provision inventory render --format dnsmasq > dnsmasq.conf\nprovision inventory render --format ipxe --cluster k8s-prod > boot.ipxe"},
	"inventory discover": {example: "provision inventory discover --bmc 10.99.0.0/28 --cluster k8s-prod\nprovision inventory discover --bmc bmcs.txt --cluster k8s-prod --write"},

	"assets": {
		long: `Boot files are fetched from the Image Factory once, checked, and kept in a cache from
which nodes are served (docs/assets.md).`,
		example: `provision assets list --cluster k8s-prod`,
	},
	"assets list": {
		exit:    "0 done; 1 the cache cannot be read; 2 usage, configuration or inventory error.",
		example: "provision assets list\nprovision assets list --cluster k8s-prod --urls",
	},
	"assets pull":   {exit: "0 done; 1 a file could not be fetched; 2 usage, configuration or inventory error; 130 interrupted.", example: `provision assets pull --cluster k8s-prod`},
	"assets verify": {exit: "0 every file is sound; 1 a file is damaged; 2 usage or configuration error.", example: `provision assets verify`},
	"assets import": {
		exit:    "0 done; 1 not everything was imported; 2 usage or configuration error.",
		example: "provision assets import /mnt/usb/factory.talos.dev",
	},
	"assets prune": {exit: "0 done; 1 a file could not be removed; 2 usage, configuration or inventory error.", example: "provision assets prune --dry-run\nprovision assets prune --unused-for 720h"},

	"cluster": {
		long: `A cluster's nodes are installed with machine configs that init makes, or that were made
elsewhere (docs/clusters.md).`,
		example: `provision cluster init k8s-prod --endpoint https://10.20.0.11:6443`,
	},
	"cluster init":       {example: "provision cluster init k8s-prod --endpoint https://10.20.0.11:6443\nprovision cluster init k8s-prod --endpoint https://10.20.0.11:6443 --talos-version v1.13.9 --install-disk /dev/nvme0n1 --out configs/k8s-prod"},
	"cluster kubeconfig": {example: "provision cluster kubeconfig k8s-prod\nprovision cluster kubeconfig k8s-prod --out ~/.kube/config --merge"},
	"cluster health":     {example: "provision cluster health k8s-prod\nprovision cluster health k8s-prod --timeout 10m -o json"},

	"state": {
		long: `The state is what survives this program: how far each node is, holds, runs, events. It
is a folder, or a prefix in etcd (docs/operations.md).`,
		example: `provision state check`,
	},
	"state backup":  {exit: exitOfState, example: "provision state backup provision-state.backup"},
	"state restore": {exit: "0 done; 1 the backup or the state cannot be read or written; 2 usage or configuration error; 3 a state is there already.", example: "provision state restore provision-state.backup"},
	"state check": {
		long:    `check reads every record of the state, also while a daemon works with it, and repairs nothing.`,
		exit:    "0 sound; 1 damaged, or not to be had; 2 usage or configuration error.",
		example: "provision state check\nprovision state check -o json",
	},

	"bmc info":         {exit: exitOfBMC, example: "provision bmc info --node node-01\nprovision bmc info --cluster k8s-prod -o json"},
	"bmc power":        {example: `provision bmc power status --cluster k8s-prod`},
	"bmc power status": {exit: exitOfBMC, example: `provision bmc power status --cluster k8s-prod`},
	"bmc power on":     {exit: exitOfDriving, example: `provision bmc power on --node 'node-[01-03]'`},
	"bmc power off":    {exit: exitOfDriving, example: `provision bmc power off --node node-02 --graceful 2m`},
	"bmc power cycle":  {exit: exitOfDriving, example: `provision bmc power cycle --node node-02`},
	"bmc boot":         {example: `provision bmc boot pxe --node node-01`},
	"bmc boot pxe":     {exit: exitOfDriving, example: `provision bmc boot pxe --node node-01`},
	"bmc boot http":    {exit: exitOfDriving, example: "provision bmc boot http --node node-01\nprovision bmc boot http http://192.168.42.10:8080/ipxe.efi --node node-01"},
	"bmc boot media":   {exit: exitOfDriving, example: `provision bmc boot media http://192.168.42.10/talos.iso --node node-01`},
	"bmc boot disk":    {exit: exitOfDriving, example: `provision bmc boot disk --node node-01`},
	"bmc boot clear":   {exit: exitOfDriving, example: `provision bmc boot clear --cluster k8s-prod`},
	"bmc media":        {example: `provision bmc media list --node node-01`},
	"bmc media list":   {exit: exitOfBMC, example: `provision bmc media list --node node-01`},
	"bmc media insert": {exit: exitOfDriving, example: `provision bmc media insert http://192.168.42.10/talos.iso --node node-01`},
	"bmc media eject":  {exit: exitOfDriving, example: `provision bmc media eject --node node-01`},

	"completion":            {exit: "0 done.", example: "provision completion bash > /etc/bash_completion.d/provision"},
	"completion bash":       {example: "provision completion bash > /etc/bash_completion.d/provision"},
	"completion zsh":        {example: "provision completion zsh > /usr/local/share/zsh/site-functions/_provision"},
	"completion fish":       {example: "provision completion fish > ~/.config/fish/completions/provision.fish"},
	"completion powershell": {example: "provision completion powershell > provision.ps1"},
}
