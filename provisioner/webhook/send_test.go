package webhook_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/webhook"
)

func TestAMessageIsSignedAndTellsOfTheEvent(t *testing.T) {
	t.Parallel()
	s, to := openStore(t), receive(t, nil)
	send(t, webhook.Options{Store: s, Receivers: []webhook.Receiver{signed(t, "r", to.URL)}})
	placed(t, s, "r")
	happen(t, s, "prod", "node-01", "Booting")
	happen(t, s, "prod", "node-01", "Failed", func(e *store.Event) {
		e.Error, e.Hint, e.Cause = "the power is <off>", "look at it", "power"
	})
	got := to.next(t)
	if !strings.HasPrefix(got.id, "msg_") || got.Type != "node.failed" || time.Since(got.Timestamp) > patience {
		t.Errorf("the message is %q of type %q at %s", got.id, got.Type, got.Timestamp)
	}
	d := got.data
	if d.Seq != 2 || d.Run != "run-1" || d.Cluster != "prod" || d.Node != "node-01" || d.State != "Failed" || d.Error != "the power is <off>" || d.Hint != "look at it" || d.Cause != "power" {
		t.Errorf("the data are %+v", d)
	}
}

// What keeps a receiver from taking a message: each is tried again with the same id,
// and what comes later waits.
func TestAMessageThatIsNotTakenComesAgainWithItsID(t *testing.T) {
	t.Parallel()
	elsewhere := receive(t, nil)
	t.Cleanup(func() {
		if n := len(elsewhere.requests); n > 0 {
			t.Errorf("%d messages went where a receiver pointed to", n)
		}
	})
	for name, fail := range map[string]func(w http.ResponseWriter, r *http.Request) int{
		"an error":  func(http.ResponseWriter, *http.Request) int { return 500 },
		"a refusal": func(http.ResponseWriter, *http.Request) int { return 404 },
		"too many":  func(w http.ResponseWriter, _ *http.Request) int { w.Header().Set("Retry-After", "1"); return 429 },
		"no answer": func(_ http.ResponseWriter, r *http.Request) int { <-r.Context().Done(); return 500 },
		"a cut":     func(http.ResponseWriter, *http.Request) int { panic(http.ErrAbortHandler) },
		"a way elsewhere": func(w http.ResponseWriter, _ *http.Request) int {
			w.Header().Set("Location", elsewhere.URL)
			return 307
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			to := receive(t, func(n int, w http.ResponseWriter, r *http.Request) int {
				if n <= 3 {
					return fail(w, r)
				}
				return 204
			})
			r := signed(t, "r", to.URL)
			r.Timeout = 50 * time.Millisecond
			if name != "no answer" {
				r.Timeout = patience
			}
			send(t, webhook.Options{Store: s, Receivers: []webhook.Receiver{r}})
			placed(t, s, "r")
			happen(t, s, "prod", "node-01", "Ready")
			happen(t, s, "prod", "node-02", "Ready")
			first, second := to.next(t), to.next(t)
			if first.data.Node != "node-01" || second.data.Node != "node-02" {
				t.Errorf("the messages are of %s and %s; want them in order", first.data.Node, second.data.Node)
			}
			for n := range 5 {
				want := first.id
				if n == 4 {
					want = second.id
				}
				if id := to.asked(t); id != want {
					t.Errorf("request %d has the id %s; want %s", n+1, id, want)
				}
			}
			if first.id == second.id {
				t.Errorf("two messages have the id %s", first.id)
			}
		})
	}
}

func TestWhatHappensWhileTheReceiverIsDownComesWhenItIsUp(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.91.7.3:0") // no other test takes ports there
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close() // refused from here on
	s := openStore(t)
	w := send(t, webhook.Options{Store: s, Receivers: []webhook.Receiver{signed(t, "r", "http://"+address+"/in")}})
	placed(t, s, "r")
	for n := range 5 {
		happen(t, s, "prod", fmt.Sprintf("node-%02d", n), "Ready")
	}
	until(t, "an attempt that is refused", func() bool { return strings.Contains(w.log.String(), "connection refused") })
	if listener, err = lc.Listen(t.Context(), "tcp", address); err != nil {
		t.Fatalf("the port was taken meanwhile: %v", err)
	}
	to := receive(t, nil)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: to.Config.Handler, ReadHeaderTimeout: patience}}
	server.Start()
	t.Cleanup(server.Close)
	for n := range 5 {
		if got, want := to.next(t).data.Node, fmt.Sprintf("node-%02d", n); got != want {
			t.Errorf("message %d is of %s", n, got)
		}
	}
	if strings.Contains(w.log.String(), "/in") {
		t.Error("the log holds the path of the URL, which may be a secret")
	}
}

// The daemon is stopped while the receiver takes nothing, and started again later.
func TestARestartLosesNothing(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	var up atomic.Bool
	to := receive(t, func(int, http.ResponseWriter, *http.Request) int {
		if up.Load() {
			return 200
		}
		return 503
	})
	options := webhook.Options{Store: s, Receivers: []webhook.Receiver{signed(t, "r", to.URL)}}
	w := send(t, options)
	placed(t, s, "r")
	happen(t, s, "prod", "node-01", "Ready")
	before := to.asked(t)
	w.end()
	happen(t, s, "prod", "node-02", "Failed")
	up.Store(true)
	w = send(t, options)
	first, second := to.next(t), to.next(t)
	if first.data.Node != "node-01" || second.data.Node != "node-02" || first.id != before {
		t.Errorf("after the restart came %s and %s, with the id %s; want node-01 with its id %s, then node-02", first.data.Node, second.data.Node, first.id, before)
	}
	kept(t, s, "r", 2, "")
	w.end()
	send(t, options)
	happen(t, s, "prod", "node-03", "Ready")
	if got := to.next(t); got.data.Node != "node-03" {
		t.Errorf("after another restart %s came again", got.data.Node)
	}
}

func TestANewReceiverBeginsWithWhatHappensFromThenOn(t *testing.T) {
	t.Parallel()
	s, to := openStore(t), receive(t, nil)
	happen(t, s, "prod", "node-01", "Failed")
	finish(t, s, "run-1")
	send(t, webhook.Options{Store: s, Receivers: []webhook.Receiver{signed(t, "r", to.URL)}})
	placed(t, s, "r")
	happen(t, s, "prod", "node-02", "Failed")
	if got := to.next(t); got.data.Node != "node-02" {
		t.Errorf("the first message is %s of %s; want what happened since", got.Type, got.data.Node)
	}
}

func TestASlowReceiverHoldsUpNobody(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	hung := receive(t, func(_ int, _ http.ResponseWriter, r *http.Request) int { <-r.Context().Done(); return 500 })
	quick := receive(t, nil)
	send(t, webhook.Options{Store: s, Receivers: []webhook.Receiver{signed(t, "hung", hung.URL), signed(t, "quick", quick.URL)}})
	placed(t, s, "hung", "quick")
	happen(t, s, "prod", "node-00", "Ready")
	hung.asked(t) // it has the first message, and keeps it
	for n := range 20 {
		happen(t, s, "prod", fmt.Sprintf("node-%02d", n+1), "Ready")
	}
	for n := range 21 {
		if got, want := quick.next(t).data.Node, fmt.Sprintf("node-%02d", n); got != want {
			t.Errorf("message %d is of %s", n, got)
		}
	}
}

func TestAReceiverThatIsGoneIsLeftAloneUntilTheNextStart(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	to := receive(t, func(n int, _ http.ResponseWriter, _ *http.Request) int {
		if n == 1 {
			return http.StatusGone
		}
		return 200
	})
	options := webhook.Options{Store: s, Receivers: []webhook.Receiver{signed(t, "r", to.URL)}}
	w := send(t, options)
	placed(t, s, "r")
	happen(t, s, "prod", "node-01", "Ready")
	until(t, "the receiver to be left alone", func() bool { return strings.Contains(w.log.String(), "nothing more until the daemon is started anew") })
	happen(t, s, "prod", "node-02", "Ready")
	w.end()
	if n := len(to.requests); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	send(t, options)
	if got := to.next(t); got.data.Node != "node-01" {
		t.Errorf("after the next start it is told of %s first", got.data.Node)
	}
}

func TestAMessageThatIsTooOldIsGivenUpAfterOneAttempt(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	to := receive(t, func(n int, _ http.ResponseWriter, _ *http.Request) int {
		if n <= 2 {
			return 500
		}
		return 200
	})
	w := send(t, webhook.Options{Store: s, Receivers: []webhook.Receiver{signed(t, "r", to.URL)}})
	placed(t, s, "r")
	old := func(e *store.Event) { e.Time = time.Now().Add(-25 * time.Hour) }
	happen(t, s, "prod", "node-01", "Ready", old)
	happen(t, s, "prod", "node-02", "Ready", old)
	happen(t, s, "prod", "node-03", "Ready", old)
	if got := to.next(t); got.data.Node != "node-03" {
		t.Errorf("it is told of %s", got.data.Node)
	}
	if a, b := to.asked(t), to.asked(t); a == b {
		t.Error("a message of yesterday was tried twice")
	}
	if n := strings.Count(w.log.String(), "is given up"); n != 2 {
		t.Errorf("the log tells of %d messages that were given up; want 2", n)
	}
}

// followers is a store whose controller leads, or does not.
type followers struct {
	*store.Store
	leads   atomic.Bool
	refused atomic.Int64 // how often it was told that it does not
}

func (f *followers) MayServe(string) error {
	if f.leads.Load() {
		return nil
	}
	f.refused.Add(1)
	return errors.New("another leads")
}

func TestOnlyTheLeaderSendsAndTheNextOneGoesOn(t *testing.T) {
	t.Parallel()
	s, to := openStore(t), receive(t, nil)
	one, two := &followers{Store: s}, &followers{Store: s}
	one.leads.Store(true)
	receivers := []webhook.Receiver{signed(t, "r", to.URL)}
	send(t, webhook.Options{Store: one, Receivers: receivers})
	send(t, webhook.Options{Store: two, Receivers: receivers})
	placed(t, s, "r")
	const count = 3
	for n := range count {
		node := fmt.Sprintf("node-%02d", n)
		happen(t, s, "prod", node, "Ready")
		if got := to.next(t).data.Node; got != node {
			t.Errorf("it is told of %s; want %s", got, node)
		}
		kept(t, s, "r", uint64(n)+1, "")
		one.leads.Store(n%2 == 1)
		two.leads.Store(n%2 == 0)
	}
	if n := len(to.requests); n != count {
		t.Errorf("%d requests for %d messages", n, count)
	}
}

func TestWhoLeadsNoMoreTriesNoMore(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	to := receive(t, func(int, http.ResponseWriter, *http.Request) int { return 500 })
	leader := &followers{Store: s}
	leader.leads.Store(true)
	w := send(t, webhook.Options{Store: leader, Receivers: []webhook.Receiver{signed(t, "r", to.URL)}})
	placed(t, s, "r")
	happen(t, s, "prod", "node-01", "Ready")
	to.asked(t)
	to.asked(t)
	leader.leads.Store(false)
	// An attempt that is under way may come still; whoever has asked whether it leads since makes none.
	until(t, "the follower to see that it does not lead", func() bool { return leader.refused.Load() > 0 })
	tried := len(to.requests)
	seen := leader.refused.Load()
	until(t, "the follower to look again", func() bool { return leader.refused.Load() >= seen+3 })
	if now := len(to.requests); now != tried {
		t.Errorf("%d attempts after it led no more", now-tried)
	}
	w.end()
}

func TestOfOtherSitesNothingIsTold(t *testing.T) {
	t.Parallel()
	s, to := openStore(t), receive(t, nil)
	send(t, webhook.Options{
		Store: s, Site: "berlin", Receivers: []webhook.Receiver{signed(t, "r", to.URL)},
		Ours: ours("prod/node-01"),
	})
	until(t, "the receiver to have its place", func() bool {
		marks, err := s.Marks()
		return err == nil && marks["webhook:berlin:r"] != ""
	})
	happen(t, s, "prod", "node-09", "Failed")
	happen(t, s, "prod", "node-01", "Failed")
	if got := to.next(t).data.Node; got != "node-01" {
		t.Errorf("it is told of %s", got)
	}
}

func TestWhatIsToldIsWhatTheReceiverWants(t *testing.T) {
	t.Parallel()
	same := func(e *store.Event) { e.Previous = e.State }
	cause := func(c string) func(*store.Event) { return func(e *store.Event) { e.Cause = c } }
	for _, test := range []struct {
		name string
		r    webhook.Receiver
		want []string
	}{
		{"by default", webhook.Receiver{}, []string{"prod/a Ready", "prod/b Failed", "dev/c Held", "dev/d Maintenance"}},
		{"of clusters", webhook.Receiver{Clusters: []string{"dev", "test"}}, []string{"dev/c Held", "dev/d Maintenance"}},
		{"of states", webhook.Receiver{States: []string{"Booting", "Ready"}}, []string{"prod/a Booting", "prod/a Ready"}},
		{"of causes", webhook.Receiver{Causes: []string{"identity"}}, []string{"prod/a Ready", "dev/c Held", "dev/d Maintenance"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, to := openStore(t), receive(t, nil)
			r := signed(t, "r", to.URL)
			r.Clusters, r.States, r.Causes = test.r.Clusters, test.r.States, test.r.Causes
			send(t, webhook.Options{Store: s, Receivers: []webhook.Receiver{r}})
			placed(t, s, "r")
			happen(t, s, "prod", "a", "Booting", func(e *store.Event) { e.Previous = "Armed" })
			happen(t, s, "prod", "a", "Ready")
			happen(t, s, "prod", "a", "Ready", same)
			happen(t, s, "prod", "b", "Failed", cause("power"))
			happen(t, s, "dev", "c", "Held", cause("identity"))
			happen(t, s, "dev", "d", "Maintenance")
			got := make([]string, 0, len(test.want))
			for range test.want {
				m := to.next(t)
				got = append(got, m.data.Cluster+"/"+m.data.Node+" "+m.data.State)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			if n := len(to.requests); n != len(test.want) {
				t.Errorf("%d requests for %d messages", n, len(test.want))
			}
		})
	}
}
