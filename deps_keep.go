//go:build keepdeps

package provision

import (
	_ "github.com/cavaliergopher/cpio"
	_ "github.com/cosi-project/runtime/pkg/state"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/insomniacslk/dhcp/dhcpv4"
	_ "github.com/pin/tftp/v3"
	_ "github.com/siderolabs/crypto/x509"
	_ "github.com/siderolabs/talos/pkg/machinery/client"
	_ "github.com/siderolabs/talos/pkg/machinery/resources/hardware"
	_ "github.com/siderolabs/talos/pkg/machinery/resources/network"
	_ "github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	_ "github.com/spf13/cobra"
	_ "github.com/stmcginnis/gofish"
	_ "github.com/vishvananda/netlink"
	_ "github.com/vishvananda/netns"
	_ "go.etcd.io/bbolt"
	_ "golang.org/x/net/ipv4"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "golang.org/x/time/rate"
	_ "google.golang.org/grpc"
	_ "gopkg.in/yaml.v3"
)
