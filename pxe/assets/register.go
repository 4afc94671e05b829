package assets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/talos-provision/provision/inventory/schematic"
)

// registerTimeout bounds one registration: the factory only stores a short text.
const registerTimeout = time.Minute

// Know tells the cache what a schematic consists of and returns its id. When the
// factory says that it does not have an image of that id, the schematic is
// registered there, once, and the image asked for again.
func (c *Cache) Know(s schematic.Schematic) (string, error) {
	text, err := s.Text()
	if err != nil {
		return "", err
	}
	id, err := s.ID()
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.schematics[id] = text
	return id, nil
}

// attemptRegistered registers the schematic of ref, if it is known, and fetches
// once more. Without it the answer stays what it was.
func (c *Cache) attemptRegistered(ctx context.Context, ref Ref, url string, notFound error) (Info, error) {
	c.mu.Lock()
	text := c.schematics[ref.Schematic]
	c.mu.Unlock()
	if text == nil {
		return Info{}, notFound
	}
	if err := c.registerOnce(ctx, ref.Schematic, text); err != nil {
		return Info{}, fmt.Errorf("%w; registering the schematic failed: %w", notFound, err)
	}
	// A factory that knows the schematic and says 404 again has not this version.
	return c.attempt(ctx, ref, url)
}

// registerOnce lets the fetches of several files of one image register its
// schematic once.
func (c *Cache) registerOnce(ctx context.Context, id string, text []byte) error {
	c.registerMu.Lock()
	defer c.registerMu.Unlock()
	if c.registered[id] {
		return nil
	}
	if err := c.register(ctx, id, text); err != nil {
		return err
	}
	c.registered[id] = true
	return nil
}

// register sends the schematic. The factory's id must be the one that was
// computed here: another one would mean that it read another schematic.
func (c *Cache) register(ctx context.Context, id string, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	url := c.opts.Factory + "/schematics"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/yaml")
	resp, err := c.opts.Client.Do(req)
	if err != nil {
		return fmt.Errorf("POST %s: %w", url, unreachable(err))
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("POST %s: %w", url, unreachable(err))
	}
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK {
		err := fmt.Errorf("POST %s: status %s: %s", url, resp.Status, clip(string(body)))
		if resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests {
			return transientError{err}
		}
		return err
	}
	var answer struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.ID == "" {
		return errors.New("POST " + url + ": the answer has no id; is this an Image Factory?")
	}
	if answer.ID != id {
		return fmt.Errorf("the factory gives this schematic the id %s, here it was computed as %s; set schematicID to the factory's if it is the image that you want", clip(answer.ID), id)
	}
	c.log.Info("registered a schematic", "id", id, "factory", c.opts.Factory)
	return nil
}
