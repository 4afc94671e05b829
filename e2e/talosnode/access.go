package talosnode

import (
	"context"
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/role"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// access decides about calls before they reach their handler.
type access struct {
	mode    mode
	refused map[string]error // full method name -> answer, whoever calls
	only    map[string]bool  // if not nil, any other method is not there
}

// errNotAuthorized is the answer to who may not do what he asks for.
var errNotAuthorized = status.Error(codes.PermissionDenied, "not authorized")

// roles are what a caller may do.
type roles struct{ admin, operator, reader, backup bool }

// rolesOf reads the roles from the organisations of the client certificate. In
// maintenance mode, where nobody has one, everybody is a reader.
func rolesOf(ctx context.Context, mode mode) roles {
	if mode == maintenance {
		return roles{reader: true}
	}
	caller, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return roles{}
	}
	info, ok := caller.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return roles{}
	}
	set, _ := role.Parse(info.State.PeerCertificates[0].Subject.Organization)
	return roles{
		admin: set.Includes(role.Admin), operator: set.Includes(role.Operator),
		reader: set.Includes(role.Reader), backup: set.Includes(role.EtcdBackup),
	}
}

// adminCalls are the calls that the role reader does not include.
var adminCalls = methods(map[string]string{
	"/machine.MachineService/": `Reboot Shutdown Restart Rollback Reset Upgrade MetaWrite MetaDelete
		ServiceStart ServiceStop ServiceRestart Read Copy PacketCapture Kubeconfig Bootstrap ImagePull
		GenerateClientConfiguration EtcdSnapshot EtcdRecover EtcdLeaveCluster EtcdRemoveMemberByID
		EtcdForfeitLeadership EtcdDefragment EtcdAlarmDisarm EtcdDowngradeValidate EtcdDowngradeEnable
		EtcdDowngradeCancel`,
	"/machine.LifecycleService/": `Install Upgrade`,
	"/machine.ImageService/":     `Pull Import Remove`,
	"/machine.DebugService/":     `ContainerRun`,
	"/cosi.resource.State/":      `Create Update Destroy`,
})

// operatorCalls are those of adminCalls that an operator may do.
var operatorCalls = methods(map[string]string{
	"/machine.MachineService/": `Reboot Shutdown Restart ServiceStart ServiceStop ServiceRestart PacketCapture
		ImagePull EtcdSnapshot EtcdDefragment EtcdAlarmDisarm`,
	"/machine.ImageService/": `Pull`,
})

// maintenanceCalls are for readers in maintenance mode only.
var maintenanceCalls = methods(map[string]string{
	"/machine.MachineService/": `ApplyConfiguration`,
	"/storage.StorageService/": `BlockDeviceWipe`,
})

// backupCalls are all that the role etcd:backup may do.
var backupCalls = methods(map[string]string{
	"/machine.MachineService/": `EtcdSnapshot EtcdMemberList EtcdStatus EtcdAlarmList`,
})

// oldMaintenanceCalls are what the maintenance server of 1.12 and older has of
// MachineService, and of it what it answers only over SideroLink.
const (
	oldMaintenanceCalls = "ApplyConfiguration GenerateConfiguration GenerateClientConfiguration"
	adminInMaintenance  = "Version Upgrade Reset MetaWrite MetaDelete"
)

// onlyOnControlPlanes are answered by control planes, which a node in maintenance is not yet.
const onlyOnControlPlanes = "EtcdMemberList EtcdStatus EtcdAlarmList"

// accessRules are those of a version and mode.
func accessRules(act behaviour, mode mode) access {
	a := access{mode: mode, refused: map[string]error{}}
	const machineService = "/machine.MachineService/"
	switch {
	case mode == configured:
	case act.apid:
		a.refuse(machineService, onlyOnControlPlanes,
			status.Error(codes.Unimplemented, "method is only available on control plane nodes"))
	default:
		a.refuse(machineService, adminInMaintenance,
			status.Error(codes.Unimplemented, "API is not implemented in maintenance mode"))
		a.refuse(machineService, "GenerateClientConfiguration",
			status.Error(codes.Unimplemented, "client configuration (talosconfig) can't be generated in the maintenance mode"))
		a.only = methods(map[string]string{machineService: oldMaintenanceCalls})
	}
	return a
}

func (a access) refuse(service, names string, answer error) {
	for name := range methods(map[string]string{service: names}) {
		a.refused[name] = answer
	}
}

// check is the answer to a call that must not reach its handler, else nil.
func (a access) check(ctx context.Context, method string) error {
	if err := a.refused[method]; err != nil {
		return err
	}
	if name, ok := strings.CutPrefix(method, "/machine.MachineService/"); ok && a.only != nil && !a.only[method] {
		return status.Errorf(codes.Unimplemented, "method %s not implemented", name)
	}
	if a.only != nil {
		return nil // 1.12 and older: the resources have their own rules
	}
	who := rolesOf(ctx, a.mode)
	switch {
	case who.admin:
		return nil
	case maintenanceCalls[method] && a.mode == configured:
		return errNotAuthorized
	case who.operator && (!adminCalls[method] || operatorCalls[method]),
		who.reader && !adminCalls[method],
		who.backup && backupCalls[method]:
		return nil
	}
	return errNotAuthorized
}

func (a access) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := a.check(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (a access) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := a.check(ss.Context(), info.FullMethod); err != nil {
		return err
	}
	return next(srv, ss)
}

// methods makes a set of full method names.
func methods(byService map[string]string) map[string]bool {
	set := map[string]bool{}
	for service, names := range byService {
		for name := range strings.FieldsSeq(names) {
			set[service+name] = true
		}
	}
	return set
}
