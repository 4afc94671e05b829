package web

import (
	"errors"
	"log/slog"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
)

func (s *Server) plan(c *call) (any, error) {
	r, err := c.runRequest()
	if err != nil {
		return nil, err
	}
	answer, err := s.control.Plan(c.Context(), r)
	if err != nil {
		return nil, err
	}
	answer.Plan.Nodes = orEmpty(answer.Plan.Nodes)
	return answer, nil
}

func (s *Server) start(c *call) (any, error) {
	r, err := c.runRequest()
	if err != nil {
		return nil, err
	}
	if r.Digest == "" {
		return nil, Invalid(errors.New("the request names no plan that was confirmed"), "ask for a plan first and give its digest")
	}
	info, err := s.control.Start(c.Context(), r)
	if err != nil {
		return nil, err
	}
	c.note("run", info.ID)
	return info.whole(), nil
}

// runRequest reads the body, and notes for the audit what is asked for.
func (c *call) runRequest() (RunRequest, error) {
	r, err := decodeRun(c.body)
	if err != nil {
		return RunRequest{}, err
	}
	c.note("cluster", r.Cluster)
	for _, d := range []struct{ key, value string }{
		{"nodes", r.Nodes}, {"selector", r.Selector}, {"exclude", r.Exclude}, {"reinstall", r.Reinstall},
		{"until", r.Until}, {"maxFailures", r.MaxFailures}, {"digest", r.Digest},
	} {
		if d.value != "" {
			c.note(d.key, clip(d.value))
		}
	}
	return r, nil
}

func (c *call) note(key, value string) { c.detail = append(c.detail, slog.String(key, value)) }

func (s *Server) stop(c *call) (any, error) {
	if err := c.noBody(); err != nil {
		return nil, err
	}
	return nil, s.control.Stop(c.Context(), c.PathValue("cluster"))
}

func (s *Server) hold(c *call) (any, error) {
	r, err := decodeHold(c.body)
	if err != nil {
		return nil, err
	}
	c.note("reason", clip(r.Reason))
	h := store.Hold{Cluster: c.PathValue("cluster"), Node: c.PathValue("node"), Reason: r.Reason, By: c.caller.who, Since: time.Now().UTC()}
	if err := s.control.Hold(c.Context(), h); err != nil {
		return nil, err
	}
	return h, nil
}

func (s *Server) release(c *call) (any, error) {
	if err := c.noBody(); err != nil {
		return nil, err
	}
	return nil, s.control.Release(c.Context(), c.PathValue("cluster"), c.PathValue("node"))
}

// reload reads our own files anew, then has the inventory looked at.
func (s *Server) reload(c *call) (any, error) {
	if err := c.noBody(); err != nil {
		return nil, err
	}
	if err := s.Reload(); err != nil {
		return nil, err
	}
	return nil, s.control.Reload(c.Context())
}

// noBody takes nothing or {}: what else is there was meant for another call.
func (c *call) noBody() error {
	if len(c.body) == 0 {
		return nil
	}
	return decode(c.body, &struct{}{})
}
