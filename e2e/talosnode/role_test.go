package talosnode_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	cryptox509 "github.com/siderolabs/crypto/x509"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/client"
	"github.com/siderolabs/talos/pkg/machinery/resources/config"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"google.golang.org/grpc/codes"

	"github.com/talos-provision/provision/e2e/talosnode"
)

// clientOf makes a certificate of the cluster's authority for a role.
func (p clusterPKI) clientOf(t *testing.T, usage x509.ExtKeyUsage, roles ...string) *tls.Config {
	t.Helper()
	ca, err := cryptox509.NewCertificateAuthorityFromCertificateAndKey(p.input.Options.SecretsBundle.Certs.OS)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := cryptox509.NewKeyPair(ca, cryptox509.Organization(roles...),
		cryptox509.NotAfter(time.Now().Add(time.Hour)), cryptox509.ExtKeyUsage([]x509.ExtKeyUsage{usage}))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.Crt)
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, Certificates: []tls.Certificate{*pair.Certificate}}
}

func TestRolesOfTheClientCertificate(t *testing.T) {
	t.Parallel()
	pki := newPKI(t)
	node := booted(t, talosnode.Config{Disk: configuredDisk(pki.config(t, controlPlane)), FromDisk: true, UUID: "roles"})
	calls := map[string]func(context.Context, *client.Client) error{
		"Version": func(ctx context.Context, c *client.Client) error { _, err := c.Version(ctx); return err },
		"MachineStatus": func(ctx context.Context, c *client.Client) error {
			_, err := c.COSI.Get(ctx, runtime.NewMachineStatus().Metadata())
			return err
		},
		"MachineConfig": func(ctx context.Context, c *client.Client) error {
			_, err := c.COSI.Get(ctx, config.NewMachineConfig(nil).Metadata())
			return err
		},
		"BootID": func(ctx context.Context, c *client.Client) error { _, err := bootID(ctx, c); return err },
		"Apply": func(ctx context.Context, c *client.Client) error {
			_, err := c.ApplyConfiguration(ctx, &machine.ApplyConfigurationRequest{Data: pki.config(t, controlPlane), DryRun: true})
			return err
		},
	}
	const ok, denied = codes.OK, codes.PermissionDenied
	tests := map[string]map[string]codes.Code{
		"os:admin":    {"Version": ok, "MachineStatus": ok, "MachineConfig": ok, "BootID": ok, "Apply": ok},
		"os:operator": {"Version": ok, "MachineStatus": ok, "MachineConfig": denied, "BootID": denied, "Apply": denied},
		"os:reader":   {"Version": ok, "MachineStatus": ok, "MachineConfig": denied, "BootID": denied, "Apply": denied},
		"nobody":      {"Version": denied, "MachineStatus": denied, "MachineConfig": denied, "BootID": denied, "Apply": denied},
	}
	for role, want := range tests {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			c := dial(t, node, pki.clientOf(t, x509.ExtKeyUsageClientAuth, role))
			got := map[string]codes.Code{}
			for name, call := range calls {
				got[name] = answerOf(call(t.Context(), c)).Code
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCertificatesThatAreNotForClientsOfThisClusterAreRefused(t *testing.T) {
	t.Parallel()
	pki := newPKI(t)
	node := booted(t, talosnode.Config{Disk: configuredDisk(pki.config(t, controlPlane)), FromDisk: true, UUID: "usage"})
	other := newPKI(t).clientOf(t, x509.ExtKeyUsageClientAuth, "os:admin")
	other.InsecureSkipVerify = true // the server shall refuse, not the client
	for name, config := range map[string]*tls.Config{
		"other cluster":      other,
		"server certificate": pki.clientOf(t, x509.ExtKeyUsageServerAuth, "os:admin"),
		"none":               insecure(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := dial(t, node, config).Version(t.Context())
			if answerOf(err).Code != codes.Unavailable {
				t.Errorf("error = %v, want Unavailable", err)
			}
		})
	}
}
