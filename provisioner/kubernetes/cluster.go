// Package kubernetes reads what an upgrade must know of a cluster's Kubernetes
// API, and cordons, drains and uncordons its nodes. It takes off only those
// cordons that it put on.
package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// manager names us in the fields that we own, and in the API server's log.
const manager = "provision"

// Cluster is the Kubernetes API of one cluster. Its methods may be called from
// several goroutines.
type Cluster struct {
	client   kubernetes.Interface
	endpoint string
}

// Connect makes a Cluster from a kubeconfig; each request gets the timeout. It
// sends nothing yet. What is wrong with a kubeconfig is told without its content.
func Connect(kubeconfig []byte, timeout time.Duration) (*Cluster, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		// The parser's own words quote the text, and that holds a private key.
		return nil, fmt.Errorf("read the kubeconfig: %w", ErrKubeconfig)
	}
	config.Timeout = timeout
	config.UserAgent = manager
	// What 110 pods of a node need, all waited for at the same time.
	config.QPS, config.Burst = 50, 200
	// Warnings would go to standard error, in the middle of the board.
	config.WarningHandler = rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", ErrKubeconfig)
	}
	return &Cluster{client: client, endpoint: config.Host}, nil
}

// Endpoint is where the API is, such as https://10.0.0.10:6443.
func (c *Cluster) Endpoint() string { return c.endpoint }

// ServerVersion is that of the API server that answers, such as v1.36.3.
func (c *Cluster) ServerVersion(ctx context.Context) (string, error) {
	// Not by the client of discovery: its calls take no context.
	body, err := c.client.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", c.failure(ctx, "read the version of Kubernetes", err)
	}
	var info version.Info
	if err := json.Unmarshal(body, &info); err != nil || info.GitVersion == "" {
		return "", fmt.Errorf("read the version of Kubernetes: what answers at %s is no API server: check the server in the kubeconfig", c.endpoint)
	}
	return info.GitVersion, nil
}
