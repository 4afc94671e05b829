package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/inventory"
)

// bmcFlags are the flags of `provision bmc`.
type bmcFlags struct {
	addresses       []string
	adHoc           inventory.BMC // what is said of the BMCs at --address
	passwordCommand string
	trace           string
	graceful        time.Duration
}

// bmcCommands are `provision bmc` and its parts.
type bmcCommands struct {
	*app
	given   bmcFlags
	changed func(flag string) bool // whether a flag was given
}

func bmcCommand(a *app) *cobra.Command {
	c := &bmcCommands{app: a}
	root := &cobra.Command{
		Use:   "bmc",
		Short: "Look at BMCs and drive them: identity, power, one-time boot, virtual media",
		Long: `Talk Redfish to the BMCs of nodes of the inventory (--node, --cluster, --selector) or to any
BMC (--address). Whatever changes a machine of the inventory checks first that
its BMC is the one of that node and of no other.

Exit status: 0 done; 1 some BMC failed; 2 usage, configuration or inventory error;
3 refused: not confirmed, or the BMC is another node's; 130 interrupted.`,
		Example: `  provision bmc info --node node-01
  provision bmc info --address https://10.99.0.11 --username admin --password-env BMC_PASSWORD --insecure -o json
  provision bmc power cycle --cluster k8s-prod --node 'node-[01-04]'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.bindFlags(root)
	root.AddCommand(c.infoCommand(), c.powerCommand(), c.bootCommand(), c.mediaCommand())
	return root
}

func (c *bmcCommands) bindFlags(root *cobra.Command) {
	f, b := root.PersistentFlags(), &c.given.adHoc
	f.StringArrayVar(&c.given.addresses, "address", nil, "a BMC outside of the inventory: https://host[:port] or a bare host; may be repeated")
	f.StringVar(&b.Username, "username", "", "with --address: account at the BMC")
	f.StringVar(&b.PasswordEnv, "password-env", "", "with --address: environment variable that holds the password")
	f.StringVar(&b.PasswordFile, "password-file", "", "with --address: file that holds the password")
	f.StringVar(&c.given.passwordCommand, "password-command", "", "with --address: program that prints the password, split at spaces, run without a shell")
	f.BoolVar(&b.Insecure, "insecure", false, "with --address: accept any certificate")
	f.StringVar(&b.CAFile, "ca-file", "", "with --address: PEM file of the authority that signed the certificate")
	f.StringVar(&b.Fingerprint, "fingerprint", "", "with --address: SHA-256 of the certificate's public key, in base64 or hex; only that key is accepted")
	f.BoolVar(&b.LegacyTLS, "legacy-tls", false, "with --address: accept TLS 1.0 and 1.1 and RSA key exchange")
	f.StringVar(&b.System, "system", "", "with --address: Redfish name of the system, where one BMC serves several")
	f.StringVar(&b.BootMode, "boot-mode", "", "with --address: firmware mode of a one-time boot, uefi (default) or legacy")
	f.StringVar(&c.given.trace, "trace", "", "write every exchange with the BMCs to this file, without passwords and tokens")
}

// group is a command that only holds others.
func group(use, short string, children ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	g.AddCommand(children...)
	return g
}

// command is one thing to do with every BMC that is selected.
func (c *bmcCommands) command(use, short string, args cobra.PositionalArgs, job func(args []string) bmcJob) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.changed = cmd.Flags().Changed
			return c.run(cmd.Context(), job(args))
		},
	}
}

func (c *bmcCommands) infoCommand() *cobra.Command {
	return c.command("info", "Show who the machine is, its power and its boot override, and where each value was read", cobra.NoArgs,
		func([]string) bmcJob { return bmcJob{verb: "info", look: lookAtAll, show: c.printInfo} })
}

func (c *bmcCommands) powerCommand() *cobra.Command {
	job := func(j bmcJob) func([]string) bmcJob {
		j.look = lookAtAll
		return func([]string) bmcJob { return j }
	}
	on := c.command("on", "Switch machines on; one that is on is left alone", cobra.NoArgs,
		job(bmcJob{verb: "power on", asks: "POWERED ON", starts: true, do: powerOn}))
	off := c.command("off", "Switch machines off at once, or with --graceful by their operating system first", cobra.NoArgs,
		job(bmcJob{verb: "power off", asks: "POWERED OFF", do: c.powerOff}))
	cycle := c.command("cycle", "Switch machines off and on again; one that is off is switched on", cobra.NoArgs,
		job(bmcJob{verb: "power cycle", asks: "POWER CYCLED", starts: true, do: c.powerCycle}))
	for _, cmd := range []*cobra.Command{on, off, cycle} {
		c.bindYes(cmd)
	}
	for _, cmd := range []*cobra.Command{off, cycle} {
		cmd.Flags().DurationVar(&c.given.graceful, "graceful", 0, "give the operating system so long to shut down before the power is cut, 2m for instance")
	}
	return group("power", "Switch machines on and off, and look whether they are",
		c.command("status", "Show whether machines are on", cobra.NoArgs, func([]string) bmcJob {
			return bmcJob{verb: "power status", look: lookAtPower, show: c.printResults}
		}), on, off, cycle)
}

func (c *bmcCommands) bootCommand() *cobra.Command {
	arm := func(kind bmc.BootKind) func([]string) bmcJob {
		return func(args []string) bmcJob {
			r := bmc.BootRequest{Kind: kind}
			if len(args) > 0 {
				r.HTTPBootURI, r.MediaURI = args[0], args[0]
			}
			return bmcJob{verb: "boot " + string(kind), asks: "told to boot once by " + string(kind), look: lookAtAll, do: armFor(r), arms: true}
		}
	}
	commands := []*cobra.Command{
		c.command("pxe", "Make the next boot, and only that, a PXE boot", cobra.NoArgs, arm(bmc.BootPXE)),
		c.command("http [URI]", "Make the next boot a UEFI HTTP boot, of this URI or the one that DHCP gives", cobra.MaximumNArgs(1), arm(bmc.BootHTTP)),
		c.command("media URI", "Insert an image as a virtual CD and make the next boot one from it", cobra.ExactArgs(1), arm(bmc.BootMedia)),
		c.command("disk", "Make the next boot one from the disk", cobra.NoArgs, arm(bmc.BootDisk)),
		c.command("clear", "Make the next boot an ordinary one", cobra.NoArgs, func([]string) bmcJob {
			return bmcJob{verb: "boot clear", asks: "told to boot as usual", look: lookAtAll, do: clearBoot, arms: true}
		}),
	}
	for _, cmd := range commands {
		c.bindYes(cmd)
	}
	return group("boot", "Set the one-time boot of machines, and read it back; power is not touched", commands...)
}

func (c *bmcCommands) mediaCommand() *cobra.Command {
	insert := c.command("insert URI", "Put an image, which the BMC fetches itself, into the virtual CD drive", cobra.ExactArgs(1), func(args []string) bmcJob {
		return bmcJob{verb: "media insert", asks: "given the medium " + args[0], look: lookAtAll, do: insertMedia(args[0]), arms: true}
	})
	eject := c.command("eject", "Empty the virtual CD drives", cobra.NoArgs, func([]string) bmcJob {
		return bmcJob{verb: "media eject", asks: "made to eject their virtual media", look: lookAtAll, do: ejectMedia, arms: true}
	})
	c.bindYes(insert)
	c.bindYes(eject)
	return group("media", "Virtual media: an image that the machine sees as a CD",
		c.command("list", "Show the virtual CD drives and what is in them", cobra.NoArgs, func([]string) bmcJob {
			return bmcJob{verb: "media list", look: lookAtMedia, show: c.printResults}
		}), insert, eject)
}

func (c *bmcCommands) bindYes(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.flags.yes, "yes", false, "do not ask before machines are changed")
}
