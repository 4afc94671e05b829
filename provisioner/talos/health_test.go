package talos_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clusterapi "github.com/siderolabs/talos/pkg/machinery/api/cluster"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/talos-provision/provision/provisioner/talos"
)

// checker streams lines and ends in err; hang keeps the stream open.
type checker struct {
	clusterapi.UnimplementedClusterServiceServer
	lines   []string
	err     error
	request chan *clusterapi.HealthCheckRequest
}

func (c *checker) HealthCheck(r *clusterapi.HealthCheckRequest, stream clusterapi.ClusterService_HealthCheckServer) error {
	c.request <- r
	for _, line := range c.lines {
		if err := stream.Send(&clusterapi.HealthCheckProgress{Message: line}); err != nil {
			return err
		}
	}
	return c.err
}

func TestHealthStreamsWhatTheNodeSays(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err  error
		want error
		text string
	}{
		"healthy":   {},
		"unhealthy": {errors.New("context deadline exceeded"), talos.ErrUnhealthy, "waiting for etcd to be healthy: OK"},
		"a worker":  {status.Error(codes.Unimplemented, "health check is only available on control plane nodes"), talos.ErrNotSupported, "only available on control plane"},
		"cut off":   {status.Error(codes.Unavailable, "closing"), nil, `it was at "waiting for etcd to be healthy: OK"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ca := newCA(t)
			node := &checker{err: tt.err, lines: []string{"discovered nodes: x", "waiting for etcd to be healthy: OK\n"}, request: make(chan *clusterapi.HealthCheckRequest, 1)}
			admin := adminOf(t, ca, (&fake{ca: ca, cluster: node}).start(t))
			var lines []string
			err := admin.Health(t.Context(), "127.0.0.1", talos.HealthRequest{
				ControlPlanes: []string{"10.0.0.1"}, Workers: []string{"10.0.0.2"}, Timeout: time.Minute,
			}, func(line string) { lines = append(lines, line) })
			if tt.err == nil && err != nil || tt.err != nil && (err == nil || !strings.Contains(err.Error(), tt.text)) {
				t.Errorf("error = %v, want %q", err, tt.text)
			}
			if tt.want != nil && !errors.Is(err, tt.want) || tt.want == nil && errors.Is(err, talos.ErrUnhealthy) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
			if diff := cmp.Diff([]string{"discovered nodes: x", "waiting for etcd to be healthy: OK"}, lines); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
			got := <-node.request
			if got.GetWaitTimeout().AsDuration() != time.Minute || !cmp.Equal(got.GetClusterInfo().GetControlPlaneNodes(), []string{"10.0.0.1"}) ||
				!cmp.Equal(got.GetClusterInfo().GetWorkerNodes(), []string{"10.0.0.2"}) {
				t.Errorf("request = %v", got)
			}
		})
	}
}
