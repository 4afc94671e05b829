package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
)

// A run holds the state file, so it answers `provision status` itself while it
// lasts: over a socket in the state's folder, which only its owner can enter.

// liveTimeout bounds one question and its answer.
const liveTimeout = 10 * time.Second

// serveLive answers questions about the state until ctx ends.
func serveLive(ctx context.Context, path string, state *store.Store) error {
	// A socket file of a killed run is in the way; no run is alive, or we would not hold the state.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("make way for the status socket: %w", err)
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("open the status socket: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /nodes", func(w http.ResponseWriter, r *http.Request) {
		nodes, err := state.Status(r.URL.Query().Get("cluster"))
		reply(w, nodes, err)
	})
	mux.HandleFunc("GET /unknown", func(w http.ResponseWriter, _ *http.Request) {
		machines, err := state.UnknownMachines()
		reply(w, machines, err)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: liveTimeout, WriteTimeout: liveTimeout}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("answer on the status socket: %w", err)
	}
	return nil
}

func reply(w http.ResponseWriter, list any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list) // the asker may be gone
}

// askLive asks the run that holds the state.
func askLive(ctx context.Context, path, question string, into any) error {
	client := http.Client{
		Timeout: liveTimeout,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}},
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://run"+question, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the run answers %s", response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}
