// Command provision finds the machines of an inventory through their BMCs,
// boots them once from the network into the right Talos Linux, and confirms
// each by the Talos API.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker (see Makefile).
var version = "dev"

// Exit statuses, part of the command line's contract.
const (
	exitDone        = 0
	exitFailed      = 1   // some node failed
	exitUsage       = 2   // usage, configuration or inventory error
	exitRefused     = 3   // refused for safety
	exitInterrupted = 130 // interrupted; the run can be carried on
)

// statusError carries an exit status to main. An empty message has been told already.
type statusError struct {
	status  int
	message string
}

func (e *statusError) Error() string { return e.message }

func usageError(format string, args ...any) error {
	return &statusError{exitUsage, fmt.Sprintf(format, args...)}
}

// app is what every command shares: where it reads and writes, and the flags of the root.
type app struct {
	in       io.Reader
	out      io.Writer
	errOut   io.Writer
	terminal bool // a person answers at in
	flags    flags
	screen   screen
}

// flags are given on the command line; empty ones are taken from the environment and provision.yaml.
type flags struct {
	config    string
	inventory string
	state     string
	server    string
	tokenFile string
	cluster   string
	nodes     string
	selector  string
	exclude   string
	output    string
	markdown  bool // plan -o markdown
	logLevel  string
	noTUI     bool
	yes       bool
	dryRun    bool
	reinstall string
	until     string
	// maxFailures is a number of nodes or a share of them.
	maxFailures string
}

func main() {
	os.Exit(run(os.Args[1:], &app{in: os.Stdin, out: os.Stdout, errOut: os.Stderr, terminal: isTerminal(os.Stdin)}))
}

// run carries out one command line and returns its exit status. The first
// SIGINT or SIGTERM ends it cleanly; a second one kills it.
func run(args []string, a *app) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() { <-ctx.Done(); stop() }()

	root := rootCommand(a)
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.errOut)
	return a.exitStatus(root.ExecuteContext(ctx))
}

// exitStatus tells the error and turns it into a status.
func (a *app) exitStatus(err error) int {
	if err == nil {
		return exitDone
	}
	var status *statusError
	if !errors.As(err, &status) {
		status = &statusError{exitUsage, err.Error()}
		if errors.Is(err, context.Canceled) {
			status = &statusError{exitInterrupted, "interrupted"}
		}
	}
	if status.message != "" {
		say(a.errOut, "provision: %s\n", status.message)
	}
	return status.status
}

func rootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "provision --cluster NAME",
		Short: "Install Talos Linux on a fleet of bare-metal servers through their BMCs",
		Long: `provision reads a YAML inventory, talks Redfish to every BMC, boots each node of a
cluster that is marked install: true once from the network, and confirms over the
Talos API that the right machine is up in maintenance mode. A node that has a
machineConfig goes on until it is installed and Ready; --until ends it sooner.

Exit status: 0 done; 1 some node failed; 2 usage, configuration or inventory error;
3 refused for safety; 130 interrupted (run the same command again to go on).`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.flags.cluster == "" {
				return usageError("name the cluster to provision: provision --cluster NAME (provision --help tells more)")
			}
			return a.provision(cmd.Context())
		},
	}
	p := root.PersistentFlags()
	p.StringVar(&a.flags.config, "config", "", "configuration file (default ./provision.yaml when present)")
	p.StringVar(&a.flags.inventory, "inventory", "", "folder of the inventory (default ./nodes)")
	p.StringVar(&a.flags.state, "state", "", "folder of the state, or etcd://host:2379,… (default /var/lib/provision)")
	p.StringVar(&a.flags.server, "server", "", "act through the daemon at this URL, such as https://provision.example:9090 (default the one of this host, if one runs)")
	p.StringVar(&a.flags.tokenFile, "token-file", "", "file of the token for --server")
	p.StringVar(&a.flags.cluster, "cluster", "", "cluster to work on")
	p.StringVar(&a.flags.nodes, "node", "", "only these nodes: node-01, node-[01-06,09], node-0*")
	p.StringVarP(&a.flags.selector, "selector", "l", "", "only nodes with these labels: role=worker, zone!=b, rack in (r1,r2)")
	p.StringVar(&a.flags.exclude, "exclude", "", "not these nodes, written as for --node")
	p.StringVarP(&a.flags.output, "output", "o", "table", "output: table or json")
	p.StringVar(&a.flags.logLevel, "log-level", "warn", "log to standard error from this level on: debug, info, warn or error")
	p.BoolVar(&a.flags.noTUI, "no-tui", false, "print lines in place of the live board, also on a terminal")
	a.runFlags(root)
	root.AddCommand(planCommand(a), doctorCommand(a), statusCommand(a), inventoryCommand(a), assetsCommand(a), bmcCommand(a), serveCommand(a), dashboardCommand(a), eventsCommand(a), watchCommand(a), stopCommand(a), reloadCommand(a), holdCommand(a), releaseCommand(a), stateCommand(a), clusterCommand(a), upgradeCommand(a), healthzCommand(a), versionCommand(a), manCommand(a), guardCommand(a))
	root.InitDefaultCompletionCmd()
	describe(root)
	a.complete(root)
	a.suggest(root)
	return root
}

// runFlags are the flags of a run.
func (a *app) runFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&a.flags.yes, "yes", false, "do not ask before machines are power cycled")
	f.StringVar(&a.flags.until, "until", "", "how far to take the nodes: maintenance, configured, installed or ready (default ready for a node with a machineConfig, else maintenance)")
	f.StringVar(&a.flags.maxFailures, "max-failures", "", "power on no further node once so many nodes of the run have failed: 3 or 10% (default budgets.maxFailures)")
	f.BoolVar(&a.flags.dryRun, "dry-run", false, "only say what would happen to each node (= provision plan)")
	f.StringVar(&a.flags.reinstall, "reinstall", "", "nodes that may be WIPED and installed anew although they run a configured Talos")
}

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.flags.output == "json" {
				return a.printJSON(map[string]string{"version": version})
			}
			_, err := fmt.Fprintln(a.out, "provision", version)
			return err
		},
	}
}
