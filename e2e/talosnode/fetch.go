package talosnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/constants"
)

// fetchRetry is how long Talos waits before it asks for its config again.
const fetchRetry = time.Second

// maxConfig bounds what is read of a config.
const maxConfig = 32 << 20

// source is where the node fetches its config; "" when its command line names no place, or it has a config on its disk.
func (s *system) source() string {
	from, _ := s.args.first(constants.KernelParamConfig)
	if s.mode != maintenance || !strings.HasPrefix(from, "http") {
		return ""
	}
	return from
}

// fetch asks for the config until there is one that this version takes. All the
// while the port is closed: a node with talos.config= does not enter maintenance.
func (n *Node) fetch(s *system, from string) (ending, error) {
	for broken := n.cfg.Faults.BrokenDownloads; ; broken-- {
		data, cfg, err := n.fetchOnce(s, from, broken > 0)
		if err == nil && n.cfg.OnApply != nil {
			n.cfg.OnApply(data, false)
		}
		if err == nil && n.cfg.Disk == nil {
			return ending{kind: endsForgetting}, nil
		}
		if err == nil {
			return ending{kind: endsInstalling, system: s, data: data, config: cfg}, nil
		}
		// The URL, which is in the errors of net/http, holds a token.
		var asked *url.Error
		if errors.As(err, &asked) {
			err = asked.Err
		}
		n.log.Warn("emulated Talos node could not fetch its machine config and tries again", "address", n.cfg.Address, "error", err)
		if err := sleep(n.life, fetchRetry); err != nil {
			return ending{}, err
		}
	}
}

// fetchOnce asks once, from the node's own address. A broken download ends
// when the head of the answer was read, with a reset.
func (n *Node) fetchOnce(s *system, from string, broken bool) ([]byte, config.Provider, error) {
	ctx, cancel := context.WithTimeout(n.life, time.Minute)
	defer cancel()
	dialer := &net.Dialer{}
	if host, _, err := net.SplitHostPort(n.cfg.Address); err == nil {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(host)}
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if tcp, ok := conn.(*net.TCPConn); ok && broken {
				return tcp, errors.Join(err, tcp.SetReadBuffer(1), tcp.SetLinger(0))
			}
			return conn, err
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return nil, nil, fmt.Errorf("%s names no place to fetch from: %w", constants.KernelParamConfig, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if broken {
		return nil, nil, errors.New("the download broke off")
	}
	if response.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("failed to download config, status code %d", response.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, maxConfig))
	if err != nil {
		return nil, nil, err
	}
	cfg, _, err := s.validate(ctx, data)
	return data, cfg, err
}
