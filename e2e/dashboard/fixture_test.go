package dashboard_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/talos-provision/provision/provisioner/web/dashboard"
	"github.com/talos-provision/provision/provisioner/web/dashboard/dashboardtest"
)

// policy is what package web sends with each page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// serveFixture serves the pages of a daemon that has what it is given, under the headers of package web.
func serveFixture(t *testing.T, control *dashboardtest.Control, now func() time.Time) string {
	t.Helper()
	h, err := dashboard.New(dashboard.Options{
		Control: control, Version: "v1.0.0", Now: now, Pace: 100 * time.Millisecond, Heartbeat: time.Second,
		Viewer: func(context.Context) dashboard.Viewer {
			return dashboard.Viewer{Name: "token", MayAct: true, SignedIn: true}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}
