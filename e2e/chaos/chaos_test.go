// Package chaos_test kills controllers of a fleet in which everything that goes
// wrong does, and asks the fleet itself what became of its machines.
package chaos_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/e2e/loopback"
)

// storm is how hard a fleet and its controllers are treated.
type storm struct {
	nodes, kills, attempts int
	bootTimeout            time.Duration
	// patience is the longest that a controller lives before it is killed.
	patience time.Duration
	faults   string
}

// realistic are the rates of a bad day: one machine in ten has something that no
// controller can mend, every third is a nuisance.
const realistic = "bmc-auth=0.01,bmc-down=0.01,lying-override=0.01,silent-power=0.01,ipxe-never=0.01,stuck-download=0.01,never-returns=0.01," +
	"wrong-machine=0.01,duplicate-serial=0.02,configured=0.02,not-in-plan=0.03,stranger=0.02," +
	"bmc-503=0.08,bmc-reset=0.04,packet-loss=0.06:0.02,slow-post=0.02,slow-download=0.03:512"

// dense has one or two of each fault in a fleet of thirty.
const dense = "bmc-auth=0.04,bmc-down=0.04,lying-override=0.04,silent-power=0.04,ipxe-never=0.04,stuck-download=0.04,never-returns=0.04," +
	"wrong-machine=0.04,duplicate-serial=0.07,configured=0.04,not-in-plan=0.07,stranger=0.04," +
	"bmc-503=0.1,bmc-reset=0.07,packet-loss=0.1:0.02,slow-post=0.07,slow-download=0.07:512"

// build makes the real program, once.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "chaos")
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "provision")
	out, err := exec.CommandContext(context.Background(), "go", "build", "-o", program, "../../cmd/provision").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return program, nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if program, err := build(); err == nil {
		_ = os.RemoveAll(filepath.Dir(program))
	}
	os.Exit(status)
}

// The oracle: no machine outside the plan is powered or served, no node is
// confirmed that is not the right machine and up, every good node ends in
// Maintenance and every bad one with its cause, no node is power cycled more often
// than its budget, no BMC session stays open; wherever the controllers are killed.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("a storm takes a minute, which is too long for -short")
	}
	hard := storm{nodes: 30, kills: 6, attempts: 4, bootTimeout: 8 * time.Second, patience: 5 * time.Second, faults: dense}
	seeds := []uint64{uint64(time.Now().UnixNano())} //nolint:gosec // any number will do; it is told when it fails
	if text := os.Getenv("CHAOS_SEEDS"); text != "" {
		// make chaos: the whole fleet, over the seeds that are given.
		hard = storm{nodes: 300, kills: 20, attempts: 8, bootTimeout: 25 * time.Second, patience: 12 * time.Second, faults: realistic}
		seeds = nil
		for field := range strings.FieldsSeq(text) {
			seed, err := strconv.ParseUint(field, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			seeds = append(seeds, seed)
		}
	}
	for _, seed := range seeds {
		for name, begin := range map[string]func(*testing.T, string, *fleet.Fleet) controller{"run": newCommand, "daemon": newDaemon} {
			t.Run(fmt.Sprintf("%s with seed %d", name, seed), func(t *testing.T) {
				if os.Getenv("CHAOS_SEEDS") == "" {
					t.Parallel() // it mostly waits; of the large ones one is enough for a host
				}
				hard.strike(t, seed, begin)
			})
		}
	}
}

// strike kills the controllers of one fleet again and again, lets the last one
// finish, and has the oracle judge.
func (s storm) strike(t *testing.T, seed uint64, begin func(*testing.T, string, *fleet.Fleet) controller) {
	t.Helper()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	f := s.fleet(t, seed)
	c := begin(t, program, f)
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // when to kill is no secret
	since := time.Now()
	c.start()
	for kill := range s.kills {
		lived := 200*time.Millisecond + time.Duration(random.Int64N(int64(s.patience)))
		if c.ended(lived) {
			break // it has finished before it could be killed
		}
		t.Logf("kill %d after %s", kill+1, lived)
		c.kill()
		since = time.Now()
		c.start()
	}
	c.finish()

	seen, err := fleet.ReadStatus(bytes.NewReader(ask(t, program, f, "status", "-o", "json")))
	if err != nil {
		t.Fatal(err)
	}
	oracle := f.Oracle()
	oracle.Since = since
	for _, v := range oracle.Check(seen, nil) {
		t.Error(v)
	}
	s.tally(t, oracle, seen)
	if t.Failed() {
		t.Logf("last output:\n%s", c.output())
	}
}

// fleet is the seed's fleet.
func (s storm) fleet(t *testing.T, seed uint64) *fleet.Fleet {
	t.Helper()
	faults, err := fleet.ParseRates(s.faults)
	if err != nil {
		t.Fatal(err)
	}
	vendors, err := fleet.ParseVendors("supermicro:4,dell:3,hpe:2,lenovo:1")
	if err != nil {
		t.Fatal(err)
	}
	f, err := fleet.Start(t.Context(), fleet.Config{
		Dir: t.TempDir(), Network: loopback.Reserve(t, 20, 49), Nodes: s.nodes, Seed: seed, Vendors: vendors, Faults: faults,
		Attempts: s.attempts, BootTimeout: s.bootTimeout, SessionTimeout: 20 * time.Second,
		Delays: fleet.Delays{
			PowerLag: fleet.Uniform(50*time.Millisecond, 500*time.Millisecond), POST: fleet.Uniform(100*time.Millisecond, time.Second),
			KernelTime: fleet.Uniform(200*time.Millisecond, 2*time.Second),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// tally shows what the storm was made of, and fails when it was none.
func (s storm) tally(t *testing.T, o fleet.Oracle, seen map[string]fleet.Seen) {
	t.Helper()
	states, faults, cycles := map[string]int{}, 0, 0
	for _, m := range o.Machines {
		states[seen[m.ID()].State]++
		faults += len(m.Faults)
		cycles += m.PowerOns
	}
	t.Logf("%d machines, %d faults, %d power-ons: %v", len(o.Machines), faults, cycles, states)
	if faults == 0 || states["Maintenance"] == 0 || states["Failed"] == 0 {
		t.Errorf("that was no storm: %d faults, states %v", faults, states)
	}
}

// ask runs a command that only looks, and returns its output.
func ask(t *testing.T, program string, f *fleet.Fleet, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, append([]string{"--config", f.ConfigFile()}, args...)...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("provision %v: %v\n%s", args, err, problems.String())
	}
	return out
}
