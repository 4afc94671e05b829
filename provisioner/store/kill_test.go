package store_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/talos-provision/provision/provisioner/store"
)

// writeUntilKilled records nodes, eight at once, and says which ones are written.
func writeUntilKilled() {
	s, err := store.Connect(context.Background(), os.Getenv("STATE"), store.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for worker := range 8 {
		go func() {
			for i := 0; ; i++ {
				n := store.Node{Cluster: fmt.Sprint("w", worker), Name: strconv.Itoa(i), State: "Armed"}
				if err := s.Record(n, store.Event{Cluster: n.Cluster, Node: n.Name}); err != nil {
					fmt.Println(err)
					return
				}
				fmt.Println("written " + n.Cluster + "/" + n.Name)
			}
		}()
	}
	select {}
}

// I8: whatever was told as written is there after a kill -9, with its event.
func TestI8AKilledWriterLosesNothingItWasToldIsWritten(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		const kills, atLeast = 3, 60
		told := map[string]bool{}
		for range kills {
			child := exec.CommandContext(t.Context(), os.Args[0])
			child.Env = append(os.Environ(), asChild+"=writer", "STATE="+location)
			child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			out, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			count, killed := 0, false
			for lines := bufio.NewScanner(out); lines.Scan(); {
				name, written := strings.CutPrefix(lines.Text(), "written ")
				if !written {
					t.Fatal(lines.Text())
				}
				told[name] = true
				if count++; count > atLeast && !killed { // what it said before it died is read to the end
					killed = true
					if err := child.Process.Kill(); err != nil {
						t.Fatal(err)
					}
				}
			}
			_ = child.Wait() // it was killed
		}
		s := connect(t, location, store.Options{})
		nodes, err := s.Nodes("")
		if err != nil {
			t.Fatal(err)
		}
		there, events := map[string]bool{}, map[string]bool{}
		for _, n := range nodes {
			there[n.Cluster+"/"+n.Name] = true
		}
		if err := s.Events(func(e store.Event) bool { events[e.Cluster+"/"+e.Node] = true; return true }); err != nil {
			t.Fatal(err)
		}
		for name := range told {
			if !there[name] || !events[name] {
				t.Errorf("%s was told as written; record %v, event %v", name, there[name], events[name])
			}
		}
		for name := range there {
			if !events[name] {
				t.Errorf("%s has no event", name)
			}
		}
		if report, err := s.Check(); err != nil || len(report.Problems) > 0 {
			t.Errorf("problems %v, error %v", report.Problems, err)
		}
	})
}
