package bmc

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/talos-provision/provision/inventory/identity"
)

// vendorBoard looks for the board's serial in the maker's own collection of
// boards.
func (c *Client) vendorBoard(ctx context.Context, v vendor, chassis []*chassisDocument) (serial, where string) {
	if v.boards.path == "" {
		return "", ""
	}
	for _, d := range chassis {
		collection := strings.TrimRight(d.path, "/") + "/" + v.boards.path
		if l, _ := find(v.boards.links, &systemDocument{}, []*chassisDocument{d}); localPath(l) != "" {
			collection = localPath(l)
		}
		for _, path := range c.boardsIn(ctx, collection, v.boards.member) {
			if serial, where := c.serialAt(ctx, path); serial != "" {
				return serial, where
			}
		}
	}
	return "", ""
}

// boardsIn finds a board by its name, or guesses its path where the collection
// cannot be listed.
func (c *Client) boardsIn(ctx context.Context, collection, name string) []string {
	members, err := c.members(ctx, collection)
	if err != nil {
		c.log.DebugContext(ctx, "guess the board", "collection", collection, "reason", err)
		collection = strings.TrimRight(collection, "/") + "/"
		return []string{collection + name, collection + strings.Replace(name, "board", "Board", 1)}
	}
	return slices.DeleteFunc(members, func(m string) bool {
		return !strings.HasPrefix(strings.ToLower(lastElement(m)), strings.ToLower(name))
	})
}

// boxBoard looks for the board's serial at chassis that are the board though they
// link no system.
func (c *Client) boxBoard(ctx context.Context, v vendor, _ []*chassisDocument) (serial, where string) {
	if c.root.Chassis == "" {
		return "", ""
	}
	for _, name := range v.boardBox {
		if serial, where := c.serialAt(ctx, strings.TrimRight(string(c.root.Chassis), "/")+"/"+name); serial != "" {
			return serial, where
		}
	}
	return "", ""
}

// serialAt reads the SerialNumber of one more resource; "" when it has none.
func (c *Client) serialAt(ctx context.Context, path string) (serial, where string) {
	var raw json.RawMessage
	if _, err := c.fetch(ctx, request{method: http.MethodGet, path: path}, 2, &raw); err != nil {
		c.log.DebugContext(ctx, "skip a board", "path", path, "reason", err)
		return "", ""
	}
	if s := lookup(raw, "SerialNumber"); !identity.IsPlaceholder(s) {
		return s, path + "#/SerialNumber"
	}
	return "", ""
}
