package e2e_test

import (
	"context"
	"crypto/tls"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/client"
	"google.golang.org/grpc"
)

// talosClient is a client of the Talos API of 10.98.0.11.
func (s *site) talosClient(options ...client.OptionFunc) *client.Client {
	s.t.Helper()
	options = append(options, client.WithEndpoints("10.98.0.11"),
		client.WithGRPCDialOptions(grpc.WithNoProxy(), grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return s.network.Dial(ctx, "tcp", address)
		})))
	c, err := client.New(context.WithoutCancel(s.t.Context()), options...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// runsUnderMTLS checks that the node answers who has the talosconfig, and nobody
// else, and returns the id of the only etcd member.
func (s *site) runsUnderMTLS() uint64 {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	admin := s.talosClient(client.WithConfigFromFile(filepath.Join(s.dir, "configs/metal/talosconfig")))
	version, err := admin.Version(ctx)
	if err != nil || version.GetMessages()[0].GetVersion().GetTag() != s.version {
		s.t.Fatalf("with the talosconfig the node answers %v, %v; want %s", version, err, s.version)
	}
	stranger := s.talosClient(client.WithTLSConfig(&tls.Config{InsecureSkipVerify: true})) //nolint:gosec // a stranger does not care
	if answer, err := stranger.Version(ctx); err == nil || ctx.Err() != nil {
		s.t.Errorf("without the talosconfig the node answers %v, %v; want a refusal", answer, err)
	}
	members := etcdMembers(ctx, s.t, admin)
	if len(members) != 1 || members[0].GetHostname() != "node-01" {
		s.t.Fatalf("etcd's members are %v, want node-01 alone", members)
	}
	return members[0].GetId()
}

// etcdMembers waits for etcd: after a boot it comes up later than the API.
func etcdMembers(ctx context.Context, t *testing.T, admin *client.Client) []*machine.EtcdMember {
	t.Helper()
	for {
		answer, err := admin.EtcdMemberList(ctx, &machine.EtcdMemberListRequest{})
		if err == nil {
			return answer.GetMessages()[0].GetMembers()
		}
		select {
		case <-ctx.Done():
			t.Fatalf("etcd does not answer: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
