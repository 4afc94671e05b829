package dashboardtest

import (
	"fmt"
	"time"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
)

// Size is a fleet to be shown: so many nodes in so many clusters.
type Size struct{ Clusters, Nodes int }

// Fleet is a fleet in the middle of its work, as of a moment: most nodes are up, some
// are on their way, one in some forty has failed. Without nodes it is a new installation.
func Fleet(size Size, now time.Time) Data {
	d := Data{
		Boots: map[string]store.Boot{}, Conflicts: map[string]string{},
		Inventory: web.InventoryInfo{Source: "/etc/provision/nodes", Generation: "9b1f6c2d0a47", Loaded: now.Add(-26 * time.Minute), Clusters: size.Clusters, Nodes: size.Nodes},
		Health: []web.Check{
			{Name: "site", OK: true, What: "leads the site and serves machines"},
			{Name: "state", OK: true, What: "the state store answers"},
			{Name: "inventory", OK: true, What: "the newest inventory is in use"},
		},
	}
	for i := range size.Nodes {
		d.add(i, size, now)
	}
	if size.Nodes == 0 {
		return d
	}
	d.troubles(size, now)
	return d
}

func clusterName(i int) string {
	names := []string{"k8s-prod", "k8s-stage", "storage", "edge-paris", "edge-oslo", "lab"}
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("pool-%02d", i)
}

// life is a state, and what is said in it.
type life struct{ state, message, err, cause, hint string }

var lives = []life{
	{"Ready", "Talos is running, Kubernetes says Ready", "", "", ""},
	{"Maintenance", "Talos v1.13.9 is in maintenance, and it is this machine by board serial", "", "", ""},
	{"Booting", "initramfs 46 % of 34 MB", "", "", ""},
	{"PowerCycled", "the BMC took the power-on", "", "", ""},
	{"Armed", "waits for a place in the power window", "", "", ""},
	{"Failed", "", "no DHCP request of this machine within 15 minutes of power-on, after 2 power cycles", "no DHCP seen", "check that the node's first network port is in the provisioning network, untagged, with portfast, and that network boot is enabled in its BIOS"},
	{"Held", "", "a Talos with a machine config answers at 10.20.0.17", "already configured", "to wipe and install it anew, name it with --reinstall"},
	{"Failed", "", "the BMC refused the account root", "BMC authentication", "check bmc.username and the password in bmc.passwordEnv or bmc.passwordFile; only one attempt was made, so that the account is not locked"},
}

// lifeOf draws a node's life by its number: the same one always.
func lifeOf(i int) (life, bool) {
	switch {
	case i%41 == 9:
		return lives[5], true
	case i%97 == 4:
		return lives[6], true
	case i%193 == 7:
		return lives[7], true
	case i%11 == 3:
		return lives[2+i%3], true
	case i%13 == 6:
		return life{}, false
	case i%7 == 5:
		return lives[1], true
	}
	return lives[0], true
}

func (d *Data) add(i int, size Size, now time.Time) {
	per := (size.Nodes + size.Clusters - 1) / size.Clusters
	cluster, name := clusterName(i/per), fmt.Sprintf("node-%02d", i%per+1)
	if per >= 100 {
		name = fmt.Sprintf("node-%03d", i%per+1)
	}
	board := fmt.Sprintf("VM%03dS%06d", 100+i%900, i)
	serial := fmt.Sprintf("S166%06d", i/4)
	uuid := fmt.Sprintf("7a1e%04x-0000-4000-8000-0cc47a%06x", i%65536, i)
	mac := fmt.Sprintf("0c:c4:7a:%02x:%02x:%02x", i>>16&255, i>>8&255, i&255)
	ip, bmc := fmt.Sprintf("10.20.%d.%d", i/250, i%250+2), fmt.Sprintf("10.30.%d.%d", i/250, i%250+2)
	d.Fleet = append(d.Fleet, web.InventoryNode{
		Cluster: cluster, Node: name, File: cluster + "/" + name + ".yaml", Install: true, IP: ip, BMC: "https://" + bmc, TalosVersion: "v1.13.9",
		SchematicID: "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba", Arch: "amd64", Labels: map[string]string{"rack": fmt.Sprintf("r%02d", i/40+1)},
		Facts: identity.Facts{Serial: board},
	})
	d.Inventory.Install++
	l, worked := lifeOf(i)
	if !worked {
		return
	}
	run := "20261130T203112Z-" + cluster
	n := store.Node{
		Cluster: cluster, Name: name, Run: run, State: l.state, Since: now.Add(-time.Duration(20+i*37%2900) * time.Second), Message: l.message, Error: l.err, Cause: l.cause, Hint: l.hint,
		Attempts: 1 + i%41/40, LastPowerOn: now.Add(-52 * time.Minute), Facts: identity.Facts{Serial: serial, BoardSerial: board, ChassisSerial: "C" + serial, UUID: uuid, MACs: []string{mac, mac[:15] + "fe"}},
		Vendor: "Supermicro", Model: "SYS-2029BT-HNR", Address: ip, IdentifiedBy: identity.KeyBoardSerial,
	}
	switch l.state {
	case "Booting":
		n.Progress = &store.Progress{File: "initramfs-amd64.xz", Bytes: 15_728_640, Total: 33_554_500}
	case "Ready", "Maintenance":
		n.TalosVersion = "v1.13.9"
		n.TalosFacts = identity.Facts{Serial: serial, UUID: uuid, MACs: []string{mac, mac[:15] + "fe"}}
	case "Failed":
		n.Attempts = 2
	}
	d.Nodes = append(d.Nodes, n)
	if l.state != "Failed" && l.state != "Held" {
		d.boot(n, now)
	}
	if len(d.Events) < 4000 {
		d.history(n)
	}
}

// boot is what a node's machine asked with.
func (d *Data) boot(n store.Node, now time.Time) {
	d.Boots[n.Cluster+"/"+n.Name] = store.Boot{
		Cluster: n.Cluster, Node: n.Name, Time: now.Add(-50 * time.Minute), Source: "10.20.9.41", Arch: "amd64", Platform: "efi", Kind: "install",
		Facts:        identity.Facts{Serial: n.Facts.Serial, BoardSerial: n.Facts.BoardSerial, UUID: n.Facts.UUID, MACs: n.Facts.MACs[:1]},
		Manufacturer: "Supermicro", Product: "SYS-2029BT-HNR", Reason: "its run waits for it",
		Script: "#!ipxe\n# " + n.Name + " of " + n.Cluster + "\nkernel http://10.20.0.1:8080/assets/376567988ad3/v1.13.9/kernel-amd64 initrd=initramfs talos.platform=metal console=tty0 init_on_alloc=1 slab_nomerge pti=on ip=" +
			n.Address + "::10.20.0.1:255.255.0.0:" + n.Name + ":eth0:off\ninitrd --name initramfs http://10.20.0.1:8080/assets/376567988ad3/v1.13.9/initramfs-amd64.xz\nboot\n",
	}
}

// history are a node's events up to its state.
func (d *Data) history(n store.Node) {
	previous := ""
	steps := []life{
		{"Identified", "it is this node's machine by board serial " + n.Facts.BoardSerial, "", "", ""}, {"Armed", "the one-time network boot is set, and read back", "", "", ""},
		{"Armed", "powering off", "", "", ""}, {"PowerCycled", "the BMC took the power-on", "", "", ""}, {"Booting", "asked for its boot script from 10.20.9.41", "", "", ""},
		{n.State, n.Message, n.Error, n.Cause, n.Hint},
	}
	for i, s := range steps {
		if s.state == n.State && i < len(steps)-1 || n.State == "Failed" && s.state == "Booting" || n.State == "Held" && i > 0 && i < len(steps)-1 {
			continue
		}
		d.Events = append(d.Events, store.Event{
			Time: n.Since.Add(-time.Duration(len(steps)-1-i) * 41 * time.Second), Run: n.Run, Cluster: n.Cluster, Node: n.Name, State: s.state, Previous: previous,
			Message: s.message, Error: s.err, Cause: s.cause, Hint: s.hint,
		})
		previous = s.state
	}
}

// troubles are runs, and what a person should know of.
func (d *Data) troubles(size Size, now time.Time) {
	for i := range size.Clusters {
		cluster := clusterName(i)
		r := web.RunInfo{ID: "20261130T203112Z-" + cluster, Cluster: cluster, Started: now.Add(-time.Duration(55+i*7) * time.Minute), By: "user root", States: map[string]int{}}
		for _, n := range d.Nodes {
			if n.Cluster == cluster {
				r.States[n.State]++
				r.Nodes++
			}
		}
		if i%3 == 2 {
			r.Finished = now.Add(-9 * time.Minute)
			r.Summary = &web.RunSummary{Run: r.ID}
		}
		d.Runs = append(d.Runs, r)
	}
	first := clusterName(0)
	frozen := []string{first + "/" + d.Fleet[1].Node, first + "/" + d.Fleet[2].Node}
	d.Collisions = []web.Collision{
		{Key: identity.KeyBoardSerial, Value: "VM101S000001", Nodes: frozen, Frozen: frozen},
		{Key: identity.KeySerial, Value: "S166000000", Nodes: []string{first + "/" + d.Fleet[0].Node, frozen[0], frozen[1], first + "/" + d.Fleet[3].Node}},
		{Key: identity.KeyChassisSerial, Value: "CS166000000", Nodes: []string{first + "/" + d.Fleet[0].Node, frozen[0], frozen[1], first + "/" + d.Fleet[3].Node}},
	}
	for _, id := range frozen {
		d.Conflicts[id] = "board serial VM101S000001 is claimed by " + frozen[0] + " and " + frozen[1] + ": a board is one machine, so none of them is touched until one boardSerial, serial or bmc.address is corrected"
	}
	d.Holds = []store.Hold{{Cluster: first, Node: d.Fleet[3].Node, Reason: "memory is being replaced, ticket 4711", By: "user alice", Since: now.Add(-3 * time.Hour)}}
	d.Unknown = []store.Unknown{
		{Seen: now.Add(-4 * time.Minute), Times: 3, Source: "10.20.9.88", Facts: identity.Facts{Serial: "S166009911", BoardSerial: "VM177S009911", UUID: "7a1effff-0000-4000-8000-0cc47affff01", MACs: []string{"0c:c4:7a:ff:ff:01"}}, Arch: "amd64", Platform: "efi", Manufacturer: "Supermicro", Product: "SYS-2029BT-HNR", NICs: []string{"0c:c4:7a:ff:ff:01", "0c:c4:7a:ff:ff:02"}, Reason: "nobody's: no node has one of its serials, its UUID or its MACs"},
		{Seen: now.Add(-95 * time.Minute), Times: 1, Source: "10.20.9.90", Facts: identity.Facts{Serial: "To be filled by O.E.M.", UUID: "03000200-0400-0500-0006-000700080009", MACs: []string{"52:54:00:12:34:56"}}, Arch: "amd64", Platform: "pcbios", Manufacturer: "QEMU", Product: "Standard PC (Q35 + ICH9, 2009)", Reason: "nobody's: no node has its MAC"},
	}
	if size.Nodes > 100 {
		d.Inventory.Refused = &web.Refusal{Generation: "c07e11d4f3aa", Time: now.Add(-3 * time.Minute), Findings: []inventory.Finding{
			{Severity: inventory.Error, Rule: "ip-unique", File: first + "/node-017.yaml", Line: 3, Column: 5, Field: "ip", Message: "10.20.0.17 is the address of k8s-prod/node-016 too", Hint: "give each node its own address"},
		}}
	}
}
