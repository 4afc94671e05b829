package dashboard_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/talos-provision/provision/provisioner/web/dashboard/dashboardtest"
)

// moment is when the fleets of the pictures are.
var moment = time.Date(2026, 11, 30, 21, 30, 0, 0, time.UTC)

// `make screenshots` writes pictures of all pages to the folder SCREENSHOTS. Those of
// docs/images are made of them by pngquant --speed 1 --quality 60-90 --strip 64. Without
// SCREENSHOTS one is made and thrown away.
func TestPicturesOfThePages(t *testing.T) {
	folder := os.Getenv("SCREENSHOTS")
	if folder != "" {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	twelve, thousand := dashboardtest.Size{Clusters: 2, Nodes: 12}, dashboardtest.Size{Clusters: 6, Nodes: 1000}
	for _, picture := range []struct {
		name   string
		size   dashboardtest.Size
		path   string
		scheme string
		width  int64
		height int64
	}{
		{"overview-empty", dashboardtest.Size{}, "/", "light", 1280, 640},
		{"overview-12", twelve, "/", "light", 1280, 800},
		{"overview-1000", thousand, "/", "light", 1280, 1000},
		{"overview-1000-dark", thousand, "/", "dark", 1280, 1000},
		{"cluster", thousand, "/clusters/k8s-prod?sort=state", "light", 1280, 860},
		{"node", twelve, "/nodes/k8s-prod/node-06", "light", 1280, 1280},
		{"node-dark", twelve, "/nodes/k8s-prod/node-06", "dark", 1280, 1280},
		{"node-failed", twelve, "/nodes/k8s-stage/node-04", "light", 1280, 900},
		{"run", twelve, "/runs/20261130T203112Z-k8s-prod", "light", 1280, 700},
		{"runs", thousand, "/runs", "light", 1280, 700},
		{"unknown", twelve, "/unknown", "light", 1280, 700},
		{"collisions", twelve, "/collisions", "light", 1280, 560},
		{"inventory", thousand, "/inventory", "dark", 1280, 600},
		{"login", twelve, "/login", "light", 900, 600},
		{"narrow", thousand, "/clusters/k8s-prod", "light", 320, 900},
	} {
		if folder == "" && picture.name != "overview-12" {
			continue
		}
		url := serveFixture(t, dashboardtest.New(dashboardtest.Fleet(picture.size, moment)), func() time.Time { return moment })
		p := newTab(t)
		p.size(picture.width, picture.height)
		p.scheme(picture.scheme)
		if status := p.open(url + picture.path); status != 200 {
			t.Errorf("%s: status %d", picture.path, status)
		}
		if picture.name != "login" {
			p.live()
		}
		png := p.picture()
		if len(png) < 5000 {
			t.Errorf("%s: a picture of %d bytes", picture.name, len(png))
		}
		if folder == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, "dashboard-"+picture.name+".png"), png, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
