package kubeapi

import (
	stdx509 "crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/siderolabs/crypto/x509"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	fileAuthority  = "ca.crt"
	fileServer     = "server.crt"
	fileServerKey  = "server.key"
	fileAccountKey = "service-account.key"

	lifetime = 24 * time.Hour
)

// makeKeys writes what the server needs into the folder.
func (a *API) makeKeys(o Options) (err error) {
	if o.Authority != nil {
		a.authority, err = x509.NewCertificateAuthorityFromCertificateAndKey(o.Authority)
	} else {
		a.authority, err = x509.NewSelfSignedCertificateAuthority(x509.Organization("kubernetes"), x509.ECDSA(true), x509.NotAfter(time.Now().Add(lifetime)))
	}
	if err != nil {
		return fmt.Errorf("make the authority: %w", err)
	}
	server, err := x509.NewKeyPair(a.authority,
		x509.CommonName("kube-apiserver"),
		x509.IPAddresses([]net.IP{net.ParseIP(o.Address)}),
		x509.DNSNames([]string{"localhost", "kubernetes", "kubernetes.default.svc"}),
		x509.NotAfter(time.Now().Add(lifetime)),
		x509.KeyUsage(stdx509.KeyUsageDigitalSignature|stdx509.KeyUsageKeyEncipherment),
		x509.ExtKeyUsage([]stdx509.ExtKeyUsage{stdx509.ExtKeyUsageServerAuth}),
	)
	if err != nil {
		return fmt.Errorf("make the server's certificate: %w", err)
	}
	account, err := x509.NewECDSAKey()
	if err != nil {
		return fmt.Errorf("make the key of service accounts: %w", err)
	}
	for name, content := range map[string][]byte{
		fileAuthority: a.authority.CrtPEM, fileServer: server.CrtPEM, fileServerKey: server.KeyPEM, fileAccountKey: account.KeyPEM,
	} {
		if err := os.WriteFile(filepath.Join(o.Dir, name), content, 0o600); err != nil {
			return fmt.Errorf("write the server's keys: %w", err)
		}
	}
	return nil
}

// Kubeconfig is the administrator's.
func (a *API) Kubeconfig() ([]byte, error) {
	return a.KubeconfigFor("admin", "system:masters")
}

// KubeconfigFor is that of a user, who may do what RBAC allows him and his groups.
func (a *API) KubeconfigFor(user string, groups ...string) ([]byte, error) {
	client, err := x509.NewKeyPair(a.authority,
		x509.CommonName(user), x509.Organization(groups...),
		x509.NotAfter(time.Now().Add(lifetime)),
		x509.KeyUsage(stdx509.KeyUsageDigitalSignature|stdx509.KeyUsageKeyEncipherment),
		x509.ExtKeyUsage([]stdx509.ExtKeyUsage{stdx509.ExtKeyUsageClientAuth}),
	)
	if err != nil {
		return nil, fmt.Errorf("make a client certificate: %w", err)
	}
	const name = "test"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: a.Endpoint, CertificateAuthorityData: a.authority.CrtPEM}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: client.CrtPEM, ClientKeyData: client.KeyPEM}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.Write(*config)
}
