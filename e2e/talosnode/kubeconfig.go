package talosnode

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	stdx509 "crypto/x509"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/siderolabs/crypto/x509"
	"github.com/siderolabs/talos/pkg/machinery/api/common"
	"github.com/siderolabs/talos/pkg/machinery/config/config"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
	"gopkg.in/yaml.v3"
)

// Kubeconfig streams an administrator's kubeconfig, packed as Copy packs files.
func (s *machineService) Kubeconfig(_ *emptypb.Empty, stream grpc.ServerStreamingServer[common.Data]) error {
	if err := s.system.needControlPlane("kubeconfig"); err != nil {
		return err
	}
	s.system.mu.Lock()
	cluster := s.system.config.Cluster()
	s.system.mu.Unlock()
	text, err := adminKubeconfig(cluster)
	if err != nil {
		return fmt.Errorf("error generating kubeconfig: %w", err)
	}
	packed, err := pack("kubeconfig", text)
	if err != nil {
		return err
	}
	return stream.Send(&common.Data{Bytes: packed})
}

// adminKubeconfig signs a client certificate for the group system:masters.
func adminKubeconfig(cluster config.ClusterConfig) ([]byte, error) {
	ca, err := x509.NewCertificateAuthorityFromCertificateAndKey(cluster.IssuingCA())
	if err != nil {
		return nil, err
	}
	admin := cluster.AdminKubeconfig()
	pair, err := x509.NewKeyPair(ca,
		x509.CommonName(admin.CommonName()),
		x509.Organization(admin.CertOrganization()),
		x509.NotAfter(time.Now().Add(admin.CertLifetime())),
		x509.KeyUsage(stdx509.KeyUsageDigitalSignature|stdx509.KeyUsageKeyEncipherment),
		x509.ExtKeyUsage([]stdx509.ExtKeyUsage{stdx509.ExtKeyUsageClientAuth}),
	)
	if err != nil {
		return nil, err
	}
	user, name := "admin@"+cluster.Name(), cluster.Name()
	encode := base64.StdEncoding.EncodeToString
	type entry map[string]any
	return yaml.Marshal(entry{
		"apiVersion": "v1", "kind": "Config", "current-context": user, "preferences": entry{},
		"clusters": []entry{{"name": name, "cluster": entry{
			"server": cluster.Endpoint().String(), "certificate-authority-data": encode(cluster.IssuingCA().Crt),
		}}},
		"users": []entry{{"name": user, "user": entry{
			"client-certificate-data": encode(pair.CrtPEM), "client-key-data": encode(pair.KeyPEM),
		}}},
		"contexts": []entry{{"name": user, "context": entry{"cluster": name, "namespace": "default", "user": user}}},
	})
}

// pack makes a .tar.gz of one file.
func pack(name string, content []byte) ([]byte, error) {
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), ModTime: time.Now(), Mode: 0o600}
	if err := archive.WriteHeader(header); err != nil {
		return nil, fmt.Errorf("packing %s: %w", name, err)
	}
	if _, err := archive.Write(content); err != nil {
		return nil, fmt.Errorf("packing %s: %w", name, err)
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("packing %s: %w", name, err)
	}
	if err := zipped.Close(); err != nil {
		return nil, fmt.Errorf("packing %s: %w", name, err)
	}
	return packed.Bytes(), nil
}
