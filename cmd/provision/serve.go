package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/daemon"
	"github.com/talos-provision/provision/provisioner/web"
	"github.com/talos-provision/provision/provisioner/web/dashboard"
	"github.com/talos-provision/provision/provisioner/webhook"
)

func serveCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run as a service: boot services, controller and admin API, following the inventory",
		Long: `serve leads its site: it answers the machines that boot, follows the inventory (a
folder, or a branch of a git remote), and carries out the runs that people ask for
with provision --cluster NAME, on this host or with --server URL. It goes on with
runs that were cut short. With serve.autoInstall it installs by itself the nodes
that a change of the inventory marks install: true.

SIGHUP reloads provision.yaml and looks at the inventory at once; SIGTERM stops it
in good order. It tells systemd when it is ready, and its watchdog that it lives.

Exit status: 0 stopped; 1 the state, the inventory or a port is not to be had;
2 usage or configuration error.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context()) },
	}
}

func (a *app) serve(ctx context.Context) (err error) {
	s, err := a.open()
	if err != nil {
		return err
	}
	state, err := s.config.openState(ctx, s.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	s.obey(state)
	cache, err := s.assetCache(nil)
	if err != nil {
		return err
	}
	settings, err := s.config.settings()
	if err != nil {
		return err
	}
	d, err := daemon.New(daemon.Options{
		Store: state, Host: &host{session: s, cache: cache, state: state}, Site: s.config.Site, Settings: settings,
		KeepEvents: s.config.Serve.KeepEvents, Log: s.log,
	})
	if err != nil {
		return err
	}
	src, err := s.inventorySource(d)
	if err != nil {
		return usageError("%v", err)
	}
	admin, err := s.adminServer(d)
	if err != nil {
		return err
	}
	hooks, err := s.webhooks(state, d)
	if err != nil {
		return err
	}
	if err := admin.Listen(ctx); err != nil {
		return &statusError{exitFailed, err.Error()}
	}
	defer func() { _ = admin.Close() }()
	return s.serveAll(ctx, d, src, admin, hooks)
}

// serveAll runs the parts of the daemon until ctx ends or one of them fails.
func (s *session) serveAll(ctx context.Context, d *daemon.Daemon, src daemon.Source, admin *web.Server, hooks *webhook.Sender) error {
	outer := ctx
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.Run(ctx, src) })
	group.Go(func() error { return admin.Run(ctx) })
	group.Go(func() error { return hooks.Run(ctx) })
	group.Go(func() error { return notifySystemd(ctx, d, s.log) })
	group.Go(func() error { return s.reloadOnHUP(ctx, d, admin) })
	err := group.Wait()
	if outer.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return nil // stopped by a signal: that is how a service ends
	}
	if err != nil {
		return &statusError{exitFailed, err.Error()}
	}
	return nil
}

// reloadOnHUP reads provision.yaml again and has the inventory looked at.
func (s *session) reloadOnHUP(ctx context.Context, d *daemon.Daemon, admin *web.Server) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hup:
			notifyReloading()
			if err := s.reload(d, admin); err != nil {
				s.log.Error("the configuration is not reloaded, the one before goes on", "error", err)
			} else {
				s.log.Info("the configuration was reloaded")
			}
			_ = d.Reload(ctx) // asks, and cannot fail
			notifyReady()
		}
	}
}

// reload takes over what can change while the daemon runs; anything else that
// differs is named, and nothing is changed.
func (s *session) reload(d *daemon.Daemon, admin *web.Server) error {
	next, err := s.loadConfig()
	if err != nil {
		return err
	}
	if fixed := fixedDiffers(s.config, next); fixed != "" {
		return fmt.Errorf("%s cannot change while the daemon runs: restart it", fixed)
	}
	settings, err := next.settings()
	if err != nil {
		return err
	}
	if err := admin.Reload(); err != nil {
		return err
	}
	d.Set(settings)
	return nil
}

// fixedDiffers names the first part of provision.yaml that differs and cannot be
// reloaded; "" when there is none.
func fixedDiffers(before, after config) string {
	for _, c := range []*config{&before, &after} {
		c.Power, c.Budgets, c.Serve.AutoInstall = powerConfig{}, budgetsConfig{}, false
	}
	a, b := reflect.ValueOf(before), reflect.ValueOf(after)
	for i := range a.NumField() {
		if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			return a.Type().Field(i).Tag.Get("yaml")
		}
	}
	return ""
}

// settings is what can change while the daemon runs.
func (c *config) settings() (daemon.Settings, error) {
	limit, err := provisioner.ParseLimit(c.Budgets.MaxFailures)
	if err != nil {
		return daemon.Settings{}, usageError("budgets.maxFailures: %v", err)
	}
	return daemon.Settings{AutoInstall: c.Serve.AutoInstall, MaxFailures: limit, Power: c.Power.limits(), Budgets: c.Budgets.limits()}, nil
}

// adminServer makes the admin API of the daemon: its socket, and TCP where it is configured.
func (s *session) adminServer(d *daemon.Daemon) (*web.Server, error) {
	admin := s.config.Admin
	listen, optional := admin.address()
	registry := prometheus.NewRegistry()
	registry.MustRegister(d.Collector(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), s.metrics)
	pages, err := dashboard.New(dashboard.Options{Control: d, Version: version, Log: s.log})
	if err != nil {
		return nil, err
	}
	server, err := web.New(d, web.Options{
		Dashboard: pages,
		Metrics:   promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}),
		Socket:    s.config.liveSocket(), Listen: listen, ListenOptional: optional, TokenFile: admin.TokenFile, ReadTokenFile: admin.ReadTokenFile,
		CertFile: admin.CertFile, KeyFile: admin.KeyFile, ClientCAFile: admin.ClientCAFile, Admins: admin.Admins, Readers: admin.Readers,
		Log: s.log,
	})
	if err != nil {
		return nil, usageError("%v", err)
	}
	return server, nil
}
