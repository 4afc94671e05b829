package upgrade

import (
	"fmt"
	"slices"
	"strings"

	"github.com/talos-provision/provision/provisioner/talos"
)

// EtcdFindings says what speaks against taking a control plane away now: the
// members are the control planes and not two, all vote, none raised an alarm,
// all follow the same leader, and none is more than maxLag entries behind.
// LifecycleService.Upgrade checks none of that.
func EtcdFindings(controlPlanes []string, etcd Etcd, maxLag uint64) []Finding {
	if etcd.Err != nil {
		return []Finding{find(CodeEtcdUnreachable, "", "etcd does not tell its members: %v", etcd.Err)}
	}
	found := memberFindings(controlPlanes, etcd)
	for _, a := range etcd.Alarms {
		found = append(found, find(CodeEtcdAlarm, etcd.nodeOf(a.MemberID), "etcd raised the alarm %s", a.Type))
	}
	return append(found, statusFindings(controlPlanes, etcd, maxLag)...)
}

func memberFindings(controlPlanes []string, etcd Etcd) []Finding {
	var found []Finding
	if len(etcd.Members) != len(controlPlanes) {
		found = append(found, find(CodeEtcdMembers, "", "etcd has %d members (%s) and the cluster %d control planes (%s)",
			len(etcd.Members), strings.Join(hostnames(etcd.Members), ", "), len(controlPlanes), strings.Join(controlPlanes, ", ")))
	}
	if len(etcd.Members) == 2 {
		found = append(found, find(CodeEtcdTwo, "", "etcd has two members: it stops when one of them reboots"))
	}
	for _, m := range etcd.Members {
		if m.Learner {
			found = append(found, find(CodeEtcdLearner, etcd.nodeOf(m.ID), "the etcd member %s is a learner", m.Hostname))
		}
	}
	return found
}

func statusFindings(controlPlanes []string, etcd Etcd, maxLag uint64) []Finding {
	var (
		found           []Finding
		views           = make([]string, 0, len(controlPlanes))
		leaders         = map[uint64]bool{}
		lowest, highest uint64
		laggard         string
	)
	for _, node := range controlPlanes {
		s, asked := etcd.Status[node]
		switch known := slices.ContainsFunc(etcd.Members, func(m talos.Member) bool { return m.ID == s.MemberID }); {
		case !asked || s.Err != nil:
			found = append(found, find(CodeEtcdUnreachable, node, "its etcd does not tell its status: %v", s.Err))
			continue
		case !known:
			found = append(found, find(CodeEtcdMembers, node, "its etcd is member %x, which the others do not have", s.MemberID))
		case s.Leader == 0:
			found = append(found, find(CodeEtcdNoLeader, node, "its etcd knows no leader"))
		}
		if len(s.Errors) > 0 {
			found = append(found, find(CodeEtcdErrors, node, "its etcd reports: %s", strings.Join(s.Errors, "; ")))
		}
		if s.Learner {
			found = append(found, find(CodeEtcdLearner, node, "its etcd member is a learner"))
		}
		leaders[s.Leader] = true
		views = append(views, fmt.Sprintf("%s: %x", node, s.Leader))
		if laggard == "" || s.RaftIndex < lowest {
			laggard, lowest = node, s.RaftIndex
		}
		highest = max(highest, s.RaftIndex)
	}
	if len(leaders) > 1 {
		found = append(found, find(CodeEtcdLeaders, "", "the control planes follow different leaders: %s", strings.Join(views, ", ")))
	}
	if highest-lowest > maxLag {
		found = append(found, find(CodeEtcdLag, laggard, "its etcd is %d entries behind the others", highest-lowest))
	}
	return found
}

// nodeOf names the node of a member, or "" when no status tells.
func (e Etcd) nodeOf(member uint64) string {
	for node, s := range e.Status {
		if s.Err == nil && s.MemberID == member {
			return node
		}
	}
	return ""
}

func hostnames(members []talos.Member) []string {
	names := make([]string, 0, len(members))
	for _, m := range members {
		names = append(names, m.Hostname)
	}
	slices.Sort(names)
	return names
}
