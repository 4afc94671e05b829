package discovery

import (
	"fmt"
	"strings"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
)

// Action is what is to be done with what a BMC said.
type Action string

// The actions.
const (
	Add       Action = "add"       // write a new node file
	Patch     Action = "patch"     // add fields to the node's file
	Unchanged Action = "unchanged" // the file says it all already
	Conflict  Action = "conflict"  // nothing is written before a person decides
)

// Proposal is what is to be done about one BMC.
type Proposal struct {
	Sighting
	// Action is empty when the BMC did not answer.
	Action Action
	// Name is the node's hostname, existing or proposed; File is its file,
	// relative to the inventory.
	Name, File string
	// Fields are the keys to be written.
	Fields []Field
	// Reason says why it is a conflict.
	Reason string
	// Notes say what was left out.
	Notes []string

	attach bool // the node has no bmc.address yet
}

// label names the machine in a report: its node, else its BMC.
func (p Proposal) label() string {
	if p.Node != nil && p.Action != Conflict { // in a conflict it is not the node's machine, it seems
		return p.Node.ID()
	}
	return "BMC " + p.Address
}

// Options say where nodes go.
type Options struct {
	// Inventory is the folder of the inventory, which need not exist yet.
	Inventory string
	// Cluster is the cluster of new nodes.
	Cluster string
	// NameFormat makes the names of new nodes from a number, such as node-%02d.
	NameFormat string
	// BMC is what new files have to say of their BMC beside its address: what
	// the defaults do not give.
	BMC []Field
}

// Report is everything that came of a scan.
type Report struct {
	Proposals []Proposal
	// Chassis are the serials that several machines share.
	Chassis []Chassis
	// Changes are the files to write.
	Changes []Change
}

// Count gives how many proposals have the action.
func (r Report) Count(a Action) int {
	count := 0
	for _, p := range r.Proposals {
		if p.Action == a {
			count++
		}
	}
	return count
}

// Propose decides what is to be written. It writes nothing. The error says that
// the options or the inventory do not allow any decision.
func Propose(seen []Sighting, tree *inventory.Tree, o Options) (Report, error) {
	names, err := newNames(o.NameFormat, o.Cluster, tree.Nodes)
	if err != nil {
		return Report{}, err
	}
	d := &decider{tree: tree, options: o}
	for _, s := range seen {
		d.proposals = append(d.proposals, Proposal{Sighting: s})
	}
	d.compareKnown()
	d.recogniseNew()
	chassis := d.collide()
	named := map[string]string{} // by label before it had a name
	for i := range d.proposals {
		p := &d.proposals[i]
		if p.Status == Answered && p.Action == "" && p.Node == nil {
			label := p.label()
			p.Action, p.Name = Add, names.next()
			p.File = o.Cluster + "/" + p.Name + ".yaml"
			named[label] = o.Cluster + "/" + p.Name
		}
	}
	for i := range chassis {
		chassis[i].rename(named)
	}
	for i := range d.proposals {
		d.fields(&d.proposals[i])
	}
	changes, err := d.changes()
	if err != nil {
		return Report{}, err
	}
	return Report{Proposals: d.proposals, Chassis: chassis, Changes: changes}, nil
}

// decider holds what a decision needs.
type decider struct {
	tree      *inventory.Tree
	options   Options
	proposals []Proposal
	// shared are normalised values that identify nobody, so that they are not written.
	shared map[string]bool
}

func (p *Proposal) conflict(format string, args ...any) {
	p.Action, p.Reason = Conflict, fmt.Sprintf(format, args...)
}

// compareKnown holds the machines of known addresses against their nodes.
func (d *decider) compareKnown() {
	for i := range d.proposals {
		p := &d.proposals[i]
		if p.Node == nil {
			continue
		}
		p.Name, p.File = p.Node.Name, p.Node.File
		if p.Status != Answered {
			continue
		}
		key, agrees, reason := identity.Compare([]identity.Facts{p.Node.Facts()}, p.Identity.Facts)
		if key != "" && !agrees {
			p.conflict("%s", reason)
		}
	}
}

// recogniseNew finds machines that the inventory has already, without their
// BMC's address or with another.
func (d *decider) recogniseNew() {
	known := map[string][]identity.Facts{}
	nodes := map[string]inventory.Node{}
	for _, n := range d.tree.Nodes {
		known[n.ID()] = append(known[n.ID()], n.Facts())
		nodes[n.ID()] = n
	}
	for _, p := range d.proposals {
		if p.Node != nil && p.Status == Answered && p.Action != Conflict {
			known[p.Node.ID()] = append(known[p.Node.ID()], p.Identity.Facts)
		}
	}
	candidates := make([]identity.Candidate, 0, len(known))
	for id, facts := range known {
		candidates = append(candidates, identity.Candidate{Name: id, Facts: facts})
	}
	index := identity.NewIndex(candidates)
	claims := map[string][]*Proposal{} // by node
	for i := range d.proposals {
		p := &d.proposals[i]
		if p.Node != nil || p.Status != Answered {
			continue
		}
		switch verdict := index.Match(p.Identity.Facts); verdict.Outcome {
		case identity.Nobody:
		case identity.Match:
			claims[verdict.Name] = append(claims[verdict.Name], p)
		case identity.Conflict:
			left, sure := possible(verdict.Names, known, p.Identity.Facts)
			switch {
			case len(left) == 0: // another board beside those
			case len(left) == 1 && sure:
				claims[left[0]] = append(claims[left[0]], p)
			default:
				p.conflict("%s", verdict.Reason)
			}
		}
	}
	for id, machines := range claims {
		attach(nodes[id], machines)
	}
}

// possible gives the nodes that the machine may be: a board that shares its
// chassis' serial with nodes whose boards are known is none of those. sure says
// that something that only one board has agrees with the first of them.
func possible(ids []string, known map[string][]identity.Facts, observed identity.Facts) (left []string, sure bool) {
	for _, id := range ids {
		key, agrees, _ := identity.Compare(known[id], observed)
		if key != "" && !agrees {
			continue
		}
		left = append(left, id)
		if len(left) == 1 {
			sure = agrees && (key == identity.KeyBoardSerial || key == identity.KeyUUID || key == identity.KeyMAC)
		}
	}
	return left, sure
}

// attach gives a node the BMC of the only machine that is recognised as it.
func attach(n inventory.Node, machines []*Proposal) {
	if len(machines) > 1 {
		addresses := make([]string, len(machines))
		for i, p := range machines {
			addresses[i] = p.Address
		}
		for _, p := range machines {
			p.conflict("the machines behind %s all show what %s is known by: give %s its boardSerial, or bmc.address, by hand",
				strings.Join(addresses, ", "), n.ID(), n.ID())
		}
		return
	}
	p := machines[0]
	if n.BMC.Address != "" {
		p.conflict("this is the machine of %s, whose bmc.address is %s: if that BMC has moved, correct bmc.address; if both addresses lead to it, leave this one out",
			n.ID(), n.BMC.Address)
		return
	}
	p.Node, p.Name, p.File, p.attach = &n, n.Name, n.File, true
}

// fields chooses what is to be written.
func (d *decider) fields(p *Proposal) {
	if p.Status != Answered || p.Action == Conflict {
		return
	}
	var has inventory.Node
	if p.Node != nil {
		has = *p.Node
	}
	facts := p.Identity.Facts
	add := func(name, existing string, values ...string) {
		if existing == "" && len(values) > 0 && values[0] != "" {
			p.Fields = append(p.Fields, Field{name, values})
		}
	}
	add("serial", has.Serial, usable(facts.Serial, identity.NormalizeSerial(facts.Serial)))
	add("boardSerial", has.BoardSerial, usable(facts.BoardSerial, identity.NormalizeSerial(facts.BoardSerial)))
	add("uuid", has.UUID, d.unshared(p, "uuid", facts.UUID, identity.NormalizeUUID(facts.UUID)))
	var macs []string
	for _, mac := range facts.MACs {
		if strings.Contains(p.Identity.Sources["mac "+mac], "link between host and BMC") {
			continue // every machine of the vendor may have the same
		}
		if mac = d.unshared(p, "mac", mac, identity.NormalizeMAC(mac)); mac != "" {
			macs = append(macs, mac)
		}
	}
	add("macs", strings.Join(has.MACs, " "), macs...)
	if p.Node == nil || p.attach {
		p.Fields = append(p.Fields, Field{"bmc.address", []string{p.Address}})
		p.Fields = append(p.Fields, d.options.BMC...)
	}
	switch {
	case p.Node == nil:
	case len(p.Fields) == 0:
		p.Action = Unchanged
	default:
		p.Action = Patch
	}
}

// usable is the value as it is written, "" for a placeholder.
func usable(value, normalised string) string {
	if normalised == "" {
		return ""
	}
	return strings.TrimSpace(value)
}

// unshared leaves out a value that several machines show.
func (d *decider) unshared(p *Proposal, field, value, normalised string) string {
	if normalised != "" && d.shared[normalised] {
		p.Notes = append(p.Notes, fmt.Sprintf("%s %s is left out: other machines show it, too", field, strings.TrimSpace(value)))
		return ""
	}
	return usable(value, normalised)
}
