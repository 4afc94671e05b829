package machineconfig

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"maps"
	"slices"
	"strings"

	clientconfig "github.com/siderolabs/talos/pkg/machinery/client/config"

	"github.com/talos-provision/provision/inventory"
)

// Check renders the config of every node that has one and finds what is wrong
// with it, with the talosconfig, and between the configs of a cluster.
func (s Source) Check(nodes []inventory.Node) inventory.Findings {
	var findings inventory.Findings
	clusters := map[string][]member{}
	for _, n := range nodes {
		c, ok, err := s.Render(n)
		findings = append(findings, findingOf(err)...)
		if ok {
			findings = append(findings, c.Check(n)...)
		}
		ca, err := s.checkTalosconfig(n)
		findings = append(findings, findingOf(err)...)
		clusters[n.Cluster] = append(clusters[n.Cluster], member{n, c.machineCA(), ca})
	}
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		findings = append(findings, sameCluster(clusters[name])...)
	}
	seen := map[inventory.Finding]bool{}
	return slices.DeleteFunc(findings, func(f inventory.Finding) bool {
		repeated := seen[f]
		seen[f] = true
		return repeated
	})
}

func findingOf(err error) inventory.Findings {
	var p *Problem
	if errors.As(err, &p) {
		return inventory.Findings{p.Finding}
	}
	return nil
}

// member is a node with the hashes of the authority in its config and in its talosconfig.
type member struct {
	node                inventory.Node
	config, talosconfig string
}

// sameCluster compares the authorities of the Talos API: a node with another
// one than the talosconfig's is installed and then answers to nobody
// ("x509: certificate signed by unknown authority", siderolabs/talos#9241).
func sameCluster(members []member) inventory.Findings {
	var findings inventory.Findings
	first := slices.IndexFunc(members, func(m member) bool { return m.config != "" })
	for _, m := range members {
		switch {
		case m.config == "":
		case m.talosconfig != "" && m.talosconfig != m.config:
			findings = append(findings, findingAt(m.node, "talosconfig", inventory.Error, inventory.RuleConfigPKI,
				"the talosconfig of "+m.node.ID()+" is not of the cluster of its machine config: the node would not let it in", "use the talosconfig that was made with the config"))
		case m.config != members[first].config:
			findings = append(findings, findingAt(m.node, "machineConfig", inventory.Error, inventory.RuleConfigPKI,
				"the machine config of "+m.node.ID()+" is of another cluster than that of "+members[first].node.ID(), "make them from one secrets.yaml"))
		}
	}
	return findings
}

// machineCA is the hash of the authority of the Talos API.
func (c Config) machineCA() string { return hashOfPEM(c.of().facts.machineCA) }

// hashOfPEM is the hash of a certificate, in PEM in base64; "" if it is none.
func hashOfPEM(text string) string {
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return ""
	}
	block, _ := pem.Decode(decoded)
	if block == nil {
		return ""
	}
	sum := sha256.Sum256(block.Bytes)
	return string(sum[:])
}

// checkTalosconfig reads the talosconfig of a node and gives the hash of its authority.
func (s Source) checkTalosconfig(n inventory.Node) (ca string, err error) {
	file, ok, err := s.Talosconfig(n)
	if err != nil || !ok {
		return "", err
	}
	data, err := readFile(file)
	if err != nil {
		return "", problem(n, "talosconfig", inventory.RuleConfigFile, missingHint(err), "%w", err)
	}
	config, err := clientconfig.FromBytes(data)
	if err != nil || config.Contexts[config.Context] == nil {
		return "", problem(n, "talosconfig", inventory.RuleConfigSyntax, "make it with talosctl config, or with provision cluster init", "%s is no talosconfig with a current context", file)
	}
	return hashOfPEM(config.Contexts[config.Context].CA), nil
}
