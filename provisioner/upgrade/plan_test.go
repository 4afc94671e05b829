package upgrade_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/talos"
	"github.com/talos-provision/provision/provisioner/upgrade"
)

// goodSurvey is a cluster that nothing speaks against. cp-2 leads.
func goodSurvey(controlPlanes, workers int, running string) upgrade.Survey {
	s := upgrade.Survey{Kubernetes: "v1.34.1", Etcd: upgrade.Etcd{Status: map[string]upgrade.EtcdStatus{}}}
	for i := range controlPlanes + workers {
		name, role := fmt.Sprintf("cp-%d", i+1), upgrade.ControlPlane
		if i >= controlPlanes {
			name, role = fmt.Sprintf("w-%d", i-controlPlanes+1), upgrade.Worker
		}
		m := upgrade.Machine{Member: upgrade.Member{Name: name, Host: fmt.Sprintf("10.0.0.%d", i+1)}}
		m.Running = talos.Running{
			Host: m.Host, State: talos.Configured, Reached: true, Version: running, Stage: "running", Ready: true, Role: role,
			Schematic: schematicA, BootID: "boot-" + name, Facts: identity.Facts{UUID: "uuid-" + name}, SystemDisk: "/dev/sda",
		}
		m.Details.SecureBootKnown = true
		m.Kubernetes = &upgrade.KubernetesNode{Name: name, Addresses: []string{m.Host}, Kubelet: "v1.34.1", Ready: true}
		s.Machines = append(s.Machines, m)
		if role == upgrade.ControlPlane {
			id := uint64(i + 1)
			s.Etcd.Members = append(s.Etcd.Members, talos.Member{ID: id, Hostname: name})
			s.Etcd.Status[name] = upgrade.EtcdStatus{MemberStatus: talos.MemberStatus{MemberID: id, Leader: 2, RaftIndex: 7000 + id}}
		}
	}
	if controlPlanes == 1 {
		s.Etcd.Status["cp-1"] = upgrade.EtcdStatus{MemberStatus: talos.MemberStatus{MemberID: 1, Leader: 1}}
	}
	return s
}

// thirdMember changes what cp-3 tells of etcd.
func thirdMember(s upgrade.Survey, change func(*upgrade.EtcdStatus)) {
	v := s.Etcd.Status["cp-3"]
	change(&v)
	s.Etcd.Status["cp-3"] = v
}

// refusals: one thing wrong each with a cluster of three control planes and two
// workers, of which w-1 is machine 3, and the finding that it makes.
var refusals = []struct {
	code   upgrade.Code
	blocks upgrade.Scope
	node   string
	spoil  func(*upgrade.Options, *upgrade.Survey)
}{
	{upgrade.CodeUnreachable, upgrade.ScopeRun, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { // home-operations/tuppr#410
		s.Machines[3].Running = talos.Running{Role: upgrade.Worker, Err: errors.New("no route to host")}
	}},
	{upgrade.CodeMaintenance, upgrade.ScopeNode, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) {
		s.Machines[3].Running = talos.Running{State: talos.Maintenance, WrongPKI: true, Err: talos.ErrInMaintenance}
	}},
	{upgrade.CodeWrongCluster, upgrade.ScopeNode, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) {
		s.Machines[3].Running = talos.Running{State: talos.Configured, WrongPKI: true, Err: talos.ErrWrongPKI}
	}},
	{upgrade.CodeAddressShared, upgrade.ScopeRun, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { // siderolabs/talos#11830
		s.Machines[3].Host = s.Machines[0].Host
	}},
	{upgrade.CodeRoleUnknown, upgrade.ScopeRun, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { s.Machines[3].Running.Role = "" }},
	{upgrade.CodeVersionUnknown, upgrade.ScopeNode, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { s.Machines[3].Running.Version = "" }},
	{upgrade.CodeNotRunning, upgrade.ScopeRun, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { s.Machines[3].Running.Stage = "booting" }},
	{upgrade.CodeNotRunning, upgrade.ScopeRun, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { s.Machines[3].Running.Ready = false }},
	{upgrade.CodeDetailsUnknown, upgrade.ScopeNode, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { s.Machines[3].DetailsErr = talos.ErrNotAuthorized }},
	{upgrade.CodeDetailsUnknown, upgrade.ScopeNode, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { s.Machines[3].Running.BootID = "" }},
	{upgrade.CodePath, upgrade.ScopeRun, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { s.Machines[3].Running.Version = "v1.11.3" }},
	{upgrade.CodePathUnknown, upgrade.ScopeRun, "w-1", func(o *upgrade.Options, s *upgrade.Survey) {
		o.Stops, o.Releases, s.Machines[3].Running.Version = true, []upgrade.Version{{Major: 1, Minor: 13, Patch: 9}}, "v1.11.3"
	}},
	{upgrade.CodeReleasesBuiltIn, upgrade.ScopeNote, "", func(o *upgrade.Options, s *upgrade.Survey) {
		o.Stops, s.Machines[3].Running.Version = true, "v1.11.3"
	}},
	{upgrade.CodeDowngrade, upgrade.ScopeRun, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { s.Machines[3].Running.Version = "v1.14.1" }}, // siderolabs/omni#509
	{upgrade.CodeIncompatible, upgrade.ScopeRun, "w-1", func(o *upgrade.Options, _ *upgrade.Survey) {
		o.Target, o.Stops = upgrade.Version{Major: 1, Minor: 15}, true
		o.Releases = []upgrade.Version{{Major: 1, Minor: 14, Patch: 1}}
	}},
	{upgrade.CodeKubernetes, upgrade.ScopeRun, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { s.Machines[3].Kubernetes.Kubelet = "v1.30.9" }},
	{upgrade.CodeKubernetes, upgrade.ScopeRun, "cp-1", func(_ *upgrade.Options, s *upgrade.Survey) { s.Kubernetes = "v1.37.0" }},
	{upgrade.CodeKubernetesUnsure, upgrade.ScopeRun, "w-1", func(o *upgrade.Options, s *upgrade.Survey) {
		o.NoDrain, s.Kubernetes, s.Machines[3].Kubernetes = true, "", nil
	}},
	{upgrade.CodeKubernetesAPI, upgrade.ScopeRun, "", func(_ *upgrade.Options, s *upgrade.Survey) { s.KubernetesErr = errors.New("refused") }},
	{upgrade.CodeSchematic, upgrade.ScopeNode, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { s.Machines[3].Running.Schematic = "" }}, // home-operations/tuppr#478
	{upgrade.CodeSchematicChanges, upgrade.ScopeNote, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { s.Machines[3].Schematic = schematicB }},
	{upgrade.CodeSecureBootSwitch, upgrade.ScopeNode, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { s.Machines[3].SecureBoot = true }}, // siderolabs/talos#9245
	{upgrade.CodeSecureBootSwitch, upgrade.ScopeNode, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { s.Machines[3].Details.SecureBoot = true }},
	{upgrade.CodeSecureBootUnsure, upgrade.ScopeNode, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { s.Machines[3].Details.SecureBootKnown = false }},
	{upgrade.CodeKernelArgs, upgrade.ScopeNote, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { // siderolabs/talos#13967
		s.Machines[3].Details.ExtraKernelArgs = []string{"net.ifnames=0"}
	}},
	{upgrade.CodeKernelArgsDrop, upgrade.ScopeNode, "w-1", func(o *upgrade.Options, s *upgrade.Survey) { // siderolabs/talos#13967
		o.API, s.Machines[3].Details.ExtraKernelArgs = upgrade.Lifecycle, []string{"net.ifnames=0"}
	}},
	{upgrade.CodeConfigRefused, upgrade.ScopeNode, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { // devantler-tech/platform#2099
		s.Machines[3].Details.ExtraKernelArgs, s.Machines[3].Details.GrubUseUKICmdline = []string{"net.ifnames=0"}, true
	}},
	{upgrade.CodeNetBoot, upgrade.ScopeNode, "w-1", func(o *upgrade.Options, _ *upgrade.Survey) {
		o.NetBoot = noNetBoot{"w-1", errors.New("it has no BMC")}
	}},
	{upgrade.CodeNetBoot, upgrade.ScopeNode, "w-1", func(o *upgrade.Options, s *upgrade.Survey) {
		o.NetBoot, s.Machines[3].Running.SystemDisk = noNetBoot{}, ""
	}},
	{upgrade.CodeEtcdUnreachable, upgrade.ScopeRun, "", func(_ *upgrade.Options, s *upgrade.Survey) { s.Etcd.Err = errors.New("no quorum") }},
	{upgrade.CodeEtcdUnreachable, upgrade.ScopeRun, "cp-3", func(_ *upgrade.Options, s *upgrade.Survey) {
		thirdMember(*s, func(v *upgrade.EtcdStatus) { v.Err = errors.New("refused") })
	}},
	{upgrade.CodeEtcdMembers, upgrade.ScopeRun, "", func(_ *upgrade.Options, s *upgrade.Survey) { // siderolabs/talos#8759
		s.Etcd.Members = append(s.Etcd.Members, talos.Member{ID: 9, Hostname: "left-over"})
	}},
	{upgrade.CodeEtcdMembers, upgrade.ScopeRun, "", func(_ *upgrade.Options, s *upgrade.Survey) { s.Etcd.Members = s.Etcd.Members[:2] }}, // siderolabs/talos#5794
	{upgrade.CodeEtcdMembers, upgrade.ScopeRun, "cp-3", func(_ *upgrade.Options, s *upgrade.Survey) {
		thirdMember(*s, func(v *upgrade.EtcdStatus) { v.MemberID = 77 })
	}},
	{upgrade.CodeEtcdTwo, upgrade.ScopeRun, "", func(_ *upgrade.Options, s *upgrade.Survey) { *s = goodSurvey(2, 1, "v1.13.4") }},
	{upgrade.CodeEtcdLearner, upgrade.ScopeRun, "cp-3", func(_ *upgrade.Options, s *upgrade.Survey) { s.Etcd.Members[2].Learner = true }}, // siderolabs/talos#9153
	{upgrade.CodeEtcdLearner, upgrade.ScopeRun, "cp-3", func(_ *upgrade.Options, s *upgrade.Survey) {
		thirdMember(*s, func(v *upgrade.EtcdStatus) { v.Learner = true })
	}},
	{upgrade.CodeEtcdAlarm, upgrade.ScopeRun, "cp-3", func(_ *upgrade.Options, s *upgrade.Survey) {
		s.Etcd.Alarms = []talos.Alarm{{MemberID: 3, Type: "NOSPACE"}}
	}},
	{upgrade.CodeEtcdErrors, upgrade.ScopeRun, "cp-3", func(_ *upgrade.Options, s *upgrade.Survey) {
		thirdMember(*s, func(v *upgrade.EtcdStatus) { v.Errors = []string{"memory"} })
	}},
	{upgrade.CodeEtcdNoLeader, upgrade.ScopeRun, "cp-3", func(_ *upgrade.Options, s *upgrade.Survey) {
		thirdMember(*s, func(v *upgrade.EtcdStatus) { v.Leader = 0 })
	}},
	{upgrade.CodeEtcdLeaders, upgrade.ScopeRun, "", func(_ *upgrade.Options, s *upgrade.Survey) {
		thirdMember(*s, func(v *upgrade.EtcdStatus) { v.Leader = 3 })
	}},
	{upgrade.CodeEtcdLag, upgrade.ScopeRun, "cp-3", func(_ *upgrade.Options, s *upgrade.Survey) {
		thirdMember(*s, func(v *upgrade.EtcdStatus) { v.RaftIndex = 5000 })
	}},
	{upgrade.CodeNotRegistered, upgrade.ScopeRun, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { s.Machines[3].Kubernetes = nil }},
	{upgrade.CodeNotReady, upgrade.ScopeRun, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { s.Machines[3].Kubernetes.Ready = false }},
	{upgrade.CodeNodeDoubled, upgrade.ScopeNote, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { // siderolabs/talos#10760
		s.Strangers = []upgrade.KubernetesNode{{Name: "old-name", Addresses: []string{s.Machines[3].Host}}}
	}},
	{upgrade.CodeNodeForeign, upgrade.ScopeNote, "", func(_ *upgrade.Options, s *upgrade.Survey) {
		s.Strangers = []upgrade.KubernetesNode{{Name: "cloud-1"}}
	}},
	{upgrade.CodeCordoned, upgrade.ScopeNote, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { s.Machines[3].Kubernetes.Unschedulable = true }},
	{upgrade.CodeBudget, upgrade.ScopeNode, "w-1", func(_ *upgrade.Options, s *upgrade.Survey) { s.Machines[3].Budgets = []string{"default/web"} }}, // siderolabs/talos#9882
	{upgrade.CodeServesAPI, upgrade.ScopeNote, "cp-3", func(_ *upgrade.Options, s *upgrade.Survey) { s.Machines[2].ServesAPI = true }},
	{upgrade.CodeSingleNode, upgrade.ScopeRun, "cp-1", func(_ *upgrade.Options, s *upgrade.Survey) { *s = goodSurvey(1, 1, "v1.13.4") }}, // home-operations/tuppr#65
	{upgrade.CodeCanaryUnknown, upgrade.ScopeRun, "w-7", func(o *upgrade.Options, _ *upgrade.Survey) { o.Canary = []string{"w-7"} }},
	{upgrade.CodeCanaryUnknown, upgrade.ScopeRun, "w-1", func(o *upgrade.Options, s *upgrade.Survey) {
		o.Canary, s.Machines[3].Details.SecureBoot = []string{"w-1"}, true
	}},
	{upgrade.CodeCanaryHeld, upgrade.ScopeRun, "w-1", func(o *upgrade.Options, s *upgrade.Survey) {
		o.Canary, s.Machines[3].Budgets = []string{"w-1"}, []string{"default/web"}
	}},
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for i, c := range refusals {
		t.Run(fmt.Sprintf("%d %s", i, c.code), func(t *testing.T) {
			t.Parallel()
			o, s := upgrade.Options{Cluster: "prod", Target: version(t, "v1.13.9")}, goodSurvey(3, 2, "v1.13.4")
			c.spoil(&o, &s)
			plan := upgrade.MakePlan(o, s)
			at := slices.IndexFunc(plan.All(), func(f upgrade.Finding) bool { return f.Code == c.code && f.Node == c.node })
			if at < 0 {
				t.Fatalf("%+v", plan.All())
			}
			f := plan.All()[at]
			if f.Blocks != c.blocks || f.Text == "" || f.Hint == "" {
				t.Errorf("%+v", f)
			}
			if blocked := slices.Contains(plan.Blocked(), f); blocked != (c.blocks == upgrade.ScopeRun) {
				t.Error("blocks the run:", blocked)
			}
			for _, n := range plan.Nodes {
				if n.Node == c.node && (n.Action == upgrade.ActionHold) != (c.blocks == upgrade.ScopeNode || c.code == upgrade.CodeCanaryUnknown || c.code == upgrade.CodeCanaryHeld) {
					t.Error(n.Node, n.Action)
				}
			}
		})
	}
}

// Every code has a test and a hint.
func TestEveryCodeIsTested(t *testing.T) {
	t.Parallel()
	tested := map[upgrade.Code]bool{
		// Of images, in TestImagesThatAreRefused; of the health check, in TestAnUnhealthyClusterIsWaitedFor.
		upgrade.CodeImageUnreadable: true, upgrade.CodeImageLatest: true, upgrade.CodeImageVersion: true, upgrade.CodeImageSchematic: true,
		upgrade.CodeImagePlatform: true, upgrade.CodeImageUnpublished: true, upgrade.CodeImageStops: true, upgrade.CodeHealth: true,
	}
	for _, c := range refusals {
		tested[c.code] = true
	}
	for _, code := range upgrade.Codes() {
		if !tested[code] {
			t.Error(code)
		}
	}
}

func TestAGoodClusterHasNoFindings(t *testing.T) {
	t.Parallel()
	plan := upgrade.MakePlan(upgrade.Options{Target: version(t, "v1.13.9")}, goodSurvey(3, 2, "v1.13.4"))
	if found := plan.All(); len(found) > 0 {
		t.Error(found)
	}
	positions := map[string]int{}
	for _, n := range plan.Nodes {
		positions[n.Node] = n.Position
	}
	if diff := cmp.Diff(map[string]int{"w-1": 1, "w-2": 2, "cp-1": 3, "cp-3": 4, "cp-2": 5}, positions); diff != "" {
		t.Error(diff)
	}
}

func TestNodesAtTheTargetAreDone(t *testing.T) {
	t.Parallel()
	s := goodSurvey(3, 2, "v1.13.9")
	s.Machines[3].Schematic = schematicB // the same version with another schematic is an upgrade
	s.Machines[4].Running.Version = "v1.13.4"
	o := upgrade.Options{Target: version(t, "v1.13.9"), Exclude: []string{"w-2"}}
	plan := upgrade.MakePlan(o, s)
	actions := make([]upgrade.Action, 0, len(plan.Nodes))
	for _, n := range plan.Nodes {
		actions = append(actions, n.Action)
	}
	want := []upgrade.Action{upgrade.ActionDone, upgrade.ActionDone, upgrade.ActionDone, upgrade.ActionUpgrade, upgrade.ActionExclude}
	if diff := cmp.Diff(want, actions); diff != "" {
		t.Error(diff)
	}
}

// All nodes go to a stop before one goes on to the next.
func TestTheOldestGoFirst(t *testing.T) {
	t.Parallel()
	s := goodSurvey(3, 2, "v1.12.12")
	s.Machines[4].Running.Version = "v1.11.3"
	plan := upgrade.MakePlan(upgrade.Options{Target: version(t, "v1.13.9"), Stops: true}, s)
	for _, n := range plan.Nodes {
		if (n.Position > 0) != (n.Node == "w-2") {
			t.Errorf("%s has the position %d", n.Node, n.Position)
		}
	}
	if diff := cmp.Diff(versions(t, "v1.12.12", "v1.13.9"), plan.Stops); diff != "" {
		t.Error(diff)
	}
}

func TestThePlansJSONIsStable(t *testing.T) {
	t.Parallel()
	s := goodSurvey(1, 0, "v1.13.4")
	plan := upgrade.MakePlan(upgrade.Options{Cluster: "prod", Target: version(t, "v1.13.9"), SingleNode: true}, s)
	got, err := json.MarshalIndent(plan, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "cluster": "prod",
  "target": "v1.13.9",
  "stops": [
    "v1.13.9"
  ],
  "nodes": [
    {
      "node": "cp-1",
      "host": "10.0.0.1",
      "role": "controlplane",
      "action": "upgrade",
      "version": "v1.13.4",
      "stops": [
        "v1.13.9"
      ],
      "schematic": "` + schematicA + `",
      "targetSchematic": "` + schematicA + `",
      "secureBoot": false,
      "image": "factory.talos.dev/metal-installer/` + schematicA + `:v1.13.9",
      "api": "lifecycle",
      "apiReason": "Talos v1.13.4 has it",
      "position": 1,
      "batch": 1,
      "leader": true,
      "findings": []
    }
  ],
  "findings": []
}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}
