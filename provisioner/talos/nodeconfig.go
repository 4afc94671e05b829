package talos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"github.com/cosi-project/runtime/pkg/state"
	configpb "github.com/siderolabs/talos/pkg/machinery/api/resource/config"
	"github.com/siderolabs/talos/pkg/machinery/resources/config"
	"google.golang.org/protobuf/proto"
	"gopkg.in/yaml.v3"
)

// nodeConfig takes the machine config out of its resource as it is. The client's
// own type would parse it, and refuse each kind of document that is newer than
// the client.
type nodeConfig []byte

// UnmarshalProto keeps the YAML.
func (n *nodeConfig) UnmarshalProto(_ *resource.Metadata, data []byte) error {
	var spec configpb.MachineConfigSpec
	if err := proto.Unmarshal(data, &spec); err != nil {
		return fmt.Errorf("decoding the resource of the machine config: %w", err)
	}
	*n = spec.GetYamlMarshalled()
	return nil
}

// readConfig returns the machine config that the node runs. It holds secrets,
// so it never leaves this package. Reading it takes the role os:admin.
func readConfig(ctx context.Context, c *session) ([]byte, error) {
	pointer := resource.NewMetadata(config.NamespaceName, config.MachineConfigType, config.ActiveID, resource.VersionUndefined)
	r, err := c.COSI.Get(ctx, pointer, state.WithGetUnmarshalOptions(state.WithSkipProtobufUnmarshal()))
	if err != nil {
		return nil, err
	}
	raw, ok := r.(*protobuf.Resource)
	if !ok {
		return nil, errors.New("the client decoded the machine config")
	}
	var data nodeConfig
	if err := raw.Unmarshal(&data); err != nil {
		return nil, err
	}
	return data, nil
}

// installSection is what an upgrade needs to know of a machine config.
type installSection struct {
	ExtraKernelArgs   []string `yaml:"extraKernelArgs"`
	GrubUseUKICmdline bool     `yaml:"grubUseUKICmdline"`
}

// installSectionOf finds machine.install in whichever document of a config it is.
// The decoder's errors quote values, so they are not returned (I9).
func installSectionOf(data []byte) (installSection, error) {
	var found installSection
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document struct {
			Machine struct {
				Install *installSection `yaml:"install"`
			} `yaml:"machine"`
		}
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return found, errors.New("its machine config is no YAML as it is known here; look at machine.install in it")
		}
		if document.Machine.Install != nil {
			found = *document.Machine.Install
		}
	}
}
