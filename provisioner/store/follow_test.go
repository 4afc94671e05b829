package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/provisioner/store"
)

func TestAFollowerHearsOfEachEventOnceAndInOrder(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		s := connect(t, location, store.Options{})
		happen := func(name string) {
			t.Helper()
			if err := s.Record(store.Node{Cluster: "a", Name: name}, store.Event{Cluster: "a", Node: name}); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"n1", "n2"} {
			happen(name)
		}
		next := make(chan struct{})
		news := store.News{Next: func() <-chan struct{} { return next }, Poll: time.Hour} // only who is told looks again
		heard := make(chan string)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- s.Follow(ctx, 1, news, func(_ uint64, e store.Event) error { heard <- e.Node; return nil })
		}()
		first := <-heard
		happen("n3")
		close(next)
		got := []string{first, <-heard}
		cancel()
		if diff := cmp.Diff([]string{"n2", "n3"}, got); diff != "" {
			t.Error(diff)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ends with %v", err)
		}
		// Who polls hears of it too, and an error of its own ends it.
		enough := errors.New("enough")
		count := 0
		err := s.Follow(t.Context(), 0, store.News{Poll: time.Millisecond}, func(seq uint64, _ store.Event) error {
			switch count++; seq {
			case 3:
				happen("n4")
			case 4:
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || count != 4 {
			t.Errorf("after %d events it ends with %v", count, err)
		}
		var replayed []uint64
		if err := s.Replay(t.Context(), 2, func(seq uint64, _ store.Event) error { replayed = append(replayed, seq); return nil }); err != nil || !cmp.Equal(replayed, []uint64{3, 4}) {
			t.Errorf("replayed %v, error %v", replayed, err)
		}
	})
}
