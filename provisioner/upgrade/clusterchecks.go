package upgrade

import "slices"

// clusterFindings are the reasons that no single node has.
func (p planner) clusterFindings(plan Plan) []Finding {
	found := p.addressFindings()
	controlPlanes := p.controlPlanes()
	if len(controlPlanes) > 0 {
		found = append(found, EtcdFindings(controlPlanes, p.Etcd, p.MaxRaftLag)...)
	}
	if len(controlPlanes) == 1 && !p.SingleNode && len(p.inFlight) == 0 {
		if n, planned := plan.node(controlPlanes[0]); planned && n.Action == ActionUpgrade && len(n.Stops) > 0 {
			found = append(found, find(CodeSingleNode, n.Node, "it is the only control plane: etcd and the Kubernetes API are away while it reboots"))
		}
	}
	if !p.NoDrain && p.KubernetesErr != nil {
		found = append(found, find(CodeKubernetesAPI, "", "the Kubernetes API does not answer: %v", p.KubernetesErr))
	}
	if len(plan.Stops) > 1 && slices.Equal(p.Releases, knownReleases) {
		found = append(found, find(CodeReleasesBuiltIn, "", "the stops are the newest patches that this program knows by itself"))
	}
	return append(append(found, p.canaryFindings(plan)...), p.strangerFindings()...)
}

// addressFindings: of two nodes with one address, one would be upgraded twice and the other never.
func (p planner) addressFindings() []Finding {
	var found []Finding
	first := map[string]string{}
	for _, m := range p.Machines {
		if other, taken := first[m.Host]; taken {
			found = append(found, find(CodeAddressShared, m.Name, "it has the address %s of %s", m.Host, other))
			continue
		}
		first[m.Host] = m.Name
	}
	return found
}

// canaryFindings: a run whose canary cannot go must not begin with another.
func (p planner) canaryFindings(plan Plan) []Finding {
	var found []Finding
	for _, name := range p.Canary {
		switch n, planned := plan.node(name); {
		case !planned:
			found = append(found, find(CodeCanaryUnknown, name, "the canary is no node of the cluster"))
		case onlyBudgets(n):
			found = append(found, find(CodeCanaryHeld, name, "the canary waits for its disruption budgets"))
		case n.Action == ActionHold || n.Action == ActionExclude:
			found = append(found, find(CodeCanaryUnknown, name, "the canary would not be upgraded"))
		}
	}
	return found
}

// onlyBudgets says whether nothing but disruption budgets holds a node.
func onlyBudgets(n PlanNode) bool {
	return n.Action == ActionHold && !slices.ContainsFunc(blocking(n.Findings, ScopeNode), func(f Finding) bool { return f.Code != CodeBudget })
}

// strangerFindings: Node objects that are none of the machines.
func (p planner) strangerFindings() []Finding {
	var found []Finding
	for _, s := range p.Strangers {
		owner := slices.IndexFunc(p.Machines, func(m Machine) bool { return slices.Contains(s.Addresses, m.Host) })
		if owner >= 0 {
			found = append(found, find(CodeNodeDoubled, p.Machines[owner].Name, "the Node object %s has its address too", s.Name))
			continue
		}
		found = append(found, find(CodeNodeForeign, "", "Kubernetes has the node %s, which is not of the inventory", s.Name))
	}
	return found
}
