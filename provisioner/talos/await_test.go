package talos_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"

	"github.com/talos-provision/provision/provisioner/talos"
)

func maintenanceAt(address, serial string) *fake {
	f := maintenanceNode(&applier{}, serial)
	f.address = address
	return f
}

func addresses(list ...string) func() []string { return func() []string { return list } }

func isUp(o talos.Observation) bool { return o.Up() }

func TestAwaitSeesANodeThatComesUp(t *testing.T) {
	t.Parallel()
	looked := make(chan struct{}, 100)
	result := make(chan talos.Observation, 1)
	go func() {
		o, err := talos.Prober{}.Await(t.Context(), func() []string {
			select {
			case looked <- struct{}{}:
			default:
			}
			return []string{"127.77.2.1"}
		}, isUp)
		if err != nil {
			t.Error(err)
		}
		result <- o
	}()
	<-looked
	<-looked // the first probe was refused
	came := time.Now()
	maintenanceAt("127.77.2.1:50000", "S-1").start(t)
	o := <-result
	if took := time.Since(came); took > 5*time.Second {
		t.Errorf("the node was seen after %v, want about a second", took)
	}
	if o.Host != "127.77.2.1" || o.Facts.Serial != "S-1" {
		t.Errorf("observation = %+v", o)
	}
}

// siderolabs/talos#11661, #10909, coreos/bugs#1432: the OS asks for its lease
// with another client-id than the firmware, and gets another address.
func TestIssue11661AnAddressThatIsLearntMeanwhileIsProbedToo(t *testing.T) {
	t.Parallel()
	maintenanceAt("127.77.2.11:50000", "S-9").start(t) // another machine has the old address now
	maintenanceAt("127.77.2.12:50000", "S-1").start(t)
	var asked atomic.Int32
	hosts := func() []string {
		if asked.Add(1) < 3 {
			return []string{"127.77.2.11"}
		}
		return []string{"127.77.2.11", "127.77.2.12", "127.77.2.12", ""}
	}
	o, err := talos.Prober{}.Await(t.Context(), hosts, func(o talos.Observation) bool { return o.Facts.Serial == "S-1" })
	if err != nil || o.Host != "127.77.2.12" {
		t.Errorf("observation = %+v, %v, want the machine at its new address", o, err)
	}
}

// An address where nothing answers must not keep another from being seen.
func TestAwaitProbesItsCandidatesAtTheSameTime(t *testing.T) {
	t.Parallel()
	maintenanceAt("127.77.2.22:50000", "S-1").start(t)
	silent := listenAt(t, "127.77.2.21:50000")
	defer func() { _ = silent.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	o, err := talos.Prober{Timeout: time.Hour}.Await(ctx, addresses("127.77.2.21", "127.77.2.22"), isUp)
	if err != nil || o.Host != "127.77.2.22" {
		t.Errorf("observation = %+v, %v", o, err)
	}
}

// siderolabs/talos#8695: an endless wait helps nobody; the error says what was seen.
func TestAwaitEndsWithWhatWasSeen(t *testing.T) {
	t.Parallel()
	f := maintenanceAt("127.77.2.31:50000", "S-1")
	f.resources[0].(*runtime.MachineStatus).TypedSpec().Status.Ready = false
	f.start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := map[string]bool{}
	o, err := talos.Prober{}.Await(ctx, addresses("127.77.2.31", "127.77.2.32"), func(o talos.Observation) bool {
		if seen[o.Host] = true; len(seen) == 2 {
			cancel()
		}
		return false
	})
	if !errors.Is(err, context.Canceled) || o.Host != "127.77.2.31" || o.State != talos.Maintenance {
		t.Fatalf("observation = %+v, %v", o, err)
	}
	for _, want := range []string{"127.77.2.31 is in maintenance mode, stage maintenance, ready false", "127.77.2.32: port 50000 refused"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want it to contain %q", err, want)
		}
	}
	_, err = talos.Prober{}.Await(ctx, addresses(), isUp)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "no address of the machine is known") {
		t.Errorf("without an address: %v", err)
	}
}
