package web_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/provisioner/web"
)

func TestErrorsOfTheDaemonComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	many := make([]string, 12)
	for i := range many {
		many[i] = fmt.Sprintf("node-%02d", i)
	}
	busy := []web.Busy{{Run: "run-7", Cluster: "prod", Nodes: many}}
	changed := aPlan()
	for _, test := range []struct {
		name string
		err  error
		is   error
		says string
		plan *web.PlanAnswer
		busy []web.Busy
	}{
		{"busy", web.BusyWith(busy...), web.ErrBusy, "node-07 and 4 more", nil, busy},
		{"plan changed", web.PlanChanged(changed), web.ErrPlanChanged, "confirm it", &changed, nil},
		{"plan changed, with words around", fmt.Errorf("start prod: %w", web.PlanChanged(changed)), web.ErrPlanChanged, "start prod: ", &changed, nil},
		{"not found", fmt.Errorf("cluster x: %w", web.ErrNotFound), web.ErrNotFound, "cluster x", nil, nil},
		{"invalid", web.Invalid(errors.New("selector: no ="), "write key=value"), web.ErrInvalid, "selector: no =; write key=value", nil, nil},
		{"not the leader", web.Unavailable(errors.New("host b leads"), "ask host b"), web.ErrUnavailable, "host b leads; ask host b", nil, nil},
		{"late", fmt.Errorf("ask etcd: %w", context.DeadlineExceeded), &web.Error{Code: web.CodeTimeout}, "ask etcd", nil, nil},
		{"anything else", errors.New("disk on fire"), &web.Error{Code: web.CodeInternal}, "disk on fire; look at the daemon's log", nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			daemon := newFake()
			daemon.fail = test.err
			r := serve(t, daemon, web.Options{Socket: socket(t)})
			c := client(t, web.Endpoint{Socket: r.opts.Socket})
			calls := []func() error{
				func() error {
					_, err := c.Start(t.Context(), web.RunRequest{Cluster: "prod", Digest: "d"})
					return err
				},
				func() error { return c.Stop(t.Context(), "prod") },
				func() error {
					_, err := c.Nodes(t.Context(), "")
					return err
				},
			}
			for i, call := range calls {
				err := call()
				var e *web.Error
				if !errors.Is(err, test.is) || !errors.As(err, &e) || !strings.Contains(err.Error(), test.says) {
					t.Fatalf("call %d: the error is %v; want %v that says %q", i, err, test.is, test.says)
				}
				if errors.Is(err, web.ErrForbidden) {
					t.Error("every error is every error")
				}
				if diff := cmp.Diff(test.plan, e.Plan, inPlans) + cmp.Diff(test.busy, e.Busy); diff != "" {
					t.Errorf("call %d: what came with the error differs:\n%s", i, diff)
				}
			}
		})
	}
}

func TestNoAnswerIsUnreachableAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	const address = "127.77.77.77:1" // nothing listens on port 1 of an address that only this test names
	for _, test := range []struct {
		endpoint web.Endpoint
		says     string
	}{
		{web.Endpoint{Socket: socket(t)}, "start `provision serve`"},
		{web.Endpoint{URL: "http://" + address}, address},
	} {
		c := client(t, test.endpoint)
		_, err := c.Runs(t.Context())
		if !errors.Is(err, web.ErrUnreachable) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: the error is %v; want ErrUnreachable that says %q", test.endpoint, err, test.says)
		}
		if c.Available(t.Context()) {
			t.Errorf("%s is available", test.endpoint)
		}
		if err := c.StreamEvents(t.Context(), web.StreamOptions{Follow: true}, nil); !errors.Is(err, web.ErrUnreachable) {
			t.Errorf("%s: a stream that never began ends with %v; want ErrUnreachable", test.endpoint, err)
		}
	}
}

func TestAHungDaemonIsNotAvailable(t *testing.T) {
	t.Parallel()
	path := socket(t)
	var lc net.ListenConfig
	mute, err := lc.Listen(t.Context(), "unix", path) // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() })
	if client(t, web.Endpoint{Socket: path}).Available(t.Context()) {
		t.Error("a daemon that says nothing is available")
	}
}

func TestABackupThatFailsOnItsWayIsNoBackup(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")
	for _, test := range []struct {
		name   string
		backup func(io.Writer) error
		is     error
	}{
		{"before its first byte", func(io.Writer) error { return broken }, &web.Error{Code: web.CodeInternal}},
		{"on its way", func(w io.Writer) error {
			_, err := w.Write(make([]byte, 100_000))
			return errors.Join(err, broken)
		}, web.ErrUnreachable},
		{"empty", func(io.Writer) error { return nil }, &web.Error{Code: web.CodeInternal}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			daemon := newFake()
			daemon.backups = test.backup
			r := serve(t, daemon, web.Options{Socket: socket(t)})
			var copied bytes.Buffer
			if err := client(t, web.Endpoint{Socket: r.opts.Socket}).Backup(t.Context(), &copied); !errors.Is(err, test.is) {
				t.Errorf("the backup of %d bytes ends with %v; want %v", copied.Len(), err, test.is)
			}
		})
	}
}

func TestAPanicOfTheDaemonIsAnErrorInTheLog(t *testing.T) {
	t.Parallel()
	daemon := newFake()
	daemon.backups = func(io.Writer) error { panic("oh no") }
	log := newLog()
	r := serve(t, daemon, web.Options{Socket: socket(t), Log: log.logger()})
	err := client(t, web.Endpoint{Socket: r.opts.Socket}).Backup(t.Context(), io.Discard)
	if !errors.Is(err, &web.Error{Code: web.CodeInternal}) || strings.Contains(err.Error(), "oh no") {
		t.Errorf("the error is %v; want an internal one", err)
	}
	if text := log.String(); !strings.Contains(text, "oh no") || !strings.Contains(text, "errors_test.go") {
		t.Errorf("the log says nothing of the panic and its place:\n%s", text)
	}
}
