package kubeapi_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/siderolabs/crypto/x509"

	"github.com/talos-provision/provision/e2e/kubeapi"
)

func TestSaysThatTheProgramsAreNotBuilt(t *testing.T) {
	t.Parallel()
	_, err := kubeapi.Start(t.Context(), kubeapi.Options{Dir: t.TempDir(), Programs: t.TempDir()})
	if !errors.Is(err, kubeapi.ErrNotBuilt) {
		t.Errorf("it ends with %v", err)
	}
}

func TestTakesAClustersAuthorityAndLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	// The one that says whether the programs are there.
	kubeapi.StartForTest(t, "127.71.0.2")
	ca, err := x509.NewSelfSignedCertificateAuthority(x509.ECDSA(true), x509.Organization("of-the-cluster"), x509.NotAfter(time.Now().Add(time.Hour)))
	must(t, err)
	options := kubeapi.Options{Dir: t.TempDir(), Address: "127.71.0.3", Port: 6443, Authority: x509.NewCertificateAndKeyFromCertificateAuthority(ca)}
	api, err := kubeapi.Start(t.Context(), options)
	must(t, err)
	if api.Endpoint != "https://127.71.0.3:6443" {
		t.Errorf("it is at %s", api.Endpoint)
	}
	kubeconfig, err := api.Kubeconfig()
	must(t, err)
	if !bytes.Contains(kubeconfig, []byte(base64.StdEncoding.EncodeToString(ca.CrtPEM))) {
		t.Error("the kubeconfig names another authority")
	}
	must(t, api.Stop())
	connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(api.Endpoint, "https://"))
	if err == nil {
		_ = connection.Close()
		t.Error("something still listens")
	}
}
