// Package kubeapi runs a real kube-apiserver over a real etcd on loopback, with
// a stand-in for the kubelets and the controllers that a drain needs.
package kubeapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/siderolabs/crypto/x509"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Options is what Start takes.
type Options struct {
	// Dir is a folder for etcd's data, keys and logs; it must exist.
	Dir string
	// Address is an IP address of loopback; "" is 127.0.0.1.
	Address string
	// Port is that of the API; 0 takes a free one.
	Port int
	// Authority signs the certificates of the server and of its clients; nil makes one.
	// With that of a Talos cluster, the kubeconfig that its nodes give is good here.
	Authority *x509.PEMEncodedCertificateAndKey
	// Programs is the folder that e2e/deps.sh fills; "" is its default.
	Programs string
}

// API is a running Kubernetes API.
type API struct {
	// Client is the administrator's.
	Client kubernetes.Interface
	// Endpoint is such as https://127.0.0.1:6443.
	Endpoint string

	authority *x509.CertificateAuthority
	server    *process
	etcd      *process
	kubelet   *kubelet
	// stopping ends by stop: the stand-ins are in its time.
	stopping context.Context
	stop     context.CancelFunc
}

// ready is how long etcd and the server may take on a loaded machine.
const ready = 4 * time.Minute

// ErrNotBuilt is returned where e2e/deps.sh has not been run.
var ErrNotBuilt = errors.New("there is no kube-apiserver or etcd: run e2e/deps.sh")

// Start runs etcd and kube-apiserver until Stop; it returns when the API is ready.
// The programs end with this process, whatever ends it.
func Start(ctx context.Context, o Options) (api *API, err error) {
	o.Address = cmp.Or(o.Address, "127.0.0.1")
	programs, err := findPrograms(o.Programs)
	if err != nil {
		return nil, err
	}
	api = &API{}
	api.stopping, api.stop = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, api.Stop())
			api = nil
		}
	}()
	if err := api.makeKeys(o); err != nil {
		return api, err
	}
	ports, err := freePorts(o.Address, 3)
	if err != nil {
		return api, err
	}
	if api.etcd, err = startEtcd(programs.etcd, o, ports[0], ports[1]); err != nil {
		return api, err
	}
	port := cmp.Or(o.Port, ports[2])
	if api.server, err = startServer(programs.server, o, ports[0], port); err != nil {
		return api, err
	}
	api.Endpoint = fmt.Sprintf("https://%s", net.JoinHostPort(o.Address, fmt.Sprint(port)))
	config, err := api.restConfig()
	if err != nil {
		return api, err
	}
	if api.Client, err = kubernetes.NewForConfig(config); err != nil {
		return api, fmt.Errorf("connect to the Kubernetes API: %w", err)
	}
	if err := api.await(ctx); err != nil {
		return api, err
	}
	return api, api.startKubelet()
}

// Stop ends the programs, and waits until they are gone.
func (a *API) Stop() error {
	a.stop()
	if a.kubelet != nil {
		a.kubelet.wait()
	}
	return errors.Join(a.server.stop(), a.etcd.stop())
}

// restConfig is the administrator's way in, as fast as the server allows.
func (a *API) restConfig() (*rest.Config, error) {
	kubeconfig, err := a.Kubeconfig()
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read our own kubeconfig: %w", err)
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	return config, nil
}

// await asks until the API says that it is ready, or a program ends.
func (a *API) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ready)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		status := 0
		err := a.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Timeout(10 * time.Second).Do(ctx).StatusCode(&status).Error()
		if err == nil && status == http.StatusOK {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the Kubernetes API is not ready after %v: look into %s: %w", ready, a.server.log, errors.Join(ctx.Err(), err))
		case <-a.server.done:
			return fmt.Errorf("kube-apiserver has ended (%w): look into %s", a.server.err, a.server.log)
		case <-a.etcd.done:
			return fmt.Errorf("etcd has ended (%w): look into %s", a.etcd.err, a.etcd.log)
		case <-tick.C:
		}
	}
}

type programs struct{ etcd, server string }

// findPrograms looks where e2e/deps.sh puts them.
func findPrograms(dir string) (programs, error) {
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return programs{}, fmt.Errorf("find the cache folder: %w", err)
		}
		dir = filepath.Join(cache, "talos-provision")
	}
	found := programs{
		etcd:   filepath.Join(dir, "etcd", "usr", "bin", "etcd"),
		server: filepath.Join(dir, "kube-apiserver", "kube-apiserver"),
	}
	for _, program := range []string{found.etcd, found.server} {
		if _, err := os.Stat(program); err != nil {
			return programs{}, fmt.Errorf("%w: %w", ErrNotBuilt, err)
		}
	}
	return found, nil
}

// freePorts asks the kernel for ports, all at the same time so that they differ.
func freePorts(address string, n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort(address, "0"))
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer func() { _ = listener.Close() }()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
