package fleet

import (
	"context"
	"crypto/tls"
	stdx509 "crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/siderolabs/crypto/x509"
	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// kubernetesAddress is the address that the control planes of a cluster share.
func (f *Fleet) kubernetesAddress(cluster string) netip.Addr {
	return f.address(kubernetesOffset + slices.Index(f.clusterNames(), cluster))
}

// startFront makes the API the cluster's own: at the address that its control
// planes share, with its authority's certificate and for its clients, and only
// while its etcd has a quorum. It tells the version of Kubernetes that the machine
// configs name, which is not that of the program behind it.
func (k *kubernetes) startFront(ctx context.Context) error {
	address := k.fleet.kubernetesAddress(k.cluster)
	config, err := k.frontTLS(address)
	if err != nil {
		return err
	}
	proxy, err := k.proxy()
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", netip.AddrPortFrom(address, kubernetesPort).String())
	if err != nil {
		return fmt.Errorf("listen for the Kubernetes API: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /version", k.serveVersion)
	mux.Handle("/", proxy)
	k.front = &http.Server{Handler: k.whileEtcdServes(mux), TLSConfig: config, ReadHeaderTimeout: 10 * time.Second}
	k.work.Go(func() { _ = k.front.ServeTLS(listener, "", "") }) // ends with close
	return nil
}

// frontTLS takes the Kubernetes authority of the cluster, which is in its control planes' configs.
func (k *kubernetes) frontTLS(address netip.Addr) (*tls.Config, error) {
	i := slices.IndexFunc(k.fleet.machines, func(m *Machine) bool { return m.Cluster == k.cluster && m.Role == RoleControlPlane })
	if i < 0 {
		return nil, fmt.Errorf("the cluster has no control plane: give it one")
	}
	data, err := k.fleet.machineConfigOf(k.fleet.machines[i])
	if err != nil {
		return nil, err
	}
	config, err := configloader.NewFromBytes(data)
	if err != nil {
		return nil, fmt.Errorf("read a machine config: %w", err)
	}
	authority, err := x509.NewCertificateAuthorityFromCertificateAndKey(config.Cluster().IssuingCA())
	if err != nil {
		return nil, fmt.Errorf("take the authority of Kubernetes: %w", err)
	}
	pair, err := x509.NewKeyPair(authority,
		x509.CommonName("kube-apiserver"), x509.IPAddresses([]net.IP{address.AsSlice()}),
		x509.NotAfter(time.Now().Add(24*time.Hour)),
		x509.KeyUsage(stdx509.KeyUsageDigitalSignature|stdx509.KeyUsageKeyEncipherment),
		x509.ExtKeyUsage([]stdx509.ExtKeyUsage{stdx509.ExtKeyUsageServerAuth}),
	)
	if err != nil {
		return nil, fmt.Errorf("make the API's certificate: %w", err)
	}
	clients := stdx509.NewCertPool()
	clients.AppendCertsFromPEM(authority.CrtPEM)
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*pair.Certificate},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients, NextProtos: []string{"h2", "http/1.1"},
	}, nil
}

// proxy hands requests on, as the user and groups of the client's certificate.
func (k *kubernetes) proxy() (http.Handler, error) {
	kubeconfig, err := k.api.Kubeconfig()
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the API's kubeconfig: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API: %w", err)
	}
	backend, err := url.Parse(k.api.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("connect to the API: %w", err)
	}
	return &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(backend)
			subject := r.In.TLS.PeerCertificates[0].Subject // RequireAndVerifyClientCert
			r.Out.Header.Set("Impersonate-User", subject.CommonName)
			r.Out.Header["Impersonate-Group"] = subject.Organization
		},
	}, nil
}

func (k *kubernetes) serveVersion(w http.ResponseWriter, _ *http.Request) {
	major, rest, _ := strings.Cut(strings.TrimPrefix(k.version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(version.Info{Major: major, Minor: minor, GitVersion: k.version, Platform: "linux/amd64"})
}

// whileEtcdServes is the API server's way: without etcd it answers nothing.
func (k *kubernetes) whileEtcdServes(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !k.fleet.clusters.EtcdServes(k.cluster) {
			http.Error(w, "etcdserver: no leader", http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}
