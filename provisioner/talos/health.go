package talos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	clusterapi "github.com/siderolabs/talos/pkg/machinery/api/cluster"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// defaultHealthTimeout is what talosctl health waits by default, less patience:
// a cluster that comes up has its own waits.
const defaultHealthTimeout = 5 * time.Minute

// healthGrace is what the node gets on top to say what it waited for in vain.
const healthGrace = 15 * time.Second

// HealthRequest is what the cluster should look like.
type HealthRequest struct {
	// ControlPlanes and Workers are the nodes' IP addresses. When both are empty, the node
	// takes those that Kubernetes knows.
	ControlPlanes, Workers []string
	// Timeout is how long the node waits for the cluster to become healthy; 0 means 5 min.
	Timeout time.Duration
}

// Health has a control-plane node check its cluster: etcd, API servers, kubelets,
// nodes Ready. progress, which may be nil, gets each line that the node says as
// it comes. An unhealthy cluster is an ErrUnhealthy; on a worker the error is an
// ErrNotSupported.
func (a Admin) Health(ctx context.Context, host string, request HealthRequest, progress func(string)) error {
	timeout := request.Timeout
	if timeout <= 0 {
		timeout = defaultHealthTimeout
	}
	return a.callWithin(ctx, timeout+healthGrace, host, func(ctx context.Context, c *session) error {
		stream, err := c.ClusterHealthCheck(ctx, timeout, &clusterapi.ClusterInfo{
			ControlPlaneNodes: request.ControlPlanes, WorkerNodes: request.Workers,
		})
		if err != nil {
			return callError(ctx, "checking the cluster", host, err)
		}
		var last string
		for {
			message, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return healthError(ctx, host, last, err)
			}
			if text := message.GetMetadata().GetError(); text != "" {
				return fmt.Errorf("%w, as %s sees it: %s", ErrUnhealthy, host, text)
			}
			last = strings.TrimSpace(message.GetMessage())
			if progress != nil && last != "" {
				progress(last)
			}
		}
	})
}

// healthError tells a cluster that is not healthy from a check that did not
// come to its end. What the node waited for is what a person needs to know.
func healthError(ctx context.Context, host, last string, err error) error {
	switch s := status.Convert(err); {
	case ctx.Err() == nil && (s.Code() == codes.Unknown || s.Code() == codes.DeadlineExceeded):
		return fmt.Errorf("%w, as %s sees it: %s: %s", ErrUnhealthy, host, s.Message(), last)
	case last != "":
		return fmt.Errorf("%w (it was at %q)", callError(ctx, "checking the cluster", host, err), last)
	}
	return callError(ctx, "checking the cluster", host, err)
}
