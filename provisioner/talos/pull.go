package talos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/api/common"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// pullTimeout bounds a pull: the node itself gives up after 20 min.
const pullTimeout = 20 * time.Minute

// systemImages is where Talos keeps images that are not Kubernetes': on disk, in
// the containerd that Kubernetes uses, in a namespace of its own. Talos deletes
// from it what nothing refers to an hour after the pull (image_gc.go).
func systemImages() *common.ContainerdInstance {
	return &common.ContainerdInstance{Driver: common.ContainerDriver_CRI, Namespace: common.ContainerdNamespace_NS_SYSTEM}
}

// Pull has the node pull an installer's image, so that a tag or a schematic that
// does not exist shows before anything is touched: it is an ErrImageNotFound.
// progress, which may be nil, gets a line for each step of a layer. An image
// that the node has is not pulled again.
//
// Talos 1.12 and older check the image likewise, but keep it where their upgrade
// does not look: it is pulled again then. A node that can do neither is an
// ErrNotSupported.
func (a Admin) Pull(ctx context.Context, host, image string, progress func(string)) error {
	return a.changeWithin(ctx, pullTimeout, host, func(ctx context.Context, c *session) error {
		_, err := pullImage(ctx, c, host, image, progress)
		if errors.Is(err, ErrNotSupported) {
			return pullLegacy(ctx, c, host, image)
		}
		return err
	})
}

// pullImage returns the name under which the node has the image.
func pullImage(ctx context.Context, c *session, host, image string, progress func(string)) (string, error) {
	stream, err := c.ImageClient.Pull(ctx, &machine.ImageServicePullRequest{Containerd: systemImages(), ImageRef: image})
	if err != nil {
		return "", pullError(ctx, host, image, err)
	}
	told := map[string]string{}
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return "", fmt.Errorf("pulling %s on %s: the node ended without the image's name; pull again", image, host)
		}
		if err != nil {
			return "", pullError(ctx, host, image, err)
		}
		if name := answer.GetName(); name != "" {
			return name, nil
		}
		layer := answer.GetPullProgress()
		line := layerLine(layer.GetLayerId(), layer.GetProgress())
		if progress != nil && layer != nil && told[layer.GetLayerId()] != line {
			told[layer.GetLayerId()] = line
			progress(line)
		}
	}
}

// pullLegacy is the call of Talos 1.12 and older.
func pullLegacy(ctx context.Context, c *session, host, image string) error {
	//nolint:staticcheck // older versions have no other
	if err := c.ImagePull(ctx, common.ContainerdNamespace_NS_SYSTEM, image); err != nil {
		return pullError(ctx, host, image, err)
	}
	return nil
}

// layerSteps are the steps of a layer in words.
var layerSteps = map[machine.ImageServicePullLayerProgress_Status]string{
	machine.ImageServicePullLayerProgress_DOWNLOADING:       "downloading",
	machine.ImageServicePullLayerProgress_DOWNLOAD_COMPLETE: "downloaded",
	machine.ImageServicePullLayerProgress_EXTRACTING:        "extracting",
	machine.ImageServicePullLayerProgress_EXTRACT_COMPLETE:  "extracted",
	machine.ImageServicePullLayerProgress_ALREADY_EXISTS:    "is there already",
}

// layerLine tells a layer's progress in tenths, so that not each of the many
// messages makes a line of its own.
func layerLine(id string, p *machine.ImageServicePullLayerProgress) string {
	const shortID = 12
	id = strings.TrimPrefix(printable(id), "sha256:")
	line := fmt.Sprintf("layer %s: %s", id[:min(len(id), shortID)], layerSteps[p.GetStatus()])
	if p.GetStatus() == machine.ImageServicePullLayerProgress_DOWNLOADING && p.GetTotal() > 0 {
		line += fmt.Sprintf(" %d%%", p.GetOffset()*10/p.GetTotal()*10)
	}
	return line
}

// imageAbsences are what containerd says when a registry does not have an image.
// The Image Factory answers 400 for a version or a schematic that it cannot make
// (siderolabs/image-factory#103).
var imageAbsences = []string{"not found", "400 Bad Request", "404 Not Found", "manifest unknown", "pull access denied"}

func imageAbsent(s *status.Status) bool {
	if s.Code() == codes.NotFound {
		return true
	}
	for _, text := range imageAbsences {
		if strings.Contains(s.Message(), text) {
			return true
		}
	}
	return false
}

func pullError(ctx context.Context, host, image string, err error) error {
	s := status.Convert(err)
	if ctx.Err() == nil && s.Code() != codes.Unimplemented && imageAbsent(s) {
		return imageNotFound(host, image, s)
	}
	return callError(ctx, "the pull of "+image, host, err)
}

func imageNotFound(host, image string, s *status.Status) error {
	return fmt.Errorf("pulling %s on %s: the node answers: %s: %w; look at its tag and its schematic", image, host, s.Message(), ErrImageNotFound)
}
