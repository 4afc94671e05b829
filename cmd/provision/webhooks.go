package main

import (
	"context"

	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/daemon"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/webhook"
)

// webhooks makes what tells the configured receivers of what happens.
func (s *session) webhooks(state *store.Store, d *daemon.Daemon) (*webhook.Sender, error) {
	receivers := make([]webhook.Receiver, 0, len(s.config.Webhooks))
	for _, w := range s.config.Webhooks {
		receivers = append(receivers, webhook.Receiver{
			Name: w.Name, URL: w.URL, URLFile: w.URLFile, Format: webhook.Format(w.Format), SecretFile: w.SecretFile, SecretEnv: w.SecretEnv,
			Clusters: w.Clusters, States: w.States, Causes: w.Causes, CAFile: w.CAFile, Timeout: w.Timeout,
		})
	}
	sender, err := webhook.New(webhook.Options{Store: state, Receivers: receivers, Site: s.config.Site, Ours: s.nodesOfSite(d), OnAttempt: s.metrics.Webhook, Log: s.log})
	if err != nil {
		return nil, usageError("%v", err)
	}
	return sender, nil
}

// nodesOfSite tells the nodes of this controller's site by the inventory in use.
func (s *session) nodesOfSite(d *daemon.Daemon) func(context.Context) (func(cluster, node string) bool, error) {
	return func(ctx context.Context) (func(cluster, node string) bool, error) {
		nodes, err := d.Fleet(ctx, "")
		if err != nil {
			return nil, err
		}
		ours := make(map[string]bool, len(nodes))
		for _, n := range nodes {
			ours[n.Cluster+"/"+n.Node] = n.Labels[provisioner.SiteLabel] == s.config.Site
		}
		return func(cluster, node string) bool { return ours[cluster+"/"+node] }, nil
	}
}
