package talosnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/compatibility"
	"github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/configdiff"
	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// metal is the platform's mode for validation.
type metal struct{ installed bool }

func (metal) String() string          { return "metal" }
func (m metal) RequiresInstall() bool { return !m.installed }
func (metal) InContainer() bool       { return false }

// ApplyConfiguration checks a machine config as the node's version does and
// takes it: in maintenance mode the node then installs itself, configured it
// changes.
func (s *machineService) ApplyConfiguration(ctx context.Context, req *machine.ApplyConfigurationRequest) (*machine.ApplyConfigurationResponse, error) {
	sys := s.system
	if !sys.applying.TryLock() {
		return nil, status.Error(codes.FailedPrecondition, "another apply configuration is already in progress")
	}
	defer sys.applying.Unlock()
	if sys.applied {
		return nil, status.Error(codes.FailedPrecondition,
			"configuration was already applied and node is rebooting, cannot apply more configuration changes until next reboot")
	}
	if sys.mode == configured && !rolesOf(ctx, sys.mode).admin {
		return nil, errNotAuthorized
	}
	if err := sys.checkMode(req.GetMode()); err != nil {
		return nil, err
	}
	cfg, warnings, err := sys.validate(ctx, req.GetData())
	if err != nil {
		return nil, err
	}
	if sys.node.cfg.OnApply != nil {
		sys.node.cfg.OnApply(req.GetData(), req.GetDryRun())
	}
	answer := &machine.ApplyConfiguration{Mode: req.GetMode(), Warnings: warnings}
	if sys.act.apid || sys.mode == configured {
		answer.Mode, answer.ModeDetails = sys.effectiveMode(req.GetMode())
	}
	if req.GetDryRun() {
		answer.ModeDetails, err = sys.dryRun(answer.ModeDetails, cfg)
	} else {
		err = sys.take(cfg, req.GetData(), answer.GetMode())
	}
	if err != nil {
		return nil, err
	}
	return &machine.ApplyConfigurationResponse{Messages: []*machine.ApplyConfiguration{answer}}, nil
}

// checkMode refuses the modes that this version does not have in this state.
func (s *system) checkMode(mode machine.ApplyConfigurationRequest_Mode) error {
	name := strings.ReplaceAll(strings.ToLower(mode.String()), "_", "-")
	switch mode {
	case machine.ApplyConfigurationRequest_NO_REBOOT, machine.ApplyConfigurationRequest_STAGED:
		if s.mode == maintenance && !s.act.apid {
			return status.Errorf(codes.Unimplemented, "apply configuration --mode='%s' is not supported in maintenance mode", name)
		}
	case machine.ApplyConfigurationRequest_REBOOT:
		if s.mode == configured && s.act.noRebootMode {
			return status.Error(codes.InvalidArgument, "the REBOOT mode is not supported")
		}
	case machine.ApplyConfigurationRequest_AUTO, machine.ApplyConfigurationRequest_TRY:
	}
	return nil
}

// effectiveMode is what AUTO and, in maintenance mode, REBOOT become.
func (s *system) effectiveMode(mode machine.ApplyConfigurationRequest_Mode) (machine.ApplyConfigurationRequest_Mode, string) {
	switch {
	case mode == machine.ApplyConfigurationRequest_STAGED:
		return mode, "Staged configuration to be applied after the next reboot"
	case mode == machine.ApplyConfigurationRequest_REBOOT && s.mode == configured:
		return mode, "Applied configuration with a reboot"
	case mode == machine.ApplyConfigurationRequest_TRY:
		return mode, "Applied configuration without a reboot"
	default:
		return machine.ApplyConfigurationRequest_NO_REBOOT, "Applied configuration without a reboot"
	}
}

// validate parses and checks; its errors are those of the node's version.
func (s *system) validate(ctx context.Context, data []byte) (config.Provider, []string, error) {
	parse := func(err error) error {
		if s.act.apid || s.mode == configured {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		return fmt.Errorf("failed to parse config: %w", err)
	}
	minor, err := minorOf(s.version)
	if err != nil {
		return nil, nil, parse(err)
	}
	if err := unsupportedKind(data, minor); err != nil {
		return nil, nil, parse(err)
	}
	cfg, err := configloader.NewFromBytes(withoutDocuments(data, unknownKinds))
	if err != nil {
		return nil, nil, parse(err)
	}
	if s.mode == configured && cfg.RawV1Alpha1() == nil {
		return nil, nil, status.Error(codes.InvalidArgument,
			"the applied machine configuration doesn't contain v1alpha1 config, did you mean to patch the machine config instead?")
	}
	mode := metal{installed: s.disk().Installed() || slices.Contains(kindsOf(data), unattendedInstall)}
	warnings, err := cfg.Validate(mode)
	if err != nil {
		return nil, nil, s.invalid(err)
	}
	if err := s.kubernetesTooNew(cfg); err != nil {
		return nil, nil, s.invalid(err)
	}
	more, err := cfg.RuntimeValidate(ctx, s.resources, mode)
	// The library judges by its own version of Talos, which may be older than the node.
	if err != nil && minor <= machineryMinor {
		return nil, nil, s.invalid(err)
	}
	return cfg, slices.Concat(warnings, more), nil
}

func (s *system) invalid(err error) error {
	if s.act.apid || s.mode == configured {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return status.Errorf(codes.InvalidArgument, "configuration validation failed: %s", err)
}

// kubernetesTooNew tells whether this version of Talos runs the config's version of Kubernetes.
func (s *system) kubernetesTooNew(cfg config.Provider) error {
	if cfg.RawV1Alpha1() == nil {
		return nil
	}
	talos, err := compatibility.ParseTalosVersion(&machine.VersionInfo{Tag: s.version})
	if err != nil {
		return err
	}
	images := [][2]string{{"kubelet", cfg.Machine().Kubelet().Image()}}
	if cfg.Machine().Type().IsControlPlane() {
		images = append(images,
			[2]string{"kube-apiserver", cfg.Cluster().APIServer().Image()},
			[2]string{"kube-controller-manager", cfg.Cluster().ControllerManager().Image()},
			[2]string{"kube-scheduler", cfg.Cluster().Scheduler().Image()})
	}
	for _, image := range images {
		version, err := v1alpha1.KubernetesVersionFromImageRef(image[1])
		if err != nil {
			return fmt.Errorf("%s image is not valid: failed to parse Kubernetes version from image reference %q: %w", image[0], image[1], err)
		}
		err = version.SupportedWith(talos)
		if err != nil && strings.Contains(err.Error(), "is too ") {
			return fmt.Errorf("%s image is not valid: %w", image[0], err)
		}
	}
	return nil
}

// dryRun is what a dry run answers. From 1.13 on, and configured, it shows the
// difference with everything that is in it, secrets included.
func (s *system) dryRun(details string, cfg config.Provider) (string, error) {
	if s.mode == maintenance && !s.act.apid {
		return "Dry run summary:\nNode is running in maintenance mode and does not have a config yet.", nil
	}
	var current config.Provider
	if s.config != nil {
		current = s.config
	}
	diff, err := diffOf(current, cfg)
	if err != nil {
		return "", fmt.Errorf("failed to generate diff: %w", err)
	}
	return fmt.Sprintf("Dry run summary:\n%s (skipped in dry-run).\nConfig diff:\n\n%s", details, diff), nil
}

func diffOf(current, next config.Provider) (string, error) {
	var before config.Container
	if current != nil {
		before = current
	}
	diff, err := configdiff.DiffConfigs(before, next)
	if diff == "" {
		diff = "No changes."
	}
	return diff, err
}

// take puts an accepted config into effect.
func (s *system) take(cfg config.Provider, data []byte, mode machine.ApplyConfigurationRequest_Mode) error {
	switch {
	case s.mode == maintenance && cfg.RawV1Alpha1() == nil:
		// A part of a config: the node waits for the rest.
		return nil
	case s.mode == maintenance:
		s.applied = true
		kind := endsInstalling
		if s.node.cfg.Disk == nil {
			kind = endsForgetting
		}
		s.finish(ending{kind: kind, data: data, config: cfg})
		return nil
	case s.config == nil:
		return nil // the config of a bare node is nobody's
	case s.config.Cluster().ID() != cfg.Cluster().ID() || s.config.Machine().Type() != cfg.Machine().Type():
		return errors.New("the emulated node cannot change its cluster or type; reset it")
	}
	if mode != machine.ApplyConfigurationRequest_TRY {
		if err := s.node.cfg.Disk.Update(func(d *DiskState) { d.MachineConfig = data }); err != nil {
			return err
		}
	}
	switch mode {
	case machine.ApplyConfigurationRequest_REBOOT:
		s.applied = true
		s.sequence("reboot", "", ending{kind: endsInReset})
	case machine.ApplyConfigurationRequest_STAGED:
	case machine.ApplyConfigurationRequest_AUTO, machine.ApplyConfigurationRequest_NO_REBOOT, machine.ApplyConfigurationRequest_TRY:
		s.reconfigure(cfg)
	}
	return nil
}
