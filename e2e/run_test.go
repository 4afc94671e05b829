package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/qemu"
	"github.com/talos-provision/provision/provisioner/store"
)

// provision is the program at work inside the site's namespace.
type provision struct {
	*qemu.Process
	t      *testing.T
	events chan store.Event
	stderr *bytes.Buffer
}

// start runs `provision --cluster metal --yes -o json` and more.
func (s *site) start(more ...string) *provision {
	s.t.Helper()
	args := append([]string{"--config", filepath.Join(s.dir, "provision.yaml"), "--cluster", "metal", "--yes", "-o", "json", "--log-level", "debug"}, more...)
	cmd := s.network.Command(s.t.Context(), s.built.binary, args...)
	reader, writer, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	p := &provision{t: s.t, events: make(chan store.Event, 1000), stderr: &bytes.Buffer{}}
	cmd.Stdout, cmd.Stderr = writer, p.stderr
	if p.Process, err = s.network.Start(cmd); err != nil {
		s.t.Fatal(err)
	}
	_ = writer.Close()
	go func() {
		defer close(p.events)
		defer func() { _ = reader.Close() }()
		for lines := bufio.NewScanner(reader); lines.Scan(); {
			var e store.Event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				s.t.Errorf("output line %q: %v", lines.Text(), err)
				return
			}
			s.t.Logf("%s %s %s %s %s", e.Time.Format(time.TimeOnly), e.Node, e.State, e.Message, e.Error)
			p.events <- e
		}
	}()
	return p
}

// until reads events up to the first that has this state.
func (p *provision) until(state string) {
	p.t.Helper()
	for e := range p.events {
		if e.State == state {
			return
		}
	}
	p.t.Fatalf("the program ended before %s:\n%s", state, p.log())
}

// finish waits for the end and returns the last event of each node and the exit status.
func (p *provision) finish() (map[string]store.Event, int) {
	p.t.Helper()
	last := map[string]store.Event{}
	for e := range p.events {
		last[e.Node] = e
	}
	return last, p.status()
}

// states waits for the end and returns every state that the node was in, and the exit status.
func (p *provision) states(node string) ([]string, int) {
	p.t.Helper()
	var passed []string
	for e := range p.events {
		if e.Node == node && (len(passed) == 0 || passed[len(passed)-1] != e.State) {
			passed = append(passed, e.State)
		}
	}
	return passed, p.status()
}

func (p *provision) status() int {
	p.t.Helper()
	status := 0
	if err := p.Wait(); err != nil {
		status = -1
		if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // Wait returns it as it is
			status = exit.ExitCode()
		}
	}
	if status != 0 {
		p.t.Logf("the program's log:\n%s", p.log())
	}
	return status
}

// log is what the program wrote to standard error; only after it has ended.
func (p *provision) log() string {
	<-p.Done()
	return p.stderr.String()
}

func tail(text string, lines int) string {
	all := strings.Split(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
