package talosnode

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// rules refuse calls before they reach their handler: full method name -> answer.
type rules map[string]error

func (r rules) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := r[info.FullMethod]; err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (r rules) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := r[info.FullMethod]; err != nil {
		return err
	}
	return next(srv, ss)
}

// notForReaders are the calls that from 1.13 on answer a peer without a client
// certificate with PermissionDenied: their rule does not include the role Reader.
var notForReaders = map[string]string{
	"/machine.MachineService/": `Reboot Shutdown Restart Rollback Reset Upgrade MetaWrite MetaDelete
		ServiceStart ServiceStop ServiceRestart Read Copy PacketCapture Kubeconfig Bootstrap ImagePull
		GenerateClientConfiguration EtcdSnapshot EtcdRecover EtcdLeaveCluster EtcdRemoveMemberByID
		EtcdForfeitLeadership EtcdDefragment EtcdAlarmDisarm EtcdDowngradeValidate EtcdDowngradeEnable
		EtcdDowngradeCancel`,
	"/machine.LifecycleService/": `Install Upgrade`,
	"/machine.ImageService/":     `Pull Import Remove`,
	"/machine.DebugService/":     `ContainerRun`,
	"/cosi.resource.State/":      `Create Update Destroy`,
}

// onlyOnControlPlanes are answered by control planes, which a node in maintenance is not yet.
const onlyOnControlPlanes = "EtcdMemberList EtcdStatus EtcdAlarmList"

// adminInMaintenance are the calls that the maintenance server of 1.12 and
// older has, and answers only over SideroLink.
const adminInMaintenance = "Version Upgrade Reset MetaWrite MetaDelete"

// accessRules is the table of refusals for a version and mode. A configured
// node has none: who gets past its TLS is its administrator.
func accessRules(act behaviour, mode mode) rules {
	r := rules{}
	switch {
	case mode == configured:
	case act.apid:
		denied := status.Error(codes.PermissionDenied, "not authorized")
		for service, methods := range notForReaders {
			r.add(service, methods, denied)
		}
		r.add("/machine.MachineService/", onlyOnControlPlanes,
			status.Error(codes.Unimplemented, "method is only available on control plane nodes"))
	default:
		r.add("/machine.MachineService/", adminInMaintenance,
			status.Error(codes.Unimplemented, "API is not implemented in maintenance mode"))
		r.add("/machine.MachineService/", "GenerateClientConfiguration",
			status.Error(codes.Unimplemented, "client configuration (talosconfig) can't be generated in the maintenance mode"))
	}
	return r
}

func (r rules) add(service, methods string, answer error) {
	for method := range strings.FieldsSeq(methods) {
		r[service+method] = answer
	}
}
