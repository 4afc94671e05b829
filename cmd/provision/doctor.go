package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner/doctor"
)

func doctorCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor [--cluster NAME]",
		Short: "Say whether this host and its networks are fit to provision; changes nothing",
		Long: `doctor looks at the interface and its addresses, at who holds the boot ports, asks
the network who else answers DHCP, and checks the iPXE binaries, the Image Factory,
the cache, the clock, and that every BMC of the inventory (or of one cluster) can be
reached. It changes nothing. As root it sees more.

Exit status: 0 ready, perhaps with warnings; 1 something would stop a run.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context()) },
	}
}

// doctorReport is what machines read.
type doctorReport struct {
	Result doctor.Result    `json:"result"`
	Checks []doctor.Finding `json:"checks"`
}

func (a *app) doctor(ctx context.Context) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	options, err := s.config.examination()
	if err != nil {
		return err
	}
	options.Log = s.log
	found := a.patients(s.config, &options)
	found = append(found, doctor.Run(ctx, options)...)
	if err := ctx.Err(); err != nil {
		return err
	}
	report := doctorReport{doctor.Worst(found), found}
	if err := a.printReport(report, s.asJSON); err != nil {
		return err
	}
	if report.Result == doctor.Fail {
		return &statusError{status: exitFailed}
	}
	return nil
}

// examination turns the configuration into what is to be looked at.
func (c *config) examination() (doctor.Options, error) {
	o := doctor.Options{
		Interfaces: c.Network.Interfaces, Address: c.Network.Address, Mode: doctor.Mode(c.DHCP.Mode), Assertive: c.DHCP.Assertive,
		IPXEDir: c.IPXEDir, Factory: c.Assets.Factory, Cache: c.Assets.Cache, State: c.State,
	}
	if c.Network.Interface != "" {
		o.Interfaces = []string{c.Network.Interface}
	}
	for _, s := range c.DHCP.Subnets {
		o.Subnets = append(o.Subnets, s.CIDR)
	}
	type wish struct{ service, key, network, listen string }
	wishes := []wish{{"TFTP", "tftp.listen", "udp", c.TFTP.Listen}, {"HTTP", "http.listen", "tcp", c.HTTP.Listen}}
	if o.Mode != doctor.ModeOff {
		wishes = append([]wish{{"DHCP", "dhcp.listen", "udp", c.DHCP.Listen}, {"ProxyDHCP", "dhcp.bootListen", "udp", c.bootListen()}}, wishes...)
	}
	for _, w := range wishes {
		if w.listen == "" {
			continue
		}
		listen, err := parseListen(w.listen)
		if err != nil {
			return o, usageError("%s: %v", w.key, err)
		}
		o.Ports = append(o.Ports, doctor.Port{Service: w.service, Network: w.network, Listen: listen})
	}
	return o, nil
}

// bootListen is where firmware that takes a second step after an offer finds us
// (PXE 2.1): as configured, else port 4011 beside port 67.
func (c *config) bootListen() string {
	if listen, err := parseListen(c.DHCP.Listen); c.DHCP.BootListen == "" && err == nil && listen.Port() == 67 {
		return netip.AddrPortFrom(listen.Addr(), 4011).String()
	}
	return c.DHCP.BootListen
}

// parseListen reads ADDRESS:PORT or :PORT.
func parseListen(text string) (netip.AddrPort, error) {
	if strings.HasPrefix(text, ":") {
		text = "0.0.0.0" + text
	}
	listen, err := netip.ParseAddrPort(text)
	if err != nil {
		return listen, fmt.Errorf("%w; write it as ADDRESS:PORT, or :PORT for every address", err)
	}
	return listen, nil
}

// patients adds the BMCs and architectures of the inventory. Its mistakes are
// told in full by `inventory validate`, here only that there are some.
func (a *app) patients(c config, o *doctor.Options) []doctor.Finding {
	finding := doctor.Finding{Check: "inventory", Subject: c.Inventory, Result: doctor.OK}
	tree, findings, err := inventory.Load(c.Inventory)
	if err != nil {
		finding.Result, finding.Message = doctor.Fail, err.Error()
		finding.Hint = "name the folder with --inventory or inventory in provision.yaml"
		return []doctor.Finding{finding}
	}
	nodes, err := a.chosen(tree)
	if err != nil {
		finding.Result, finding.Message = doctor.Fail, err.Error()
		finding.Hint = "`provision inventory show` lists the nodes"
		return []doctor.Finding{finding}
	}
	for _, n := range nodes {
		if !slices.Contains(o.Archs, n.Arch) {
			o.Archs = append(o.Archs, n.Arch)
		}
		if n.BMC.Address == "" {
			continue
		}
		b := doctor.BMC{Node: n.ID(), Address: n.BMC.Address, Insecure: n.BMC.Insecure, CAFile: n.BMC.CAFile, LegacyTLS: n.BMC.LegacyTLS}
		if n.BMC.Fingerprint != "" {
			// A bad one is an error of the inventory, told below.
			if sum, err := inventory.DecodeFingerprint(n.BMC.Fingerprint); err == nil {
				b.Fingerprint = sum[:]
			}
		}
		o.BMCs = append(o.BMCs, b)
	}
	finding.Message = fmt.Sprintf("%d nodes, %d with a BMC address", len(nodes), len(o.BMCs))
	if findings.HasErrors() {
		finding.Result = doctor.Fail
		finding.Message += fmt.Sprintf("; %d errors", findings.Count(inventory.Error))
		finding.Hint = "`provision inventory validate` lists them"
	}
	return []doctor.Finding{finding}
}

func (a *app) printReport(report doctorReport, asJSON bool) error {
	if asJSON {
		return a.printJSON(report)
	}
	rows := make([][]string, 0, len(report.Checks))
	for _, f := range report.Checks {
		rows = append(rows, []string{f.Check, string(f.Result), orDash(f.Subject), f.Message})
	}
	if err := table(a.out, []string{"CHECK", "RESULT", "OF", "WHAT"}, rows); err != nil {
		return err
	}
	for _, f := range report.Checks {
		if f.Hint != "" {
			of := f.Check
			if f.Subject != "" {
				of += " " + f.Subject
			}
			say(a.out, "\n%s: %s: %s\n  -> %s\n", f.Result, of, f.Message, f.Hint)
		}
	}
	conclusion := map[doctor.Result]string{
		doctor.OK:   "ready",
		doctor.Warn: "ready; look at the warnings",
		doctor.Fail: "not ready: see what to do above",
	}
	say(a.out, "\n%s\n", conclusion[report.Result])
	return nil
}
