package source_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/talos-provision/provision/inventory/source"
)

// Not parallel: it looks at all goroutines.
func TestNothingOutlivesRun(t *testing.T) { //nolint:paralleltest // see above
	dir := t.TempDir()
	write(t, dir, map[string]string{"a/n1.yaml": "serial: S1\n"})
	u := newUpstream(t)
	u.commit(t, map[string]string{"a/n1.yaml": "serial: S1\n"})
	folder, _ := watching(t, dir, nil)
	web := serveHTTPS(t, u)
	https, _ := following(t, u, web.reach)
	ssh, _ := following(t, u, serveSSH(t, u))
	for _, s := range []*source.Source{folder, https, ssh} {
		load(t, s)
		start(t, s)()
	}
	ours := []string{"inventory/source.(", "inventory/source.new", "fsnotify.", "http.(*persistConn)", "ssh.(*mux)", "ssh.newClientTransport", "packfile."}
	var left string
	eventually(t, "the end of all goroutines", func() bool {
		stacks := make([]byte, 1<<20)
		left = ""
		for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			for _, name := range ours {
				if strings.Contains(stack, name) && !strings.Contains(stack, "source_test.") {
					left += stack + "\n\n"
				}
			}
		}
		return left == ""
	})
	if left != "" {
		t.Error(left)
	}
}
