package talos_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/talos-provision/provision/provisioner/talos"
)

func layer(id string, step machine.ImageServicePullLayerProgress_Status, offset, total int64) *machine.ImageServicePullResponse {
	return &machine.ImageServicePullResponse{Response: &machine.ImageServicePullResponse_PullProgress{PullProgress: &machine.ImageServicePullProgress{
		LayerId: id, Progress: &machine.ImageServicePullLayerProgress{Status: step, Offset: offset, Total: total},
	}}}
}

func TestPullTellsItsProgress(t *testing.T) {
	t.Parallel()
	n := newNode(t, "v1.13.9", noArgs)
	const id = "sha256:0123456789abcdef0123"
	n.registry.said = []*machine.ImageServicePullResponse{
		layer(id, machine.ImageServicePullLayerProgress_DOWNLOADING, 10, 1000),
		layer(id, machine.ImageServicePullLayerProgress_DOWNLOADING, 20, 1000),
		layer("sha256:ff", machine.ImageServicePullLayerProgress_ALREADY_EXISTS, 0, 0),
		layer(id, machine.ImageServicePullLayerProgress_DOWNLOADING, 550, 1000),
		layer(id, machine.ImageServicePullLayerProgress_EXTRACT_COMPLETE, 0, 0),
	}
	var lines []string
	if err := n.admin(t).Pull(t.Context(), "127.0.0.1", installer, func(line string) { lines = append(lines, line) }); err != nil {
		t.Fatal(err)
	}
	want := []string{"layer 0123456789ab: downloading 0%", "layer ff: is there already", "layer 0123456789ab: downloading 50%", "layer 0123456789ab: extracted"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"pull CRI/NS_SYSTEM " + installer}, n.machine.seen()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// A bad tag or schematic is told before anything is touched, by every version.
func TestPullTellsAnImageThatIsNotThere(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ answer, want error }{
		"no tag":          {status.Error(codes.NotFound, "error pulling image: failed to resolve reference: x: not found"), talos.ErrImageNotFound},
		"no tag, no code": {unknown("1 error(s) occurred: failed to pull image: x: not found"), talos.ErrImageNotFound},
		// siderolabs/image-factory#103
		"no schematic":   {unknown("unexpected status from HEAD request to https://factory.talos.dev/v2/x: 400 Bad Request"), talos.ErrImageNotFound},
		"no way there":   {unknown("dial tcp: lookup factory.talos.dev: no such host"), nil},
		"no space":       {unknown("failed to extract layer: no space left on device"), nil},
		"not allowed":    {status.Error(codes.PermissionDenied, "not authorized"), talos.ErrNotAuthorized},
		"the node stops": {status.Error(codes.Unavailable, "the connection is draining"), nil},
	}
	for name, tt := range tests {
		for _, version := range []string{"v1.13.9", "v1.12.11"} {
			t.Run(name+" "+version, func(t *testing.T) {
				t.Parallel()
				n := newNode(t, version, noArgs)
				n.registry.err, n.machine.image = tt.answer, tt.answer
				err := n.admin(t).Pull(t.Context(), "127.0.0.1", installer, nil)
				wantKind(t, err, tt.want)
				if !contains(err, installer) {
					t.Errorf("error = %q does not name the image", err)
				}
			})
		}
	}
}

func TestPullOfOlderVersionsChecksTheImage(t *testing.T) {
	t.Parallel()
	n := newNode(t, "v1.12.11", noArgs)
	if err := n.admin(t).Pull(t.Context(), "127.0.0.1", installer, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"check NS_SYSTEM " + installer}, n.machine.seen()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestPullOfANodeThatCannot(t *testing.T) {
	t.Parallel()
	f := &fake{ca: newCA(t)}
	wantKind(t, adminOf(t, f.ca, f.start(t)).Pull(t.Context(), "127.0.0.1", installer, nil), talos.ErrNotSupported)
}

func TestPullWithoutANameIsNoPull(t *testing.T) {
	t.Parallel()
	n := newNode(t, "v1.13.9", noArgs)
	n.registry.nameless = true
	wantKind(t, n.admin(t).Pull(t.Context(), "127.0.0.1", installer, nil), nil)
}
