package provisioner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner/store"
)

// modelSeeds is how many random histories are tried; MODEL_SEEDS and MODEL_SEED
// try more, or one again.
const modelSeeds = 240

// The invariants I1 to I10 hold in random histories: machines and BMCs with faults,
// holds, changed inventories, runs of several clusters at once, and a controller that
// is killed at any write and any instant. They are judged by the world's own log.
func TestModelI1ToI10HoldInRandomHistories(t *testing.T) {
	t.Parallel()
	first, count := uint64(1), uint64(modelSeeds)
	if n, err := strconv.ParseUint(os.Getenv("MODEL_SEEDS"), 10, 32); err == nil {
		count = n
	}
	if n, err := strconv.ParseUint(os.Getenv("MODEL_SEED"), 10, 32); err == nil {
		first, count = n, 1
	}
	if testing.Short() {
		count = min(count, 40)
	}
	const workers = 4
	for worker := range uint64(workers) {
		t.Run(fmt.Sprintf("part %d", worker), func(t *testing.T) {
			t.Parallel()
			for seed := first + worker; seed < first+count; seed += workers {
				if !t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { newModel(t, seed).play() })
				}) {
					return // one history is enough to look at
				}
			}
		})
	}
}

// model is one random history.
type model struct {
	*lab
	rng    *rand.Rand
	c      *Controller
	good   []string        // nodes that must be up in the end
	held   map[string]bool // at this moment
	killAt int             // writes from now; 0 is never
	after  bool            // the write is done before the kill
	work   sync.WaitGroup
}

func newModel(t *testing.T, seed uint64) *model {
	t.Helper()
	m := &model{
		rng:  rand.New(rand.NewPCG(seed, 7)), //nolint:gosec // a test's own dice
		held: map[string]bool{},
	}
	count := 3 + m.rng.IntN(4)
	nodes := make([]inventory.Node, 0, count)
	for i := range count {
		n := nodeOf([]string{"a", "a", "b"}[m.rng.IntN(3)], i+1)
		n.Labels = map[string]string{"rack": []string{"r1", "r2"}[m.rng.IntN(2)]}
		if m.rng.IntN(5) == 0 {
			n.IP = "" // it gets its address from DHCP
		}
		if m.rng.IntN(3) == 0 {
			n.Serial = "CHASSIS"
		}
		nodes = append(nodes, n)
	}
	m.lab = newLab(t, seed, nodes...)
	m.power = Power{Parallel: 1 + m.rng.IntN(2), Window: 30 * time.Second, Jitter: time.Duration(m.rng.IntN(2)) * 3 * time.Second, RackLabel: "rack"}
	m.power.PerChassis, m.power.PerRack = m.rng.IntN(2), m.rng.IntN(2)
	for i, machine := range m.w.machines {
		m.character(nodes, i, machine)
	}
	m.onRecord = m.write
	return m
}

// character decides what kind of machine it is.
func (m *model) character(nodes []inventory.Node, i int, of *machine) {
	of.lag = time.Duration(m.rng.IntN(3)) * 20 * time.Second
	of.dropsOverride, of.keepsOverride = m.rng.IntN(3) == 0, m.rng.IntN(6) == 0
	of.hangs, of.faults = float64(m.rng.IntN(3))*0.2, float64(m.rng.IntN(3))*0.02
	of.on = m.rng.IntN(5) > 0
	switch m.rng.IntN(12) {
	case 0: // another machine's BMC is behind the node's address
		of.reports.BoardSerial, of.reports.UUID, of.frozen, of.faults = "OTHER", "", "not the node's", 0
		nodes[i].BoardSerial = of.facts.BoardSerial
	case 1:
		of.talos, of.ready, of.configured, of.on, of.frozen = configuredNow, true, true, true, "configured"
		nodes[i].IP = of.address
	case 2:
		of.refuses = []error{bmc.ErrOverrideNotKept, bmc.ErrOverrideRefused}[m.rng.IntN(2)]
	case 3:
		of.dead = true
	case 4:
		if i == 0 || m.w.machines[i-1].frozen != "" || nodes[i-1].Cluster != nodes[i].Cluster || m.w.machines[i-1].talos != nothing {
			break
		}
		// Twins: two BMCs report one board.
		twin := m.w.machines[i-1]
		of.reports, of.facts = twin.reports, twin.facts
		of.frozen, twin.frozen, of.faults, twin.faults = "a twin", "a twin", 0, 0
		m.good = slices.DeleteFunc(m.good, func(id string) bool { return id == twin.name })
	case 5:
		if of.address == nodes[i].IP {
			of.on = true
			of.upNow()
		}
		m.good = append(m.good, of.name)
	default:
		m.good = append(m.good, of.name)
	}
}

// write is every write of the controller: the chosen one is its last.
func (m *model) write(write func() error, _ store.Node) error {
	m.mu.Lock()
	m.killAt--
	now, after := m.killAt == 0, m.after
	m.mu.Unlock()
	if !now {
		return write()
	}
	if after {
		if err := write(); err != nil {
			return err
		}
	}
	m.kill()
	return errKilled
}

// play is the history: troubled times, and then calm ones in which all that can
// be up comes up.
func (m *model) play() {
	for range 1 + m.rng.IntN(3) {
		m.trouble()
	}
	m.calm()
	m.verdict()
}

// trouble is one life of a controller.
func (m *model) trouble() {
	m.mu.Lock()
	m.killAt, m.after = m.rng.IntN(40), m.rng.IntN(2) == 0
	m.mu.Unlock()
	m.c = m.open()
	ctx := m.context()
	for _, cluster := range []string{"a", "b"} {
		if m.rng.IntN(5) > 0 {
			m.start(cluster)
		}
	}
	for range m.rng.IntN(12) {
		if sleep(ctx, time.Duration(m.rng.IntN(240_000))*time.Millisecond) != nil {
			break
		}
		m.something()
	}
	if m.rng.IntN(3) == 0 {
		m.interrupt()
	}
	m.kill()
	m.work.Wait()
	m.pause(m.rng.IntN(3) * m.rng.IntN(20))
}

// interrupt ends the runs as Ctrl-C does: a machine that is off by then is switched on first (I6).
func (m *model) interrupt() {
	_, epoch := m.w.controller()
	m.mu.Lock()
	stop := m.stop
	m.mu.Unlock()
	if stop == nil {
		return // it was killed
	}
	stop()
	m.work.Wait()
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	if m.w.epoch != epoch {
		return // it was killed meanwhile
	}
	for _, of := range m.w.machines {
		if !of.on && of.offBy == epoch+1 && !of.spoiled {
			m.w.breach("I6: %s was left off by an interrupt\n%s", of.name, m.w.history(of))
		}
	}
}

func (m *model) pause(minutes int) { _ = sleep(m.t.Context(), time.Duration(minutes)*time.Minute) }

// start has a run of a cluster go on beside the others.
func (m *model) start(cluster string) {
	c, request := m.c, m.request(cluster)
	m.work.Go(func() {
		_, err := m.run(c, request)
		if errors.Is(err, context.DeadlineExceeded) {
			m.t.Errorf("I7: a run of %s does not end", cluster)
		}
		if err != nil && m.context().Err() == nil && !errors.Is(err, ErrBusy) && !errors.Is(err, context.Canceled) && !errors.Is(err, errKilled) {
			if _, epoch := m.w.controller(); epoch == 0 {
				m.t.Errorf("a run of %s: %v", cluster, err)
			}
		}
	})
}

// calm is the end: nothing fails any more, and nobody holds anything.
func (m *model) calm() {
	m.w.mu.Lock()
	m.w.calm = true
	clear(m.w.squatters)
	m.w.mu.Unlock()
	m.mu.Lock()
	m.killAt = 0
	m.mu.Unlock()
	m.c = m.open()
	defer m.close()
	for _, id := range slices.Sorted(maps.Keys(m.held)) {
		cluster, name, _ := cutNode(id)
		m.release(inventory.Node{Cluster: cluster, Name: name})
	}
	const enough = 3
	for range enough {
		for _, cluster := range []string{"a", "b"} {
			m.start(cluster)
		}
		m.work.Wait()
	}
	for _, id := range m.good {
		of := m.w.of(id)
		record := m.record(id)
		m.w.mu.Lock()
		up := of.talos == inMaintenance && of.ready
		m.w.mu.Unlock()
		if !up || State(record.State) != Maintenance {
			m.t.Errorf("I8: %s is recorded as %s (%s: %s), and is up: %t\n%s", id, record.State, record.Message, record.Error, up, m.w.history(of))
		}
	}
}
