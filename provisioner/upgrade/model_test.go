package upgrade_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/talos"
	"github.com/talos-provision/provision/provisioner/upgrade"
)

const (
	schematicA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	schematicB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

var (
	errKilled = errors.New("the controller is dead")
	errAway   = errors.New("no answer")
)

// fault is what goes wrong with the next upgrade of a node; it is used up by it,
// unless it says that it stays.
type fault string

const (
	noFault          fault = ""
	exitsWithCode    fault = "installer exits with a code"
	exitsSilently    fault = "installer tells no exit code"
	rollsBack        fault = "boots the old version again"
	neverReboots     fault = "takes the order and does not reboot"
	hangs            fault = "hangs until it is power cycled"
	diesForGood      fault = "does not come back at all"
	losesConfig      fault = "comes back in maintenance"
	losesAnswers     fault = "does what it is told, and the answer is lost"
	bootsOther       fault = "boots a third version"
	otherSchematic   fault = "boots another schematic"
	staysUnready     fault = "boots and never gets ready"
	refusesLifecycle fault = "has no LifecycleService"
	drainStuck       fault = "pods do not move away"
	busy             fault = "installs already, for a while"
	refusesReboot    fault = "does not take the order to reboot"
	swapped          fault = "another machine takes its address"
)

var _ upgrade.Talos = talos.Admin{}

// box is the model of a node.
type box struct {
	upgrade.Member
	role               string
	version, staged    string
	schematic, stagedS string
	boot               int
	upAt               time.Time // it is away until then
	away               bool      // until it is power cycled
	disk               string    // what its disk boots, while it runs from the network
	netBoots           int
	maintenance        bool
	unready            bool
	secureBoot         bool
	args               []string
	fault              fault
	uuid               string
	k                  upgrade.KubernetesNode
	why                string
	budgets            []string
	orders, installs   int
	cycles             int
	busyUntil          time.Time
	flips              func(*box) // what happens to it at its next boot
}

// world is a cluster and a controller's store. Every call of the code under test
// goes through do, which can kill the controller there.
type world struct {
	t *testing.T

	mu     sync.Mutex
	boxes  map[string]*box
	leader string
	alarms []talos.Alarm
	extra  []talos.Member // members that are nobody's
	learns string         // node whose member is a learner
	lag    map[string]uint64
	broken map[string]error // what fails by name of the call
	locked string

	run     upgrade.Run
	records map[string]upgrade.Record
	events  []store.Event
	pulls   []string
	badTags map[string]bool
	unsound []string // what must never happen, and did

	calls      int
	killAt     int
	killBefore bool
	dead       bool
	cancel     context.CancelFunc
	limit      int // of workers that may be cordoned by us
	onCall     func(name, host string)
}

func newWorld(t *testing.T, controlPlanes, workers int, version string) *world {
	w := &world{
		t: t, boxes: map[string]*box{}, records: map[string]upgrade.Record{}, lag: map[string]uint64{},
		broken: map[string]error{}, badTags: map[string]bool{}, limit: 1,
	}
	for i := range controlPlanes {
		w.add(fmt.Sprintf("cp-%d", i+1), fmt.Sprintf("10.0.0.%d", i+1), upgrade.ControlPlane, version)
	}
	for i := range workers {
		w.add(fmt.Sprintf("w-%d", i+1), fmt.Sprintf("10.0.1.%d", i+1), upgrade.Worker, version)
	}
	w.leader = "cp-1"
	return w
}

func (w *world) add(name, host, role, version string) {
	w.boxes[name] = &box{
		Member: upgrade.Member{Name: name, Host: host}, role: role, version: version, schematic: schematicA,
		uuid: "uuid-" + name, k: upgrade.KubernetesNode{Name: "k-" + name, Addresses: []string{host}, Kubelet: "v1.34.1", Ready: true},
	}
}

func (b *box) up() bool { return !b.away && !time.Now().Before(b.upAt) }

// votes says whether its etcd member is a healthy voter.
func (b *box) votes() bool {
	return b.role == upgrade.ControlPlane && b.up() && !b.maintenance && time.Now().After(b.upAt.Add(10*time.Second))
}

func (w *world) controlPlanes() []*box {
	var found []*box
	for _, name := range slices.Sorted(maps.Keys(w.boxes)) {
		if w.boxes[name].role == upgrade.ControlPlane {
			found = append(found, w.boxes[name])
		}
	}
	return found
}

func memberID(name string) uint64 {
	var id uint64
	for _, c := range name {
		id = id*31 + uint64(c)
	}
	return id
}

// elect finds the leader, or none without a quorum.
func (w *world) elect() string {
	var voters []string
	for _, b := range w.controlPlanes() {
		if b.votes() {
			voters = append(voters, b.Name)
		}
	}
	if len(voters) < len(w.controlPlanes())/2+1 {
		return ""
	}
	if !slices.Contains(voters, w.leader) {
		w.leader = voters[0]
	}
	return w.leader
}

func (w *world) at(host string) *box {
	for _, b := range w.boxes {
		if b.Host == host {
			return b
		}
	}
	return nil
}

// do is one call of the code under test: the controller may die before or after its effect.
func (w *world) do(ctx context.Context, name, host string, effect func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return errKilled
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if w.onCall != nil {
		w.onCall(name, host)
	}
	w.calls++
	kill := w.calls == w.killAt
	if kill {
		w.dead = true
		w.cancel()
		if w.killBefore {
			return errKilled
		}
	}
	err := w.broken[name]
	if err == nil {
		err = effect()
	}
	if kill {
		return errKilled
	}
	return err
}

// node is do for a call of a node that has to be up.
func (w *world) node(ctx context.Context, name, host string, effect func(*box) error) error {
	return w.do(ctx, name, host, func() error {
		b := w.at(host)
		if b == nil || !b.up() {
			return errAway
		}
		if b.maintenance {
			return talos.ErrInMaintenance
		}
		return effect(b)
	})
}

func (w *world) blame(format string, args ...any) {
	w.unsound = append(w.unsound, fmt.Sprintf(format, args...))
}

// takenDown checks what must hold when the controller orders what takes a node down.
func (w *world) takenDown(b *box) {
	if b.role != upgrade.ControlPlane {
		return
	}
	others := 0
	for _, o := range w.controlPlanes() {
		if o == b {
			continue
		}
		if !o.votes() {
			w.blame("%s is taken down while %s is no healthy voter", b.Name, o.Name)
			continue
		}
		others++
	}
	if n := len(w.controlPlanes()); n > 1 && others < n/2+1 {
		w.blame("%s is taken down and leaves %d voters of %d", b.Name, others, n)
	}
	if len(w.controlPlanes()) > 1 && w.elect() == b.Name {
		w.blame("%s is taken down while it leads", b.Name)
	}
}

// goDown is a reboot, with what is wrong with it.
func (w *world) goDown(b *box, takes time.Duration) {
	b.boot++
	b.upAt = time.Now().Add(takes)
	if b.disk != "" { // it ran from the network
		b.version, b.disk = b.disk, ""
	}
	if b.staged != "" {
		b.version, b.schematic = b.staged, b.stagedS
	}
	old := b.staged
	b.staged, b.stagedS = "", ""
	if b.flips != nil && old != "" {
		b.flips(b)
		b.flips = nil
	}
}
