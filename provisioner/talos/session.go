package talos

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"time"

	cosiapi "github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/state"
	cosi "github.com/cosi-project/runtime/pkg/state/protobuf/client"
	clusterapi "github.com/siderolabs/talos/pkg/machinery/api/cluster"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/api/storage"
	"github.com/siderolabs/talos/pkg/machinery/client"
	"github.com/siderolabs/talos/pkg/machinery/constants"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
)

// errConnectionEnded is what a session's calls end in once its only connection is gone.
var errConnectionEnded = errors.New("the connection to the node ended")

// session is a machinery client over one connection that is never replaced. A
// gRPC client of its own would quietly connect again, and behind the address
// may then be another machine: what was learnt of a node holds for the calls
// that follow only as long as the connection lives (I5). It also keeps a call
// from waiting on a connection cut by a kexec (siderolabs/talos#14242).
type session struct {
	*client.Client
	conn *grpc.ClientConn
	raw  net.Conn
}

// newSession speaks gRPC over a connection that has shaken hands. It uses
// nothing of its environment: no proxy (HTTPS_PROXY would be honoured), no
// service config from DNS, no node metadata, no long back-off.
func newSession(conn net.Conn, tlsState tls.ConnectionState) (*session, error) {
	var taken atomic.Bool
	once := func(context.Context, string) (net.Conn, error) {
		if taken.Swap(true) {
			return nil, errConnectionEnded
		}
		return conn, nil
	}
	cc, err := grpc.NewClient("passthrough:///"+conn.RemoteAddr().String(),
		grpc.WithContextDialer(once),
		grpc.WithTransportCredentials(shaken{tlsState}),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(constants.GRPCMaxMessageSize)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: time.Second,
		}),
	)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &session{
		Client: &client.Client{
			MachineClient: machine.NewMachineServiceClient(cc),
			ClusterClient: clusterapi.NewClusterServiceClient(cc),
			StorageClient: storage.NewStorageServiceClient(cc),
			// Both services are there from Talos 1.13 on.
			ImageClient:     machine.NewImageServiceClient(cc),
			LifecycleClient: machine.NewLifecycleServiceClient(cc),
			COSI:            state.WrapCore(cosi.NewAdapter(cosiapi.NewStateClient(cc))),
		},
		conn: cc, raw: conn,
	}, nil
}

// Close hangs up, also when no call was made yet.
func (s *session) Close() {
	_ = s.conn.Close()
	_ = s.raw.Close()
}

// shaken are the credentials of a connection whose handshake is done.
type shaken struct{ state tls.ConnectionState }

// ClientHandshake has nothing left to do.
func (s shaken) ClientHandshake(_ context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return conn, credentials.TLSInfo{
		State:          s.state,
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
}

// ServerHandshake is refused: this is a client.
func (shaken) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("client credentials cannot serve")
}

// Info says that the connection is TLS.
func (shaken) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone copies the credentials.
func (s shaken) Clone() credentials.TransportCredentials { return s }

// OverrideServerName is for dialling only.
func (shaken) OverrideServerName(string) error { return nil }
