package httpboot

import (
	"bytes"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// configPrefix is where a machine config is fetched, once, with its token.
const configPrefix = "/config/"

// configPatience is how long a machine may take to acknowledge a config that was sent to it.
const configPatience = 10 * time.Second

// ConfigArg is the kernel argument by which Talos fetches its machine config.
const ConfigArg = "talos.config="

// Handout is a machine config on its way to the one machine it is for.
type Handout struct {
	// Data is the config. It goes nowhere but into the answer (I9).
	Data []byte
	// Done is called once, with whether all of Data is known to have reached the machine.
	Done func(sent bool)
}

// ConfigURL is where a machine that was given token fetches its config.
func ConfigURL(base, token string) string { return base + configPrefix + token }

// serveConfig gives a machine config against a one-time token. A HEAD is no
// fetch, and every refusal looks alike: nobody learns which tokens exist.
func (h *Handler) serveConfig(w *response, r *http.Request, token string) {
	if h.opts.HandOut == nil || r.Method != http.MethodGet || token == "" || strings.Contains(token, "/") {
		notFound(w)
		return
	}
	from := source(r)
	handout, ok := h.opts.HandOut(token, from)
	if !ok {
		h.log.Warn("a machine config was asked for with a token that is unknown, used up or another machine's", "source", from)
		notFound(w)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/yaml")
	header.Set("Content-Length", strconv.Itoa(len(handout.Data)))
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	n, err := io.Copy(w, bytes.NewReader(handout.Data))
	sent := err == nil && n == int64(len(handout.Data))
	if flushErr := http.NewResponseController(w).Flush(); flushErr != nil {
		sent = false
	}
	// The kernel takes a config as a whole: what the machine got of it is known by its acknowledgements alone.
	connection, _ := r.Context().Value(queueKey{}).(*queue)
	sent = sent && connection.acknowledged(r.Context(), configPatience)
	h.log.Info("handed out a machine config", "source", from, "whole", sent)
	handout.Done(sent)
}

// HandOuter gives the config behind a token, if the token is good for a machine
// at that address. Until Done is called the token is taken.
type HandOuter func(token string, source netip.Addr) (Handout, bool)
