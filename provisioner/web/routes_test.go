package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/talos-provision/provision/provisioner/web"
)

// metrics is a page of another package.
func metrics() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("up 1\n")) })
}

func TestOddRequestsAreToldWhatIsWrong(t *testing.T) {
	t.Parallel()
	daemon := newFake()
	socket := serve(t, daemon, web.Options{Socket: socket(t), Metrics: metrics()})
	stranger := serve(t, daemon, web.Options{Listen: "127.0.0.1:0", Metrics: metrics()})
	for _, test := range []struct {
		name, method, path, body string
		server                   *running
		want                     int
		says                     string
	}{
		{"no such path", "GET", "/api/v1/moon", "", socket, 404, `"code":"not found"`},
		{"no such version", "GET", "/api/v2/nodes", "", socket, 404, "different versions"},
		{"the root", "GET", "/", "", socket, 404, `"code":"not found"`},
		{"out of the tree", "GET", "/api/v1/../../etc/passwd", "", socket, 404, `"code":"not found"`},
		{"no such path, for strangers", "GET", "/api/v1/moon", "", stranger, 401, `"code":"unauthorized"`},
		{"metrics", "GET", "/metrics", "", socket, 200, "up 1"},
		{"metrics, for strangers", "GET", "/metrics", "", stranger, 401, `"code":"unauthorized"`},
		{"another method", "DELETE", "/api/v1/nodes", "", socket, 405, "use GET"},
		{"posting what can be looked at only", "POST", "/api/v1/nodes", "{}", socket, 405, "use GET"},
		{"no such run", "GET", "/api/v1/runs/run-9", "", socket, 404, "run-9"},
		{"no body", "POST", "/api/v1/plans", "", socket, 400, "read the request"},
		{"no JSON", "POST", "/api/v1/plans", "cluster=prod", socket, 400, "read the request"},
		{"two documents", "POST", "/api/v1/plans", `{"cluster":"prod"} {}`, socket, 400, "more than one"},
		{"a field that is not known", "POST", "/api/v1/plans", `{"cluster":"prod","dryRun":true}`, socket, 400, "dryRun"},
		{"no cluster", "POST", "/api/v1/plans", `{}`, socket, 400, "give --cluster"},
		{"no goal", "POST", "/api/v1/plans", `{"cluster":"prod","until":"tomorrow"}`, socket, 400, "maintenance, configured"},
		{"a line break", "POST", "/api/v1/plans", `{"cluster":"prod","nodes":"a\nb"}`, socket, 400, "control character"},
		{"no plan that was confirmed", "POST", "/api/v1/runs", `{"cluster":"prod"}`, socket, 400, "its digest"},
		{"a hold without a reason", "POST", "/api/v1/nodes/prod/n1/hold", `{"reason":" "}`, socket, 400, "give --reason"},
		{"a hold with a novel", "POST", "/api/v1/nodes/prod/n1/hold", `{"reason":"` + strings.Repeat("x", 1001) + `"}`, socket, 400, "shorten it"},
		{"who holds is not for the asker to say", "POST", "/api/v1/nodes/prod/n1/hold", `{"reason":"x","by":"root"}`, socket, 400, "by"},
		{"a body for another call", "POST", "/api/v1/runs/prod/stop", `{"cluster":"test"}`, socket, 400, "cluster"},
		{"a stream from nowhere", "GET", "/api/v1/events?after=-1", "", socket, 400, "seq"},
		{"a stream that may be followed", "GET", "/api/v1/events?follow=perhaps", "", socket, 400, "neither true nor false"},
		{"a body without end", "POST", "/api/v1/plans", `{"cluster":"` + strings.Repeat("x", 1<<20) + `"}`, socket, 413, "as a hostlist"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			request, err := http.NewRequestWithContext(t.Context(), test.method, "http://localhost"+test.path, strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			status, body := raw(t, test.server, request)
			if status != test.want || !strings.Contains(body, test.says) {
				t.Errorf("the answer is %d: %s; want %d that says %q", status, body, test.want, test.says)
			}
		})
	}
	t.Cleanup(func() {
		if asked, _ := daemon.last(); asked != nil && asked != "runs" {
			t.Errorf("the daemon was asked %v", asked)
		}
	})
}
