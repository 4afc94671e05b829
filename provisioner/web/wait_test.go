package web_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/talos-provision/provision/provisioner/web"
)

func TestARunIsWaitedForToItsEnd(t *testing.T) {
	t.Parallel()
	daemon := newFake()
	var looks atomic.Int64
	daemon.runs = func() ([]web.RunInfo, error) {
		run := web.RunInfo{ID: "run-1", Started: moment}
		switch n := looks.Add(1); {
		case n == 2:
			return nil, web.Unavailable(errors.New("not the leader yet"), "ask again")
		case n > 3:
			run.Finished = moment.Add(time.Hour)
		}
		return []web.RunInfo{run}, nil
	}
	path := socket(t)
	serve(t, daemon, web.Options{Socket: path})
	c := client(t, web.Endpoint{Socket: path})
	run, err := c.Wait(t.Context(), "run-1")
	if err != nil || !run.Finished.Equal(moment.Add(time.Hour)) || looks.Load() != 4 {
		t.Errorf("after %d looks the run is %+v, %v; want it finished after 4", looks.Load(), run, err)
	}
	if _, err := c.Wait(t.Context(), "run-9"); !errors.Is(err, web.ErrNotFound) {
		t.Errorf("to wait for no run is answered %v; want ErrNotFound", err)
	}
	looks.Store(-1 << 40) // it never ends
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Wait(ctx, "run-1"); err == nil {
		t.Error("the wait outlives its context without an error")
	}
}

func TestAnotherServerIsNotTakenForADaemon(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		status int
		kind   string
		answer string
		says   string
	}{
		{"an error page", 502, "text/html", "<html>bad gateway</html>", "none of our errors"},
		{"a way elsewhere", 302, "", "", "none of our errors"},
		{"a page", 200, "text/html", "<html>welcome</html>", "cannot be read"},
		{"another JSON", 200, "application/x-ndjson", `{"seq":"one"}` + "\n", "cannot be read"},
		{"a line without end", 200, "application/x-ndjson", strings.Repeat("x", 2<<20), "cannot be read"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := socket(t)
			var lc net.ListenConfig
			listener, err := lc.Listen(t.Context(), "unix", path)
			if err != nil {
				t.Fatal(err)
			}
			other := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "http://127.77.77.77:1/")
				w.Header().Set("Content-Type", test.kind)
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.answer)
			})}
			go func() { _ = other.Serve(listener) }()
			t.Cleanup(func() { _ = other.Close() })
			c := client(t, web.Endpoint{Socket: path})
			_, errAsk := c.Runs(t.Context())
			errStream := c.StreamEvents(t.Context(), web.StreamOptions{Follow: true}, func(web.Event) error { return errors.New("an event") })
			for _, err := range []error{errAsk, errStream} {
				if !errors.Is(err, &web.Error{Code: web.CodeInternal}) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("the error is %v; want one that says %q", err, test.says)
				}
			}
		})
	}
}
