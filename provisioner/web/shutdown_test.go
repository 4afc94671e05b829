package web_test

import (
	"errors"
	"testing"
	"time"

	"github.com/talos-provision/provision/provisioner/web"
)

func TestTheEndLetsCallsFinishAndEndsStreams(t *testing.T) {
	t.Parallel()
	daemon := recorded(1)
	daemon.block = make(chan struct{})
	r := serve(t, daemon, web.Options{Socket: socket(t)})
	c := client(t, web.Endpoint{Socket: r.opts.Socket})
	planned := make(chan error, 1)
	go func() {
		_, err := c.Plan(t.Context(), web.RunRequest{Cluster: "prod"})
		planned <- err
	}()
	stream := make(chan string, 1)
	go func() { stream <- readEvents(t, r, "follow=true", "application/x-ndjson", "", `"end"`) }()
	until(t, "the stream to be open", func() bool { return r.server.OpenStreams() == 1 })
	until(t, "the plan to be under way", func() bool { return daemon.planning.Load() == 1 })
	ended := make(chan error, 1)
	go func() { ended <- r.end() }()
	if got := <-stream; got[len(got)-len(`{"end":"stopping"}`)-1:] != `{"end":"stopping"}`+"\n" {
		t.Errorf("the stream ends with %q; want that the daemon is stopping", got)
	}
	select {
	case err := <-ended:
		t.Fatalf("the server ended with %v while a call was under way", err)
	default:
	}
	close(daemon.block)
	if err := <-planned; err != nil {
		t.Errorf("the call under way ends with %v; want its answer", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestTheEndComesThoughACallHangs(t *testing.T) {
	t.Parallel()
	daemon := newFake()
	daemon.block = make(chan struct{})
	r := serve(t, daemon, web.Options{Socket: socket(t), Grace: 50 * time.Millisecond})
	planned := make(chan error, 1)
	c := client(t, web.Endpoint{Socket: r.opts.Socket})
	go func() {
		_, err := c.Plan(t.Context(), web.RunRequest{Cluster: "prod"})
		planned <- err
	}()
	until(t, "the plan to be under way", func() bool { return daemon.planning.Load() == 1 })
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if err := <-planned; !errors.Is(err, web.ErrUnreachable) {
		t.Errorf("the call that was cut off ends with %v; want ErrUnreachable", err)
	}
	until(t, "the daemon to hear of it", func() bool { return daemon.planning.Load() == 0 })
}

func TestACallThatTakesTooLongIsEnded(t *testing.T) {
	t.Parallel()
	daemon := newFake()
	daemon.block = make(chan struct{})
	r := serve(t, daemon, web.Options{Socket: socket(t), PlanTimeout: 20 * time.Millisecond})
	_, err := client(t, web.Endpoint{Socket: r.opts.Socket}).Plan(t.Context(), web.RunRequest{Cluster: "prod"})
	if !errors.Is(err, &web.Error{Code: web.CodeTimeout}) {
		t.Errorf("the error is %v; want a timeout", err)
	}
}

func TestAPlanMayTakeLongerThanItsBody(t *testing.T) {
	t.Parallel()
	daemon := newFake()
	daemon.block = make(chan struct{})
	r := serve(t, daemon, web.Options{Socket: socket(t), RequestTimeout: 50 * time.Millisecond})
	time.AfterFunc(200*time.Millisecond, func() { close(daemon.block) }) // the body's time is over by then
	if _, err := client(t, web.Endpoint{Socket: r.opts.Socket}).Plan(t.Context(), web.RunRequest{Cluster: "prod"}); err != nil {
		t.Errorf("a plan that takes its time ends with %v", err)
	}
}
