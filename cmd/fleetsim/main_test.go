package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/fleet"
)

func TestClustersFlag(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want []fleet.Cluster
		err  string
	}{
		{"k8s-prod:3:1,k8s-test:1:0", []fleet.Cluster{{Name: "k8s-prod", ControlPlanes: 3, Workers: 1}, {Name: "k8s-test", ControlPlanes: 1}}, ""},
		{"k8s-prod", nil, "want the form"},
		{":1:1", nil, "want the form"},
		{"a:0:1", nil, "one control plane or more"},
		{"a:1:x", nil, "no number of workers"},
	}
	for _, tt := range tests {
		got, err := parseClusters(tt.text)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.text, diff)
		}
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: error = %v, want %q", tt.text, err, tt.err)
		}
	}
	if _, err := parse([]string{"--machine-configs"}); err == nil || !strings.Contains(err.Error(), "--clusters") {
		t.Errorf("machine configs without clusters: %v", err)
	}
}
