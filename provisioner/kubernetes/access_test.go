package kubernetes_test

import (
	"context"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/talos-provision/provision/provisioner/kubernetes"
)

// kubeconfigOf is a kubeconfig with a bearer token.
func kubeconfigOf(t *testing.T, server string, authority []byte) []byte {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authority}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: secret}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	text, err := clientcmd.Write(*config)
	must(t, err)
	return text
}

const secret = "s3cr3t-of-the-test"

// otherAuthority names the real server, with an authority that did not sign its certificate.
func otherAuthority(t *testing.T, l lab) []byte {
	t.Helper()
	other := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	return kubeconfigOf(t, l.Endpoint, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate().Raw}))
}

func TestKubeconfigsThatAreNoneAreToldWithoutTheirContent(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty":         "",
		"not YAML":      "{" + secret,
		"another type":  "apiVersion: v1\nkind: Config\nusers: " + secret,
		"no cluster":    "apiVersion: v1\nkind: Config\nusers: [{name: u, user: {token: " + secret + "}}]",
		"bad key":       "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {client-certificate-data: " + secret + ", client-key-data: " + secret + "}}]",
		"bad key pair":  "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {client-certificate-data: czNjcjN0, client-key-data: czNjcjN0}}]",
		"no such files": "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {client-certificate: /nowhere/" + secret + ", client-key: /nowhere/" + secret + "}}]",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := kubernetes.Connect([]byte(text), time.Second)
			if !errors.Is(err, kubernetes.ErrKubeconfig) || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "czNj") {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}

func TestSaysWhatKeepsTheAPIAway(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	closed := "https://" + listener.Addr().String()
	must(t, listener.Close())
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(silent.Close)
	answers := func(status int, body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	for _, c := range []struct {
		name, server string
		want         error
		text         string
	}{
		{"nobody listens", closed, kubernetes.ErrUnreachable, "connection refused"},
		{"nobody answers", silent.URL, kubernetes.ErrUnreachable, "exceeded"},
		{"an expired user", answers(http.StatusUnauthorized, ""), kubernetes.ErrUnauthorized, ""},
		{"no API server", answers(http.StatusOK, "<html>welcome</html>"), nil, "is no API server"},
		{"a proxy before it", answers(http.StatusBadGateway, "<html>bad gateway</html>"), nil, "answers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cluster, err := kubernetes.Connect(kubeconfigOf(t, c.server, nil), 2*time.Second)
			must(t, err)
			_, err = cluster.ServerVersion(t.Context())
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), secret) {
				t.Errorf("it ends with %v", err)
			}
		})
	}
	t.Run("the time of the call is over", func(t *testing.T) {
		t.Parallel()
		cluster, err := kubernetes.Connect(kubeconfigOf(t, silent.URL, nil), patience)
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := cluster.Nodes(ctx); !errors.Is(err, kubernetes.ErrUnreachable) {
			t.Errorf("it ends with %v", err)
		}
	})
}
