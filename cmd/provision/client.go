package main

import (
	"context"
	"errors"

	"github.com/talos-provision/provision/provisioner/web"
)

// clientConfig says how the command line reaches a daemon on another host.
type clientConfig struct {
	// Server is the URL of the daemon's admin API; "" asks the one on this host, if one runs.
	Server string `yaml:"server"`
	// TokenFile holds the token, CAFile the authority of the daemon's certificate, CertFile and
	// KeyFile our own certificate.
	TokenFile string `yaml:"tokenFile"`
	CAFile    string `yaml:"caFile"`
	CertFile  string `yaml:"certFile"`
	KeyFile   string `yaml:"keyFile"`
}

// remote is the daemon that --server names; nil when none is named.
func (c *config) remote() (*web.Client, error) {
	if c.Client.Server == "" {
		return nil, nil //nolint:nilnil // without --server this process works itself
	}
	client, err := web.NewClient(web.Endpoint{
		URL: c.Client.Server, TokenFile: c.Client.TokenFile, CAFile: c.Client.CAFile, CertFile: c.Client.CertFile, KeyFile: c.Client.KeyFile,
	})
	if err != nil {
		return nil, usageError("%v", err)
	}
	return client, nil
}

// local is whoever holds the state of this host, a daemon or a run; nil when nobody answers.
func (c *config) local(ctx context.Context) *web.Client {
	client, err := web.NewClient(web.Endpoint{Socket: c.liveSocket()})
	if err != nil || !client.Available(ctx) {
		return nil // also where the path is too long for a socket: nobody can listen there
	}
	return client
}

// daemon is whom to ask: the daemon of --server, else the one of this host; nil when there is none.
func (c *config) daemon(ctx context.Context) (*web.Client, error) {
	client, err := c.remote()
	if client != nil || err != nil {
		return client, err
	}
	return c.local(ctx), nil
}

// reading is the head of a command that only reads: whether its output is for machines, and the configuration.
func (a *app) reading() (asJSON bool, c config, err error) {
	if asJSON, err = a.json(); err != nil {
		return false, config{}, err
	}
	c, err = a.loadConfig()
	return asJSON, c, err
}

// webStatus gives an error of the daemon its exit status.
func webStatus(err error) error {
	var failed *web.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return err
	case !errors.As(err, &failed):
		return &statusError{exitFailed, err.Error()}
	}
	message := failed.Error()
	if failed.Code == web.CodeBusy && len(failed.Busy) > 0 {
		message += "; watch it by `provision events --follow --cluster " + failed.Busy[0].Cluster + "`"
	}
	statuses := map[web.Code]int{web.CodeInvalid: exitUsage, web.CodeNotFound: exitUsage, web.CodeBusy: exitRefused, web.CodePlanChanged: exitRefused}
	if status, known := statuses[failed.Code]; known {
		return &statusError{status, message}
	}
	return &statusError{exitFailed, message}
}
