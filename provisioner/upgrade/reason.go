package upgrade

import (
	"fmt"
	"maps"
	"slices"
)

// Code names a reason not to upgrade. Codes are stable: machines may read them.
type Code string

// Scope is what a reason keeps from going on.
type Scope string

// The scopes.
const (
	ScopeRun  Scope = "run"  // nothing may begin
	ScopeNode Scope = "node" // this node is held, the others go
	ScopeNote Scope = "note" // nothing: worth knowing
)

// Finding is one reason, as it was found.
type Finding struct {
	Code   Code  `json:"code"`
	Blocks Scope `json:"blocks"`
	// Node is whom it is about; "" is the cluster.
	Node string `json:"node,omitempty"`
	// Text says what was found, Hint what a person can do.
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
}

// String is the finding for a person: what it keeps from going on, of whom, why, and what to do.
func (f Finding) String() string {
	blocks := map[Scope]string{ScopeRun: "refused", ScopeNode: "held", ScopeNote: "note"}
	text := f.Text
	if f.Node != "" {
		text = f.Node + ": " + text
	}
	text = fmt.Sprintf("%s (%s): %s", blocks[f.Blocks], f.Code, text)
	if f.Hint != "" {
		text += "\n  -> " + f.Hint
	}
	return text
}

// The codes.
const (
	CodeUnreachable      Code = "unreachable"
	CodeMaintenance      Code = "in-maintenance"
	CodeWrongCluster     Code = "wrong-cluster"
	CodeAddressShared    Code = "address-shared"
	CodeRoleUnknown      Code = "role-unknown"
	CodeVersionUnknown   Code = "version-unknown"
	CodeNotRunning       Code = "not-running"
	CodeDetailsUnknown   Code = "details-unknown"
	CodePath             Code = "path"
	CodePathUnknown      Code = "path-unknown"
	CodeReleasesBuiltIn  Code = "releases-built-in"
	CodeDowngrade        Code = "downgrade"
	CodeIncompatible     Code = "talos-incompatible"
	CodeKubernetes       Code = "kubernetes-unsupported"
	CodeKubernetesAPI    Code = "kubernetes-unreachable"
	CodeKubernetesUnsure Code = "kubernetes-version-unknown"
	CodeSchematic        Code = "schematic-unknown"
	CodeSchematicChanges Code = "schematic-changes"
	CodeSecureBootSwitch Code = "secure-boot-switch"
	CodeSecureBootUnsure Code = "secure-boot-unknown"
	CodeKernelArgs       Code = "kernel-args"
	CodeKernelArgsDrop   Code = "kernel-args-dropped"
	CodeConfigRefused    Code = "config-refused"
	CodeImageUnreadable  Code = "image-unreadable"
	CodeImageLatest      Code = "image-latest"
	CodeImageVersion     Code = "image-version"
	CodeImageSchematic   Code = "image-schematic"
	CodeImagePlatform    Code = "image-platform"
	CodeImageUnpublished Code = "image-unpublished"
	CodeImageStops       Code = "image-stops"
	CodeEtcdUnreachable  Code = "etcd-unreachable"
	CodeEtcdMembers      Code = "etcd-members"
	CodeEtcdTwo          Code = "etcd-two-members"
	CodeEtcdLearner      Code = "etcd-learner"
	CodeEtcdAlarm        Code = "etcd-alarm"
	CodeEtcdErrors       Code = "etcd-errors"
	CodeEtcdNoLeader     Code = "etcd-no-leader"
	CodeEtcdLeaders      Code = "etcd-leaders-differ"
	CodeEtcdLag          Code = "etcd-lag"
	CodeNotRegistered    Code = "node-not-registered"
	CodeNotReady         Code = "node-not-ready"
	CodeNodeDoubled      Code = "node-doubled"
	CodeNodeForeign      Code = "node-foreign"
	CodeCordoned         Code = "cordoned-by-others"
	CodeBudget           Code = "disruption-budget"
	CodeServesAPI        Code = "serves-kubernetes-api"
	CodeSingleNode       Code = "single-node"
	CodeCanaryUnknown    Code = "canary-unknown"
	CodeCanaryHeld       Code = "canary-held"
	CodeNetBoot          Code = "network-boot"
	CodeHealth           Code = "health"
)

// reason is what a code stands for.
type reason struct {
	blocks Scope
	hint   string
}

// passing are the codes of what may pass by itself: a run waits for it, within its time.
var passing = map[Code]bool{
	CodeUnreachable: true, CodeRoleUnknown: true, CodeNotRunning: true, CodeKubernetesAPI: true,
	CodeEtcdUnreachable: true, CodeEtcdMembers: true, CodeEtcdLearner: true, CodeEtcdErrors: true,
	CodeEtcdNoLeader: true, CodeEtcdLeaders: true, CodeEtcdLag: true,
	CodeNotRegistered: true, CodeNotReady: true, CodeBudget: true, CodeCanaryHeld: true, CodeHealth: true,
}

// reasons is every reason not to go, in the order of the list of codes.
var reasons = map[Code]reason{
	CodeUnreachable:      {ScopeRun, "look at the machine's console and its network, or leave it out with --exclude"},
	CodeMaintenance:      {ScopeNode, "the machine has no config: install it by `provision --cluster NAME`, or take it out of the inventory"},
	CodeWrongCluster:     {ScopeNode, "correct its address in the inventory, or take the talosconfig of its cluster"},
	CodeAddressShared:    {ScopeRun, "give each node its own address in the inventory; a virtual address is nobody's (siderolabs/talos#11830)"},
	CodeRoleUnknown:      {ScopeRun, "run again; if it stays, look at `talosctl get machinetypes` of the node"},
	CodeVersionUnknown:   {ScopeNode, "run again; if it stays, look at `talosctl version` of the node"},
	CodeNotRunning:       {ScopeRun, "wait until the node is Running and ready, by `talosctl get machinestatus`"},
	CodeDetailsUnknown:   {ScopeNode, "run again; the talosconfig needs the role os:admin to tell how the node was installed"},
	CodePath:             {ScopeRun, "take the stops one after the other, each with --to, or all of them with --stops"},
	CodePathUnknown:      {ScopeRun, "name the stops yourself, each with --to; the Image Factory lists its versions under /versions"},
	CodeReleasesBuiltIn:  {ScopeNote, "compare with the Image Factory's list under /versions, and name each stop with --to where it is newer"},
	CodeDowngrade:        {ScopeRun, "give a version that is not older than any node's; `talosctl rollback` takes a node back to what it ran before"},
	CodeIncompatible:     {ScopeRun, "upgrade to a version in between first"},
	CodeKubernetes:       {ScopeRun, "bring Kubernetes to a version that the target runs, by `talosctl upgrade-k8s`, or take another target"},
	CodeKubernetesAPI:    {ScopeRun, "give a --kubeconfig that reaches the Kubernetes API, or accept with --no-drain that pods are not moved away"},
	CodeKubernetesUnsure: {ScopeRun, "give it with --kubernetes-version"},
	CodeSchematic:        {ScopeNode, "give the node a schematic or schematicID in the inventory: without it its extensions would be lost"},
	CodeSchematicChanges: {ScopeNote, "the inventory asks for it; leave schematicID out to keep what runs"},
	CodeSecureBootSwitch: {ScopeNode, "an upgrade cannot switch Secure Boot (siderolabs/talos#9245): correct secureBoot in the inventory, or install the node anew"},
	CodeSecureBootUnsure: {ScopeNode, "run again; if it stays, look at `talosctl get securitystate` of the node"},
	CodeKernelArgs:       {ScopeNote, "put the arguments into the schematic, as the older way of upgrading will go"},
	CodeKernelArgsDrop:   {ScopeNode, "put the arguments into the schematic, or let the way of upgrading be chosen"},
	CodeConfigRefused:    {ScopeNode, "put the arguments into the schematic, or set grubUseUKICmdline: false in the machine config, before the upgrade"},
	CodeImageUnreadable:  {ScopeNode, "leave the image out: it is named by version and schematic"},
	CodeImageLatest:      {ScopeNode, "name the version in the image's tag"},
	CodeImageVersion:     {ScopeNode, "make the image's tag agree with --to, or leave the image out"},
	CodeImageSchematic:   {ScopeNode, "name an image of the node's own schematic, or leave the image out"},
	CodeImagePlatform:    {ScopeNode, "take metal-installer"},
	CodeImageUnpublished: {ScopeNode, "take the Image Factory's image, or a mirror of it"},
	CodeImageStops:       {ScopeNode, "leave the image out, or take the stops one after the other"},
	CodeEtcdUnreachable:  {ScopeRun, "`talosctl etcd members` of a control plane must answer first"},
	CodeEtcdMembers:      {ScopeRun, "every control plane must be a member and nobody else: look at `talosctl etcd members`, remove what is left over by `talosctl etcd remove-member`"},
	CodeEtcdTwo:          {ScopeRun, "two members cannot lose one: add a third control plane, or take one away by `talosctl etcd leave`"},
	CodeEtcdLearner:      {ScopeRun, "wait until the member is promoted; it does not vote yet"},
	CodeEtcdAlarm:        {ScopeRun, "see `talosctl etcd alarm list`; NOSPACE wants `talosctl etcd defrag`, CORRUPT a member added anew"},
	CodeEtcdErrors:       {ScopeRun, "see `talosctl etcd status` and the log of etcd"},
	CodeEtcdNoLeader:     {ScopeRun, "etcd has no quorum: look at the control planes' etcd logs before anything else"},
	CodeEtcdLeaders:      {ScopeRun, "wait for the election to end; if they go on differing, look at the network between the control planes"},
	CodeEtcdLag:          {ScopeRun, "wait until the member has caught up; if it does not, look at its disk and its network"},
	CodeNotRegistered:    {ScopeRun, "look at the node's kubelet, by `talosctl service kubelet`, or leave the node out with --exclude"},
	CodeNotReady:         {ScopeRun, "look at `kubectl describe node`, or leave the node out with --exclude"},
	CodeNodeDoubled:      {ScopeNote, "delete the Node object that is left over, by `kubectl delete node`; a changed host name leaves one (siderolabs/talos#10760)"},
	CodeNodeForeign:      {ScopeNote, "add it to the inventory to have it upgraded"},
	CodeCordoned:         {ScopeNote, "it stays cordoned: only what this program cordoned is uncordoned by it"},
	CodeBudget:           {ScopeNode, "let the budget allow a disruption, by more replicas or another minAvailable: the drain would wait in vain"},
	CodeServesAPI:        {ScopeNote, "give a --kubeconfig with an address that several control planes share, to reach Kubernetes during its turn"},
	CodeSingleNode:       {ScopeRun, "accept with --single-node that etcd and the Kubernetes API are away while it reboots"},
	CodeCanaryUnknown:    {ScopeRun, "name nodes of this cluster that are to be upgraded with --canary"},
	CodeCanaryHeld:       {ScopeRun, "let its disruption budgets allow a disruption, or take another canary"},
	CodeNetBoot:          {ScopeNode, "upgrade it by its disk, without --method pxe; or correct what is named in the inventory"},
	CodeHealth:           {ScopeRun, "`talosctl health` tells more"},
}

// find makes a finding of a code.
func find(code Code, node, format string, args ...any) Finding {
	r := reasons[code]
	return Finding{Code: code, Blocks: r.blocks, Node: node, Text: fmt.Sprintf(format, args...), Hint: r.hint}
}

// blocking are the findings of a scope.
func blocking(findings []Finding, scope Scope) []Finding {
	var found []Finding
	for _, f := range findings {
		if f.Blocks == scope {
			found = append(found, f)
		}
	}
	return found
}

// Codes are all codes that there are, sorted.
func Codes() []Code { return slices.Sorted(maps.Keys(reasons)) }
