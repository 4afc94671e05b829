package talos_test

import (
	"errors"
	"testing"

	"github.com/cosi-project/runtime/pkg/resource"
	machinetype "github.com/siderolabs/talos/pkg/machinery/config/machine"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/talos"
)

// I6: etcd is bootstrapped only where it is proven that it waits for that.
func TestBootstrapOnlyWhereEtcdWaits(t *testing.T) {
	t.Parallel()
	controlPlane := clusterMachine(machinetype.TypeControlPlane)
	tests := map[string]struct {
		node      *member
		resources []resource.Resource
		confirm   func(identity.Facts) error
		want      error
		asked     bool
	}{
		"waiting":             {node: &member{etcd: "Preparing"}, asked: true},
		"running":             {node: &member{etcd: "Running"}, want: talos.ErrAlreadyBootstrapped},
		"not ready to wait":   {node: &member{etcd: "Waiting"}, want: talos.ErrNotWaiting},
		"no etcd service yet": {node: &member{}, want: talos.ErrNotWaiting},
		"a worker":            {node: &member{etcd: "Preparing"}, resources: clusterMachine(machinetype.TypeWorker), want: talos.ErrNotControlPlane},
		"another machine": {node: &member{etcd: "Preparing"}, want: talos.ErrNotConfirmed,
			confirm: func(identity.Facts) error { return errors.New("node-07") }},
		"data from before": {node: &member{etcd: "Preparing", err: status.Error(codes.AlreadyExists, "etcd data directory is not empty")},
			want: talos.ErrAlreadyBootstrapped, asked: true},
		"clock not set": {node: &member{etcd: "Preparing", err: status.Error(codes.FailedPrecondition, "time is not in sync yet")},
			want: talos.ErrNotWaiting, asked: true},
		"no control plane": {node: &member{etcd: "Preparing", err: status.Error(codes.FailedPrecondition, "bootstrap can only be performed on a control plane node")},
			want: talos.ErrNotControlPlane, asked: true},
		"cut off":  {node: &member{etcd: "Preparing", err: status.Error(codes.Unavailable, "closing")}, want: talos.ErrOutcomeUnknown, asked: true},
		"a reader": {node: &member{etcd: "Preparing", err: status.Error(codes.PermissionDenied, "not authorized")}, want: talos.ErrNotAuthorized, asked: true},
	}
	for name := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt := tests[name]
			node := tt.node
			if tt.resources == nil {
				tt.resources = controlPlane
			}
			ca := newCA(t)
			admin := adminOf(t, ca, (&fake{ca: ca, machine: node, resources: tt.resources}).start(t))
			admin.Confirm = tt.confirm
			if err := admin.Bootstrap(t.Context(), "127.0.0.1"); !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
			if asked := len(node.seen()) == 1; asked != tt.asked {
				t.Errorf("the node was asked: %t, want %t", asked, tt.asked)
			}
		})
	}
}
