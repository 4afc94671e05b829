package main

import (
	"fmt"
	"strings"

	"github.com/talos-provision/provision/inventory"
)

// bmcTarget is one BMC to talk to.
type bmcTarget struct {
	// node is the node it belongs to; without a name for a BMC at --address.
	node inventory.Node
	bmc  inventory.BMC
}

func (t bmcTarget) adHoc() bool { return t.node.Name == "" }

// name is what a person calls it.
func (t bmcTarget) name() string {
	if t.adHoc() {
		return t.bmc.Address
	}
	return t.node.Name
}

// adHocFlags describe BMCs at --address; a node's BMC is described by the inventory.
var adHocFlags = []string{
	"username", "password-env", "password-file", "password-command", "insecure", "ca-file", "fingerprint",
	"legacy-tls", "system", "boot-mode",
}

// targets are the BMCs that the command line names, and the inventory they are in.
func (c *bmcCommands) targets(conf config) ([]bmcTarget, *inventory.Tree, error) {
	if len(c.given.addresses) > 0 {
		targets, err := c.adHocTargets()
		return targets, nil, err
	}
	for _, flag := range adHocFlags {
		if c.changed(flag) {
			return nil, nil, usageError("--%s belongs to --address; the BMC of a node is described in the inventory", flag)
		}
	}
	if !c.selects() { // no command shall work on a whole inventory by accident
		return nil, nil, usageError("name the machines: --node LIST, --cluster NAME, --selector LABELS or --address URL")
	}
	tree, err := c.loadInventory(conf)
	if err != nil {
		return nil, nil, err
	}
	nodes, err := c.chosen(tree)
	if err != nil {
		return nil, nil, err
	}
	targets := make([]bmcTarget, 0, len(nodes))
	for _, n := range nodes {
		targets = append(targets, bmcTarget{node: n, bmc: n.BMC})
	}
	return targets, tree, nil
}

// selects tells whether the command line says which nodes are meant.
func (c *bmcCommands) selects() bool {
	return c.flags.nodes != "" || c.flags.cluster != "" || c.flags.selector != ""
}

func (c *bmcCommands) adHocTargets() ([]bmcTarget, error) {
	if c.selects() || c.flags.exclude != "" {
		return nil, usageError("--address is a BMC outside of the inventory: leave out --node, --cluster, --selector and --exclude, or --address")
	}
	given := c.given.adHoc
	given.PasswordCommand = strings.Fields(c.given.passwordCommand)
	ways := 0
	for _, is := range []bool{given.PasswordEnv != "", given.PasswordFile != "", len(given.PasswordCommand) > 0} {
		if is {
			ways++
		}
	}
	switch {
	case given.Username == "":
		return nil, usageError("name the account of the BMC: --username NAME")
	case ways != 1:
		return nil, usageError("say where the password is, in one way: --password-env NAME, --password-file FILE or --password-command 'PROGRAM ARGUMENT'")
	}
	targets := make([]bmcTarget, 0, len(c.given.addresses))
	known := map[string]bool{}
	for _, address := range c.given.addresses {
		if strings.Contains(address, "@") {
			return nil, usageError("an --address holds a user name: give --username, and the password with --password-env or --password-file")
		}
		if known[address] {
			continue // one BMC gets one request at a time (I10)
		}
		known[address] = true
		t := bmcTarget{bmc: given}
		t.bmc.Address = address
		targets = append(targets, t)
	}
	return targets, nil
}

// fieldFlags are the flags that stand for fields of the inventory, which errors name.
var fieldFlags = strings.NewReplacer(
	"bmc.insecure: true", "--insecure", "bmc.legacyTLS: true", "--legacy-tls", "bmc.boot: pxe", "a PXE boot",
	"bmc.insecure", "--insecure", "bmc.legacyTLS", "--legacy-tls", "bmc.caFile", "--ca-file",
	"bmc.fingerprint", "--fingerprint", "bmc.username", "--username", "bmc.system", "--system",
	"bmc.passwordEnv", "--password-env", "bmc.passwordFile", "--password-file", "bmc.passwordCommand", "--password-command",
	"bmc.bootMode", "--boot-mode", "bmc.address", "--address",
)

// tell is an error in the words of the command line that it came from.
func (t bmcTarget) tell(err error) string {
	if t.adHoc() {
		return fieldFlags.Replace(err.Error())
	}
	return err.Error()
}

// describe is a machine in a question: who it is and what it does now.
func (e *bmcEntry) describe() string {
	id := e.identity
	words := strings.Join(strings.Fields(id.Vendor+" "+id.Model), " ")
	for _, fact := range []struct{ name, value string }{{"serial", id.Facts.Serial}, {"board", id.Facts.BoardSerial}} {
		if fact.value != "" {
			words += fmt.Sprintf(", %s %s", fact.name, fact.value)
		}
	}
	name := e.target.name()
	if !e.target.adHoc() {
		name += " at " + e.target.bmc.Address
	}
	return fmt.Sprintf("%s (%s, now %s)", name, strings.TrimPrefix(words, ", "), id.PowerState)
}
