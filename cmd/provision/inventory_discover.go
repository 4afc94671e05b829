package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner/discovery"
)

// discoverFlags are the flags of `inventory discover`.
type discoverFlags struct {
	bmcs, username, passwordEnv, passwordFile, caFile, nameFormat string
	port                                                          uint16
	timeout                                                       time.Duration
	insecure, write                                               bool
	changed                                                       func(flag string) bool
}

func discoverCommand(a *app) *cobra.Command {
	var f discoverFlags
	c := &cobra.Command{
		Use:   "discover --bmc CIDR|LIST|FILE --cluster NAME",
		Short: "Ask BMCs who their machines are, and write node files from their answers",
		Long: `discover logs in to each BMC once, reads serial, board serial, UUID and MACs, and
logs out. It changes nothing on any machine. What it found becomes a node file for
each machine that the inventory does not have, and is added to the files of nodes
that have that bmc.address, or that are recognised and have none. Without --write
it only shows what it would write. See docs/discover.md.

User and password come from the flags, else from the inventory: from the node with
that bmc.address, or from _defaults.yaml.

Exit status: 0 done; 1 no BMC answered, one refused the password, or the scan was
stopped; 2 usage, configuration or inventory error; 3 some machines are in conflict
and a person must decide: the others were written.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.changed = cmd.Flags().Changed
			return a.inventoryDiscover(cmd.Context(), f)
		},
	}
	p := c.Flags()
	p.StringVar(&f.bmcs, "bmc", "", "BMCs: 10.0.0.0/28, a list with commas (host, host:port, https://host), or a file with one a line")
	p.Uint16Var(&f.port, "port", 443, "port of addresses that have none")
	p.StringVar(&f.username, "username", "", "user of the BMCs")
	p.StringVar(&f.passwordEnv, "password-env", "", "environment variable that holds the password")
	p.StringVar(&f.passwordFile, "password-file", "", "file that holds the password")
	p.StringVar(&f.caFile, "ca-file", "", "PEM file of the authority that signed the BMCs' certificates")
	p.BoolVar(&f.insecure, "insecure", false, "accept any certificate")
	p.DurationVar(&f.timeout, "timeout", 3*time.Second, "how long an address may take to accept a connection")
	p.StringVar(&f.nameFormat, "name-format", "node-%02d", "names of new nodes; their numbers continue behind the cluster's highest")
	p.BoolVar(&f.write, "write", false, "write the files, instead of showing what would be written")
	return c
}

// clusterName is what can be a folder of the inventory.
var clusterName = regexp.MustCompile(`^[^/\\\s._][^/\\\s]*$`)

func (f discoverFlags) check(cluster string) error {
	switch {
	case f.bmcs == "":
		return usageError("name the BMCs: --bmc 10.0.0.0/28, a list with commas, or a file")
	case cluster == "":
		return usageError("name the cluster of new nodes: --cluster NAME")
	case !clusterName.MatchString(cluster):
		return usageError("--cluster %q cannot be a folder of the inventory: give a name without spaces and slashes", cluster)
	case f.passwordEnv != "" && f.passwordFile != "":
		return usageError("--password-env and --password-file: give one of them")
	case f.insecure && f.caFile != "":
		return usageError("--insecure and --ca-file: give one of them")
	}
	return nil
}

func (a *app) inventoryDiscover(ctx context.Context, f discoverFlags) error {
	if err := f.check(a.flags.cluster); err != nil {
		return err
	}
	s, err := a.open()
	if err != nil {
		return err
	}
	if s.tree, err = a.growingInventory(s.config); err != nil {
		return err
	}
	jobs, extra, err := a.discoverJobs(ctx, f, s.config, s.tree)
	if err != nil {
		return err
	}
	scanner := discovery.Scanner{
		ConnectTimeout: f.timeout,
		OnSighting:     a.tellSighting,
		Dial: func(ctx context.Context, n inventory.Node) (discovery.BMC, error) {
			client, err := s.dial(ctx, n)
			if err != nil {
				return nil, err
			}
			return client, nil
		},
	}
	seen, stopped, err := scanner.Scan(ctx, jobs)
	if err != nil {
		return err
	}
	d := &discovered{app: a, dir: s.config.Inventory, stopped: stopped}
	d.report, err = discovery.Propose(seen, s.tree, discovery.Options{
		Inventory: s.config.Inventory, Cluster: a.flags.cluster, NameFormat: f.nameFormat, BMC: extra,
	})
	if err != nil {
		return &statusError{exitUsage, err.Error()}
	}
	return d.conclude(f.write, s.asJSON)
}

// growingInventory reads the inventory; one that does not exist yet is empty.
func (a *app) growingInventory(c config) (*inventory.Tree, error) {
	if _, err := os.Stat(c.Inventory); errors.Is(err, fs.ErrNotExist) {
		return &inventory.Tree{}, nil
	}
	return a.loadInventory(c)
}

// discoverJobs says whom to ask and with which credentials, and what new files
// must say of their BMC because the defaults do not.
func (a *app) discoverJobs(ctx context.Context, f discoverFlags, c config, tree *inventory.Tree) ([]discovery.Job, []discovery.Field, error) {
	targets, err := discovery.ParseTargets(f.bmcs, f.port, isRegular, os.ReadFile)
	if err != nil {
		return nil, nil, usageError("--bmc: %v", err)
	}
	defaults, err := discovery.Defaults(c.Inventory, a.flags.cluster)
	if err != nil {
		return nil, nil, &statusError{exitUsage, err.Error()}
	}
	known := map[string][]*inventory.Node{}
	for i := range tree.Nodes {
		n := &tree.Nodes[i]
		if endpoint, err := discovery.Endpoint(n.BMC.Address, 443); err == nil && n.BMC.Address != "" {
			known[endpoint] = append(known[endpoint], n)
		}
	}
	var jobs []discovery.Job
	for _, t := range targets {
		nodes := known[t.Endpoint]
		if len(nodes) == 0 {
			jobs = append(jobs, discovery.Job{Target: t, BMC: f.over(defaults)})
		}
		for _, n := range nodes { // several when one BMC serves several systems
			jobs = append(jobs, discovery.Job{Target: t, BMC: f.over(n.BMC), Node: n})
		}
	}
	return jobs, f.extra(defaults), checkAccounts(ctx, jobs)
}

// checkAccounts makes sure before anybody is asked that there is a user and a
// password for each BMC: a variable that is not set is no refusal.
func checkAccounts(ctx context.Context, jobs []discovery.Job) error {
	checked := map[string]bool{}
	for _, j := range jobs {
		b := j.BMC
		if b.Username == "" || b.PasswordEnv == "" && b.PasswordFile == "" && len(b.PasswordCommand) == 0 {
			return usageError("no user or password for BMC %s: give --username, and --password-env or --password-file, or bmc.username and bmc.passwordEnv in a _defaults.yaml", j.Address)
		}
		source := b.PasswordEnv + "\x00" + b.PasswordFile
		if len(b.PasswordCommand) > 0 || checked[source] {
			continue // a program is run when its password is needed
		}
		checked[source] = true
		b.Address = j.Address
		if _, err := b.Password(ctx, inventory.Secrets{}); err != nil {
			return &statusError{exitUsage, err.Error()}
		}
	}
	return nil
}

func isRegular(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// over lays the flags over what the inventory says of a BMC.
func (f discoverFlags) over(b inventory.BMC) inventory.BMC {
	if f.username != "" {
		b.Username = f.username
	}
	if f.passwordEnv != "" || f.passwordFile != "" {
		b.PasswordEnv, b.PasswordFile, b.PasswordCommand = f.passwordEnv, f.passwordFile, nil
	}
	if f.changed("insecure") || f.caFile != "" {
		b.Insecure, b.CAFile = f.insecure, f.caFile
	}
	return b
}

// extra is what a new file has to say of its BMC so that a run logs in as this
// command did.
func (f discoverFlags) extra(defaults inventory.BMC) []discovery.Field {
	b := f.over(defaults)
	var fields []discovery.Field
	add := func(name string, differs bool, value string) {
		if differs {
			fields = append(fields, discovery.Field{Name: "bmc." + name, Values: []string{value}})
		}
	}
	add("username", b.Username != defaults.Username, b.Username)
	add("passwordEnv", b.PasswordEnv != defaults.PasswordEnv && b.PasswordEnv != "", b.PasswordEnv)
	add("passwordFile", b.PasswordFile != defaults.PasswordFile && b.PasswordFile != "", b.PasswordFile)
	add("insecure", b.Insecure != defaults.Insecure, fmt.Sprint(b.Insecure))
	add("caFile", b.CAFile != defaults.CAFile && b.CAFile != "", b.CAFile)
	return fields
}

// tellSighting is the progress: a line for each BMC that answers, and one now
// and then for a network that is silent.
func (a *app) tellSighting(done, total int, s discovery.Sighting) {
	const silent = 256
	switch {
	case s.Status == discovery.Answered:
		id := s.Identity
		say(a.errOut, "[%d/%d] %s  %s %s\n", done, total, s.Address, printable(id.Vendor), printable(id.Model))
	case s.Status == discovery.Refused || s.Status == discovery.Failed:
		say(a.errOut, "[%d/%d] %s  %s\n", done, total, s.Address, s.Status)
	case done%silent == 0:
		say(a.errOut, "[%d/%d]\n", done, total)
	}
}
