package talos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// upgradeLifecycle pulls the image, as the one that was pulled before may have
// been deleted since, and runs the installer.
func upgradeLifecycle(ctx context.Context, c *session, host string, request UpgradeRequest, result *UpgradeResult) error {
	lines := &installerLines{redact: redactorFor(ctx, c, request.Image), emit: request.Line}
	name, err := pullImage(ctx, c, host, request.Image, nil)
	if err != nil {
		return err
	}
	stream, err := c.LifecycleClient.Upgrade(ctx, &machine.LifecycleServiceUpgradeRequest{
		Containerd: systemImages(), Source: &machine.InstallArtifactsSource{ImageName: name},
	})
	for err == nil {
		var answer *machine.LifecycleServiceUpgradeResponse
		if answer, err = stream.Recv(); err != nil {
			break
		}
		switch said := answer.GetProgress().GetResponse().(type) {
		case *machine.LifecycleServiceInstallProgress_Message:
			lines.write(said.Message)
		case *machine.LifecycleServiceInstallProgress_ExitCode:
			result.Exited, result.ExitCode = true, said.ExitCode
			lines.flush()
			result.Lines = lines.kept
			if said.ExitCode == 0 {
				return nil
			}
			return lines.explain(fmt.Errorf("upgrading %s: %w with exit code %d", host, ErrInstallerFailed, said.ExitCode))
		}
	}
	lines.flush()
	result.Lines = lines.kept
	return lines.explain(lifecycleError(ctx, host, lines.redact, err))
}

// redactorFor hides what the node's machine config keeps secret. Where it cannot
// be read, everything is hidden that looks like a value.
func redactorFor(ctx context.Context, c *session, image string) *redactor {
	config, err := readConfig(ctx, c)
	redact := newRedactor(config)
	redact.strict = err != nil
	redact.harmless[image] = true
	return redact
}

// explain adds the last lines to an error.
func (l *installerLines) explain(err error) error {
	if len(l.kept) == 0 {
		return err
	}
	return fmt.Errorf("%w; its last lines: %s", err, l.last())
}

// lifecycleError tells what the service answered. It answers an error only where
// no installer ended: it "should not respond with error even if exit code is
// non-zero" (lifecycle.proto).
func lifecycleError(ctx context.Context, host string, redact *redactor, err error) error {
	s := status.Convert(err)
	raw, text := s.Message(), redact.clean(s.Message())
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("upgrading %s: %w: it told no exit code", host, ErrInstallerFailed)
	case ctx.Err() != nil:
	case s.Code() == codes.FailedPrecondition && strings.Contains(raw, "already in progress"):
		return fmt.Errorf("upgrading %s: the node answers: %s: %w; wait for it, a reboot ends it too", host, text, ErrUpgradeInProgress)
	case s.Code() == codes.FailedPrecondition && strings.Contains(raw, "not installed"):
		return fmt.Errorf("upgrading %s: the node answers: %s: %w; install it first", host, text, ErrNotInstalled)
	case s.Code() == codes.Internal && strings.Contains(raw, "not found in containerd store"):
		return fmt.Errorf("upgrading %s: the node answers: %s: %w; pull it again", host, text, ErrImageNotFound)
	case s.Code() == codes.Internal && (strings.HasPrefix(raw, "upgrade failed:") || strings.Contains(raw, "system disk")):
		return fmt.Errorf("upgrading %s: the node answers: %s: %w", host, text, ErrInstallerFailed)
	}
	return changeError(ctx, "the upgrade", host, status.Error(s.Code(), text))
}
