package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/store/storetest"
	"github.com/talos-provision/provision/provisioner/web"
)

// stateCLI runs `provision state` with a state of its own.
func stateCLI(t *testing.T, state string, args ...string) (status int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &stdout, errOut: &stderr, flags: flags{state: state, output: "table"}}
	root := &cobra.Command{Use: "provision", SilenceUsage: true, SilenceErrors: true}
	root.PersistentFlags().StringVarP(&a.flags.output, "output", "o", "table", "")
	root.AddCommand(stateCommand(a))
	root.SetArgs(append([]string{"state"}, args...))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	status = a.exitStatus(root.ExecuteContext(t.Context()))
	return status, stdout.String(), stderr.String()
}

// stateFolder is a state with one node and DHCP leases beside it.
func stateFolder(t *testing.T) (dir string, node store.Node) {
	t.Helper()
	dir = t.TempDir()
	s, err := store.Open(filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	node = store.Node{Cluster: "a", Name: "n1", State: "Ready"}
	if err := s.Record(node, store.Event{Cluster: "a", Node: "n1", State: "Ready"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.BeginRun(store.Run{ID: "r1", Cluster: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "leases"), []byte("a lease\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir, node
}

func nodesOf(t *testing.T, location string) []store.Node {
	t.Helper()
	s, err := store.Connect(t.Context(), location, store.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	nodes, err := s.Nodes("")
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

func TestAStateIsBackedUpAndRestoredWithItsLeases(t *testing.T) {
	t.Parallel()
	dir, node := stateFolder(t)
	backup := filepath.Join(t.TempDir(), "backup.db")
	if status, out, errOut := stateCLI(t, dir, "backup", backup); status != exitDone || !strings.Contains(out, backup) {
		t.Fatalf("status %d: %s%s", status, out, errOut)
	}
	if status, _, errOut := stateCLI(t, dir, "backup", backup); status != exitFailed || !strings.Contains(errOut, "give another FILE") {
		t.Errorf("over an older backup: status %d: %s", status, errOut)
	}
	if left, err := os.ReadDir(filepath.Dir(backup)); err != nil || len(left) != 1 {
		t.Errorf("beside the backup lie %v, error %v", left, err)
	}
	target := filepath.Join(t.TempDir(), "new")
	if status, out, errOut := stateCLI(t, target, "restore", backup, "-o", "json"); status != exitDone || !json.Valid([]byte(out)) {
		t.Fatalf("status %d: %s%s", status, out, errOut)
	}
	if got := nodesOf(t, filepath.Join(target, "state.db")); !cmp.Equal([]store.Node{node}, got) {
		t.Error(cmp.Diff([]store.Node{node}, got))
	}
	if leases, err := os.ReadFile(filepath.Join(target, "leases")); err != nil || string(leases) != "a lease\n" {
		t.Errorf("leases %q, error %v", leases, err)
	}
	// Where there is a state, or leases alone, nothing is restored.
	for _, moved := range []string{"", "state.db", "leases"} {
		if moved != "" {
			if err := os.Rename(filepath.Join(target, moved), filepath.Join(target, moved+".aside")); err != nil {
				t.Fatal(err)
			}
		}
		want := exitRefused
		if moved == "leases" {
			want = exitDone
		}
		status, _, errOut := stateCLI(t, target, "restore", backup)
		if status != want || want == exitRefused && !strings.Contains(errOut, "move") {
			t.Errorf("without %q: status %d, want %d: %s", moved, status, want, errOut)
		}
	}
}

func TestAStateMovesFromAFileToEtcdAndBack(t *testing.T) {
	t.Parallel()
	endpoint, _ := storetest.StartEtcd(t)
	dir, node := stateFolder(t)
	files := t.TempDir()
	first, second := filepath.Join(files, "first"), filepath.Join(files, "second")
	back := t.TempDir()
	for _, step := range [][]string{
		{dir, "backup", first}, {"etcd://" + endpoint, "restore", first}, {"etcd://" + endpoint, "backup", second}, {back, "restore", second},
	} {
		if status, out, errOut := stateCLI(t, step[0], step[1:]...); status != exitDone {
			t.Fatalf("%v: status %d: %s%s", step, status, out, errOut)
		}
	}
	for _, location := range []string{"etcd://" + endpoint, filepath.Join(back, "state.db")} {
		if got := nodesOf(t, location); !cmp.Equal([]store.Node{node}, got) {
			t.Errorf("%s: %s", location, cmp.Diff([]store.Node{node}, got))
		}
	}
	if status, _, errOut := stateCLI(t, "etcd://"+endpoint, "restore", first); status != exitRefused || !strings.Contains(errOut, "etcdctl del --prefix") {
		t.Errorf("over a state: status %d: %s", status, errOut)
	}
}

func TestAStateThatIsInUseIsBackedUpByWhoHasIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		serve func(t *testing.T, socket string, s *store.Store) // answers at the socket; nil for nobody
		want  int
		says  string
	}{
		"a run":                    {serve: serveViewer, want: exitDone},
		"somebody else":            {serve: serveNothing, want: exitFailed, says: "see that it is a `provision serve`"},
		"nobody that can be asked": {want: exitFailed, says: "wait for it to end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, node := stateFolder(t)
			s, err := store.Open(filepath.Join(dir, "state.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			if tc.serve != nil {
				tc.serve(t, filepath.Join(dir, "run.sock"), s)
			}
			backup := filepath.Join(t.TempDir(), "backup")
			status, out, errOut := stateCLI(t, dir, "backup", backup)
			if status != tc.want || !strings.Contains(errOut, tc.says) {
				t.Fatalf("status %d, want %d: %s%s", status, tc.want, out, errOut)
			}
			if tc.want != exitDone {
				if left, err := os.ReadDir(filepath.Dir(backup)); err != nil || len(left) > 0 {
					t.Errorf("a backup that failed leaves %v, error %v", left, err)
				}
				return
			}
			target := t.TempDir()
			if status, out, errOut := stateCLI(t, target, "restore", backup); status != exitDone {
				t.Fatalf("status %d: %s%s", status, out, errOut)
			}
			if got := nodesOf(t, filepath.Join(target, "state.db")); !cmp.Equal([]store.Node{node}, got) {
				t.Error(cmp.Diff([]store.Node{node}, got))
			}
			if status, out, errOut := stateCLI(t, dir, "check"); status != exitDone || !strings.Contains(out, "a copy") {
				t.Errorf("check: status %d: %s%s", status, out, errOut)
			}
		})
	}
}

// serveViewer answers as a run does that holds the state.
func serveViewer(t *testing.T, socket string, s *store.Store) {
	t.Helper()
	server, err := web.New(viewer{state: s, cluster: "a"}, web.Options{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// serveNothing answers as a program of another kind does.
func serveNothing(t *testing.T, socket string, _ *store.Store) {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}}
	server.Start()
	t.Cleanup(server.Close)
}

func TestACheckOfTheStateIsOneDocument(t *testing.T) {
	t.Parallel()
	dir, _ := stateFolder(t)
	status, out, errOut := stateCLI(t, dir, "check", "-o", "json")
	var report store.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || status != exitDone {
		t.Fatalf("status %d, error %v: %s%s", status, err, out, errOut)
	}
	if report.Schema != store.SchemaVersion || report.LastEvent != 1 || len(report.UnfinishedRuns) != 1 || len(report.Problems) > 0 {
		t.Errorf("report %+v", report)
	}
	status, out, _ = stateCLI(t, dir, "check")
	for _, want := range []string{"schema " + store.SchemaVersion, "nodes", "newest event: 1", "a/n1 Ready", "unfinished run: r1 of a"} {
		if status != exitDone || !strings.Contains(out, want) {
			t.Errorf("status %d, %q is not in:\n%s", status, want, out)
		}
	}
	for name, args := range map[string][]string{"no state yet": {"check"}, "no state to back up": {"backup", filepath.Join(t.TempDir(), "b")}} {
		if status, _, errOut := stateCLI(t, filepath.Join(dir, "elsewhere"), args...); status != exitFailed || !strings.Contains(errOut, "--state") {
			t.Errorf("%s: status %d: %s", name, status, errOut)
		}
	}
	// The node's record is spoilt in the file.
	path := filepath.Join(dir, "state.db")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	spoilt := bytes.ReplaceAll(content, []byte(`{"cluster":"a","node":"n1"`), []byte(`{"cluster":"a","node":"n2"`))
	if err := os.WriteFile(path, spoilt, 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errOut = stateCLI(t, dir, "check", "-o", "json")
	if err := json.Unmarshal([]byte(out), &report); err != nil || status != exitFailed || len(report.Problems) != 1 || !strings.Contains(errOut, "is damaged") {
		t.Errorf("status %d, error %v: %s%s", status, err, out, errOut)
	}
}
