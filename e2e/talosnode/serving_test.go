package talosnode_test

import (
	"testing"

	"github.com/talos-provision/provision/e2e/talosnode"
)

func TestANodeKnowsWhatItServes(t *testing.T) {
	t.Parallel()
	bare, err := talosnode.StartConfigured(t.Context(), talosnode.Config{Address: "127.0.0.1:0", Version: "v1.13.9"})
	if err != nil {
		t.Fatal(err)
	}
	for want, node := range map[string]*talosnode.Node{
		"maintenance": booted(t, talosnode.Config{Address: "127.0.0.1:0"}),
		"configured":  bare,
	} {
		if got := node.Serving(); got != want {
			t.Errorf("it serves %q, want %q", got, want)
		}
		node.Stop()
		if got := node.Serving(); got != "" {
			t.Errorf("after its end it serves %q", got)
		}
	}
}
