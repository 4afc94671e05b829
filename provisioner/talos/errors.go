package talos

import "errors"

// The kinds of failure that a caller acts on; found with errors.Is.
var (
	// ErrConfigRefused: the node's validator does not take the config. Nothing was changed.
	ErrConfigRefused = errors.New("the node refuses the machine config")
	// ErrApplyInProgress: the node is taking a config already (Talos 1.13 and later).
	ErrApplyInProgress = errors.New("another machine config is being applied")
	// ErrNotInMaintenance: the node demands a client certificate, so it has a config (I2).
	ErrNotInMaintenance = errors.New("the node is not in maintenance mode")
	// ErrNotConfirmed: the machine that answers is not the one that was meant (I5). Nothing was sent to it.
	ErrNotConfirmed = errors.New("the machine that answers is not confirmed")
	// ErrOutcomeUnknown: the connection ended after the request was sent and before its answer.
	// The node may have acted on it: look before asking again.
	ErrOutcomeUnknown = errors.New("the answer was lost, the node may have acted")
	// ErrInMaintenance: the node is in maintenance mode, so it belongs to no cluster yet.
	ErrInMaintenance = errors.New("the node is in maintenance mode")
	// ErrWrongPKI: what answers belongs to another cluster than the talosconfig.
	ErrWrongPKI = errors.New("the node and the talosconfig belong to different clusters")
	// ErrAccessExpired: the client certificate of the talosconfig is no longer valid.
	ErrAccessExpired = errors.New("the talosconfig's client certificate has expired")
	// ErrNotAuthorized: the talosconfig's role does not allow the call.
	ErrNotAuthorized = errors.New("the talosconfig's role does not allow this")
	// ErrNotSupported: this node cannot do that: its version is too old, or it is no control plane.
	ErrNotSupported = errors.New("the node does not offer this")
	// ErrAlreadyBootstrapped: etcd has data or members here. Bootstrapping again would lose them (I6).
	ErrAlreadyBootstrapped = errors.New("etcd is bootstrapped already")
	// ErrNotControlPlane: the node is a worker, it runs no etcd.
	ErrNotControlPlane = errors.New("the node is not a control plane")
	// ErrUnhealthy: the cluster is not as it should be.
	ErrUnhealthy = errors.New("the cluster is not healthy")
	// ErrImageNotFound: the registry does not have the image: its tag or its schematic does not exist.
	ErrImageNotFound = errors.New("the registry does not have this image")
	// ErrUpgradeInProgress: the node is installing or upgrading already.
	ErrUpgradeInProgress = errors.New("another installation or upgrade is in progress")
	// ErrNotInstalled: Talos runs from memory, there is nothing on a disk to upgrade.
	ErrNotInstalled = errors.New("the node is not installed")
	// ErrInstallerFailed: the installer told no exit code, or one that is not 0. The node was not
	// rebooted and runs what it ran.
	ErrInstallerFailed = errors.New("the installer failed")
	// ErrEtcdRefuses: the node's own look at etcd forbids to take it down now. Nothing was changed.
	ErrEtcdRefuses = errors.New("etcd cannot lose this node now")
	// ErrRollbackRefused: the node cannot boot what it ran before. Nothing was changed.
	ErrRollbackRefused = errors.New("the node cannot go back")
	// ErrNotWaiting: etcd of the node does not wait for its bootstrap yet: ask again soon.
	ErrNotWaiting = errors.New("etcd does not wait for its bootstrap yet")
)
