package redfishtest_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

func TestRequestsAreRecorded(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{})
	s.Inject(redfishtest.Fault{Method: "DELETE", Action: redfishtest.CloseConnection()})
	c := newClient(t, s)
	c.with("If-Match", "*", "Content-Type", "application/json", "Authorization", "", "X-Auth-Token", "tell-no-one").do("PATCH", systemPath, full)
	c.do("GET", systemPath, "")
	c.do("DELETE", systemPath, "")
	want := []redfishtest.Request{
		{Method: "PATCH", Path: systemPath, Status: 401, Body: full, Header: http.Header{
			"If-Match": {"*"}, "Content-Type": {"application/json"}, "X-Auth-Token": {"REDACTED"},
		}},
		{Method: "GET", Path: systemPath, Status: 200, Header: http.Header{"Authorization": {"Basic REDACTED"}}},
		{Method: "DELETE", Path: systemPath, Status: 0, Header: http.Header{"Authorization": {"Basic REDACTED"}}},
	}
	if diff := cmp.Diff(want, s.Requests(), cmpopts.IgnoreFields(redfishtest.Request{}, "Time")); diff != "" {
		t.Error(diff)
	}
}

// I9: passwords and tokens reach neither the records nor the log.
func TestSecretsAreNotKept(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-and-more"
	var log lockedBuffer
	s := start(t, redfishtest.Config{
		Username: "root", Password: secret,
		Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	c := newClient(t, s)
	login := c.do("POST", sessions, `{"UserName":"root","Password":"`+secret+`"}`)
	token := login.header.Get("X-Auth-Token")
	for _, body := range []string{
		`{"UserName":"root","PASSWORD":"` + secret + `"}`,
		`{"a":[{"userPassword":{"b":"` + secret + `"}}]}`,
		`{"Password":"` + secret,
		`UserName=root&Password=` + secret,
		`{"AuthToken":"` + token + `"}`,
	} {
		c.with("X-Auth-Token", token).do("POST", sessions, body)
	}
	everything := fmt.Sprintf("%+v", s.Requests()) + log.String()
	for _, word := range []string{secret, token} {
		if strings.Contains(everything, word) {
			t.Errorf("a secret is kept in %s", everything)
		}
	}
	if !strings.Contains(everything, "UserName:root") && !strings.Contains(everything, `"UserName":"root"`) {
		t.Error("the user name is no secret and should be kept")
	}
}

func TestOldRequestsAreForgotten(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{2: 2, -1: 0, 0: 5} {
		s := start(t, redfishtest.Config{RequestLimit: limit})
		c := newClient(t, s)
		for range 4 {
			c.do("GET", systemPath, "")
		}
		c.do("GET", "/redfish/v1/", "")
		got := s.Requests()
		wantEqual(t, fmt.Sprintf("requests kept with limit %d", limit), len(got), want)
		if len(got) > 0 {
			wantEqual(t, "the last one", got[len(got)-1].Path, "/redfish/v1/")
		}
	}
}

func TestMaxInFlight(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{})
	c := newClient(t, s)
	for range 3 {
		c.do("GET", systemPath, "")
	}
	wantEqual(t, "one at a time", s.MaxInFlight(), 1)

	both := make(chan struct{})
	arrived := make(chan struct{}, 2)
	s.Inject(redfishtest.Fault{Action: redfishtest.Call(func(*redfishtest.Service) {
		arrived <- struct{}{}
		<-both
	})})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { c.do("GET", systemPath, "") })
	}
	<-arrived
	<-arrived
	close(both)
	wg.Wait()
	wantEqual(t, "two at a time", s.MaxInFlight(), 2)
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
