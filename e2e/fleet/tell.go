package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// teller serves the truth on loopback, to whoever asks.
type teller struct {
	server *http.Server
	url    string
}

func startTeller(ctx context.Context, f *Fleet) (*teller, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", netip.AddrPortFrom(f.address(truthOffset), truthPort).String())
	if err != nil {
		return nil, fmt.Errorf("serve the truth about the fleet (is another fleet on this network?): %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /truth", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(f.Oracle())
	})
	t := &teller{
		server: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second},
		url:    "http://" + listener.Addr().String() + "/truth",
	}
	go func() { _ = t.server.Serve(listener) }() // ends with close
	return t, nil
}

func (t *teller) close() error {
	if err := t.server.Close(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("end the truth about the fleet: %w", err)
	}
	return nil
}

// TruthURL is where the fleet's Oracle is served as JSON.
func (f *Fleet) TruthURL() string { return f.teller.url }
