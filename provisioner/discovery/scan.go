// Package discovery asks BMCs who their machines are and writes what they say
// into the files of an inventory. It changes nothing on any machine.
package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/inventory"
)

// parallel bounds how many BMCs are asked at once.
const parallel = 64

// Status is how asking a BMC ended.
type Status string

// The states.
const (
	Answered    Status = "answered"
	Refused     Status = "refused"     // user name or password
	Unreachable Status = "unreachable" // nothing accepts a connection there
	Failed      Status = "failed"      // something answers, but not with an identity
	NotAsked    Status = "not asked"   // the scan was stopped
)

// Job is one BMC to ask, with the way to log in to it.
type Job struct {
	Target
	BMC inventory.BMC
	// Node is the node of the inventory that has this address; nil for none.
	Node *inventory.Node
}

// Sighting is what came of one job.
type Sighting struct {
	Job
	Status   Status
	Identity bmc.Identity // when Answered
	Err      error        // when not
}

// BMC is what a scan needs of a BMC that it has logged in to.
type BMC interface {
	Identify(ctx context.Context) (bmc.Identity, error)
	Close(ctx context.Context) error
}

// Scanner asks BMCs.
type Scanner struct {
	// Dial logs in to a node's BMC, once. The node has the facts that are
	// expected of its machine, if any are.
	Dial func(ctx context.Context, n inventory.Node) (BMC, error)
	// ConnectTimeout is how long an address may take to accept a connection; 3 s when 0.
	ConnectTimeout time.Duration
	// OnSighting is told of each BMC as it is done, from one goroutine at a time; may be nil.
	OnSighting func(done, total int, s Sighting)
}

// Scan asks the BMCs, at most 64 at once and each of them once, and gives what
// came of it in the order of the jobs. After three refusals in a row of the same
// user and password it asks nobody any more, and stopped is true. The error
// says that ctx ended.
func (s Scanner) Scan(ctx context.Context, jobs []Job) (seen []Sighting, stopped bool, err error) {
	if s.ConnectTimeout <= 0 {
		s.ConnectTimeout = 3 * time.Second
	}
	run := &run{Scanner: s, gates: map[string]*gate{}, seen: make([]Sighting, len(jobs))}
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(parallel, len(jobs)) {
		workers.Go(func() {
			for i := range next {
				run.finish(i, run.ask(ctx, jobs[i]))
			}
		})
	}
	for i := range jobs {
		next <- i // after a stop the rest ends at once, see ask
	}
	close(next)
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return nil, run.isStopped(), fmt.Errorf("ask the BMCs: %w", context.Cause(ctx))
	}
	return run.seen, run.isStopped(), nil
}

// run is one scan at work.
type run struct {
	Scanner
	mu      sync.Mutex
	gates   map[string]*gate
	stopped bool
	done    int
	seen    []Sighting
}

func (r *run) finish(i int, s Sighting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	r.seen[i] = s
	if r.OnSighting != nil {
		r.OnSighting(r.done, len(r.seen), s)
	}
}

func (r *run) isStopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped
}

// ask asks one BMC. A plain connection comes first: most addresses of a network
// are empty, and must not hold up those that log in.
func (r *run) ask(ctx context.Context, job Job) Sighting {
	s := Sighting{Job: job}
	if r.isStopped() {
		s.Status, s.Err = NotAsked, ErrStopped
		return s
	}
	if err := r.knock(ctx, job.Endpoint); err != nil {
		s.Status, s.Err = Unreachable, fmt.Errorf("connect to BMC %s: %w", job.Endpoint, err)
		return s
	}
	s.Identity, s.Err = r.identify(ctx, job)
	switch {
	case s.Err == nil:
		s.Status = Answered
	case errors.Is(s.Err, ErrStopped):
		s.Status = NotAsked
	case errors.Is(s.Err, bmc.ErrUnauthorized):
		s.Status = Refused
	default: // a certificate that is not trusted among them
		s.Status = Failed
	}
	return s
}

func (r *run) knock(ctx context.Context, endpoint string) error {
	dialer := net.Dialer{Timeout: r.ConnectTimeout}
	connection, err := dialer.DialContext(ctx, "tcp", endpoint)
	if err != nil {
		return err
	}
	return connection.Close()
}

// identify logs in once, asks, and logs out.
func (r *run) identify(ctx context.Context, job Job) (bmc.Identity, error) {
	client, err := r.dial(ctx, job)
	if err != nil {
		return bmc.Identity{}, err
	}
	id, err := client.Identify(ctx)
	return id, errors.Join(err, client.Close(ctx))
}

// dial logs in when the gate of these credentials lets it.
func (r *run) dial(ctx context.Context, job Job) (BMC, error) {
	g := r.gate(job.BMC)
	if err := g.enter(ctx); err != nil {
		return nil, err
	}
	node := inventory.Node{Name: job.Endpoint}
	if job.Node != nil {
		node = *job.Node
	}
	node.BMC = job.BMC
	node.BMC.Address = job.Address
	client, err := r.Dial(ctx, node)
	outcome := unknown
	switch {
	case err == nil:
		outcome = accepted
	case errors.Is(err, bmc.ErrUnauthorized):
		outcome = refused
	}
	if g.leave(outcome) {
		r.stop()
	}
	return client, err
}

// gate is shared by all BMCs with one user and one source of the password. The
// password itself is not looked at (I9).
func (r *run) gate(b inventory.BMC) *gate {
	credentials := fmt.Sprintf("%q", append([]string{b.Username, b.PasswordEnv, b.PasswordFile}, b.PasswordCommand...))
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.gates[credentials]
	if g == nil {
		g = newGate()
		r.gates[credentials] = g
		if r.stopped {
			g.stop()
		}
	}
	return g
}

func (r *run) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	for _, g := range r.gates {
		g.stop()
	}
}
