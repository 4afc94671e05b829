package talos

import (
	"context"
	"fmt"
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/client"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var upgradeModes = map[RebootMode]machine.UpgradeRequest_RebootMode{
	RebootDefault:    machine.UpgradeRequest_DEFAULT,
	RebootPowercycle: machine.UpgradeRequest_POWERCYCLE,
}

// upgradeLegacy gives the order. The node pulls the image and looks at etcd
// before it answers, and installs after that.
func upgradeLegacy(ctx context.Context, c *session, host string, request UpgradeRequest, result *UpgradeResult) error {
	answer, err := c.UpgradeWithOptions(ctx, //nolint:staticcheck // older versions have no other
		client.WithUpgradeImage(request.Image),
		client.WithUpgradeRebootMode(upgradeModes[request.Mode]),
		client.WithUpgradeStage(request.Stage),
		client.WithUpgradeForce(request.Force),
		client.WithUpgradePreserve(request.Preserve),
	)
	if err != nil {
		return legacyError(ctx, host, request.Image, err)
	}
	for _, message := range answer.GetMessages() {
		result.Ack, result.ActorID = message.GetAck(), message.GetActorId()
	}
	return nil
}

// etcdRefusals begin the answers in which a control plane's look at etcd ended.
// The mutex is a lock in etcd that only one node has at a time, while it looks.
var etcdRefusals = []string{
	"error validating etcd for upgrade", "failed to acquire upgrade mutex", "failed to acquire upgrade lock", "failed to create etcd client",
}

// legacyError reads the refusals, which have words only. The prefixes are those
// of Talos 1.9 to 1.14 (v1alpha1_server.go); their codes are those of whatever
// failed below.
func legacyError(ctx context.Context, host, image string, err error) error {
	s := status.Convert(err)
	if ctx.Err() != nil {
		return changeError(ctx, "the upgrade", host, err)
	}
	for _, text := range etcdRefusals {
		if strings.Contains(s.Message(), text) {
			return fmt.Errorf("upgrading %s: the node answers: %s: %w; look at its members by `talosctl etcd status`", host, s.Message(), ErrEtcdRefuses)
		}
	}
	switch invalid := strings.Contains(s.Message(), "error validating installer image"); {
	case invalid && imageAbsent(s):
		return imageNotFound(host, image, s)
	case invalid:
		return fmt.Errorf("upgrading %s: the node answers: %s; look at its way to the registry", host, s.Message())
	case s.Code() == codes.FailedPrecondition && strings.Contains(s.Message(), "not installed"):
		return fmt.Errorf("upgrading %s: the node answers: %s: %w; install it first", host, s.Message(), ErrNotInstalled)
	}
	return changeError(ctx, "the upgrade", host, err)
}
