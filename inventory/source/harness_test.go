package source_test

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/inventory/source"
)

// patience bounds every wait: a test that needs it has failed.
const patience = 20 * time.Second

// told collects what a source tells.
type told struct {
	generations chan source.Generation
	refusals    chan source.Refusal
}

func listen(t *testing.T, o *source.Options) told {
	w := told{make(chan source.Generation, 1000), make(chan source.Refusal, 1000)}
	o.OnGeneration = func(g source.Generation) { w.generations <- g }
	o.OnRefusal = func(r source.Refusal) { w.refusals <- r }
	o.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	return w
}

func (w told) generation(t *testing.T) source.Generation {
	t.Helper()
	select {
	case g := <-w.generations:
		return g
	case <-time.After(patience):
		t.Fatal("no generation came")
		return source.Generation{}
	}
}

// until takes generations until one satisfies.
func (w told) until(t *testing.T, what string, holds func(source.Generation) bool) source.Generation {
	t.Helper()
	for end := time.After(patience); ; {
		select {
		case g := <-w.generations:
			if holds(g) {
				return g
			}
		case <-end:
			t.Fatalf("no generation came with %s", what)
		}
	}
}

func (w told) refusal(t *testing.T, reason source.Reason, text string) source.Refusal {
	t.Helper()
	select {
	case r := <-w.refusals:
		if r.Reason != reason || !strings.Contains(r.Error(), text) {
			t.Fatalf("refused as %s: %v\nwant %s with %q", r.Reason, r.Err, reason, text)
		}
		return r
	case <-time.After(patience):
		t.Fatalf("no refusal came, want %s", reason)
		return source.Refusal{}
	}
}

func (w told) nothing(t *testing.T) {
	t.Helper()
	select {
	case g := <-w.generations:
		t.Errorf("a generation came: %s", g.ID)
	case r := <-w.refusals:
		t.Errorf("a refusal came: %s %v", r.Reason, r.Err)
	default:
	}
}

func made(t *testing.T, s *source.Source, err error) *source.Source {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func load(t *testing.T, s *source.Source) source.Generation {
	t.Helper()
	g, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// start runs a source until the test ends, or stop is called, and waits for its end.
func start(t *testing.T, s *source.Source) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	ended := false
	stop = func() {
		t.Helper()
		cancel()
		if ended {
			return
		}
		ended = true
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run gave %v", err)
			}
		case <-time.After(patience):
			t.Error("Run does not end")
		}
	}
	t.Cleanup(stop)
	eventually(t, "the first look of Run", func() bool { return !s.Status().Next.IsZero() })
	return stop
}

// looked asks for a look and waits for it.
func looked(t *testing.T, s *source.Source) {
	t.Helper()
	begin := s.Status().Looked
	s.Reload()
	eventually(t, "a look", func() bool { return s.Status().Looked.After(begin) })
	begin = s.Status().Looked // the one before may have begun before the caller's change
	s.Reload()
	eventually(t, "a look", func() bool { return s.Status().Looked.After(begin) })
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	end := time.After(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-end:
			t.Fatalf("did not come: %s", what)
		case <-tick.C:
		}
	}
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serials are "name=serial" of all nodes.
func serials(g source.Generation) string {
	all := map[string]bool{}
	if g.Tree != nil {
		for _, n := range g.Tree.Nodes {
			all[n.Name+"="+n.Serial] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(all)), " ")
}

func has(text string) func(source.Generation) bool {
	return func(g source.Generation) bool { return strings.Contains(serials(g), text) }
}
