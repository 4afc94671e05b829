package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
)

// Message is what a receiver of FormatEvents gets.
type Message struct {
	// Type is node. and a state in small letters, such as node.failed, or run.finished.
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	// Data is an Event, or a Finished with run.finished.
	Data any `json:"data"`
}

// Event is an event of the stream of events, with its number in it.
type Event struct {
	Seq uint64 `json:"seq"`
	store.Event
}

// Finished is how a run ended.
type Finished struct {
	Run      string    `json:"run"`
	Cluster  string    `json:"cluster"`
	Site     string    `json:"site,omitempty"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	// Nodes is how many nodes the run worked on, States how many of them ended in each state.
	Nodes  int            `json:"nodes"`
	States map[string]int `json:"states"`
	// Problems are nodes that failed or were held, at most 20 of them.
	Problems []Problem `json:"problems"`
}

// Problem is a node that a run gave up.
type Problem struct {
	Node  string `json:"node"`
	State string `json:"state"`
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
	Cause string `json:"cause,omitempty"`
}

// maxProblems keeps a message short.
const maxProblems = 20

// item is something to tell: an event, or the end of a run.
type item struct {
	event    *Event
	finished *Finished
}

func (i item) time() time.Time {
	if i.event != nil {
		return i.event.Time
	}
	return i.finished.Finished
}

// id is the same whenever the same is told, and of no other state.
func (i item) id() string {
	if e := i.event; e != nil {
		return idOf(fmt.Sprint(e.Seq), e.Time.UTC().Format(time.RFC3339Nano), e.Run, e.Cluster, e.Node, e.State)
	}
	f := i.finished
	return idOf(f.Run, f.Cluster, f.Site, f.Finished.UTC().Format(time.RFC3339Nano))
}

func idOf(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return "msg_" + hex.EncodeToString(sum[:16])
}

// body is the item as a message of FormatEvents.
func (i item) body() ([]byte, error) {
	m := Message{Type: "run.finished", Timestamp: i.time(), Data: i.finished}
	if i.event != nil {
		m.Type, m.Data = "node."+strings.ToLower(i.event.State), i.event
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write a message: %w", err)
	}
	return raw, nil
}

// wants says whether a receiver is told of an event: of one that brings a node to
// another state, and not of one that says more of the same.
func (r Receiver) wants(e store.Event) bool {
	return e.State != e.Previous && slices.Contains(r.States, e.State) && r.wantsCluster(e.Cluster) &&
		(len(r.Causes) == 0 || e.Cause == "" || slices.Contains(r.Causes, e.Cause))
}

func (r Receiver) wantsCluster(cluster string) bool {
	return len(r.Clusters) == 0 || slices.Contains(r.Clusters, cluster)
}

// finishedOf is how a run ended, from what its nodes are in.
func finishedOf(run store.Run, nodes []store.Node) *Finished {
	f := &Finished{
		Run: run.ID, Cluster: run.Cluster, Site: run.Site, Started: run.Started, Finished: run.Finished,
		States: map[string]int{}, Problems: []Problem{},
	}
	for _, n := range nodes {
		if n.Run != run.ID {
			continue
		}
		f.Nodes++
		f.States[n.State]++
		if (n.State == "Failed" || n.State == "Held") && len(f.Problems) < maxProblems {
			f.Problems = append(f.Problems, Problem{Node: n.Name, State: n.State, Error: n.Error, Hint: n.Hint, Cause: n.Cause})
		}
	}
	return f
}
