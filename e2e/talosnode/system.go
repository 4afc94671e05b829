package talosnode

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/state"
	"github.com/siderolabs/talos/pkg/machinery/config"
	"google.golang.org/grpc"
)

// system is one boot of the node: everything that a reset loses.
type system struct {
	node      *Node
	act       behaviour
	mode      mode
	version   string
	schematic string
	args      args
	devices   []Device
	bootID    string
	hostname  string // guarded by mu
	since     time.Time
	events    *events

	life      context.Context //nolint:containedctx // ends with this boot
	end       context.CancelFunc
	work      sync.WaitGroup
	resources state.State // without the rules of access
	server    *grpc.Server
	listener  net.Listener
	wires     *wires
	keys      pki
	ended     chan ending

	applying sync.Mutex
	applied  bool // guarded by applying

	config  config.Provider // nil in maintenance mode and for a bare node
	cluster *cluster        // nil without a config
	self    *peer

	mu       sync.Mutex // guards what follows
	progress progress
	running  string // the sequence in progress
	writing  bool   // an upgrade writes
	images   map[string]bool
}

// ending is how a boot ends.
type ending struct {
	kind   endingKind
	system *system
	// data and config are the machine config of endsInstalling. They hold secrets.
	data   []byte
	config config.Provider
}

type endingKind int

const (
	endsWithPower  endingKind = iota // the power was cut
	endsForgetting                   // a config was accepted, and there is no disk for it
	endsInstalling                   // a config was accepted
	endsInReset
	endsInPowerOff
)

// start fills the node's resources. Nothing is served yet.
func (s *system) start(ctx context.Context) error {
	s.life, s.end = context.WithCancel(ctx)
	s.ended = make(chan ending, 1)
	s.bootID, s.since = newUUID(), time.Now()
	s.images = map[string]bool{}
	s.events = newEvents()
	s.hostname = s.chooseHostname()
	if s.config != nil {
		s.join()
	}
	return s.fill()
}

// serve answers until this boot ends, and tells how it did.
func (s *system) serve() ending {
	s.work.Go(func() { _ = s.server.Serve(s.wires) })
	s.work.Go(s.bootSequence)
	var how ending
	select {
	case <-s.life.Done():
	case how = <-s.ended:
		if s.node.cfg.Faults.HalfOpen && how.kind == endsInReset {
			s.abandon()
			break
		}
		// The answer to the call that ended it shall leave; streams are cut.
		answered := make(chan struct{})
		go func() { s.server.GracefulStop(); close(answered) }()
		select {
		case <-answered:
		case <-s.life.Done():
		case <-time.After(answerTime):
		}
	}
	s.server.Stop()
	s.stop()
	how.system = s
	return how
}

// abandon leaves the connections half open, after the answer to the call that
// ended this boot has left. They end with the power of the machine.
func (s *system) abandon() {
	_ = sleep(s.life, answerTime)
	s.wires.orphan()
	context.AfterFunc(s.node.power, s.wires.cut)
}

// answerTime is how long answers that are under way may take when a boot ends.
const answerTime = 100 * time.Millisecond

func (s *system) stop() {
	s.end()
	s.work.Wait()
	if s.cluster != nil {
		s.cluster.change(func() { s.self.up, s.self.serves, s.self.authority = false, false, nil })
	}
}

// finish ends this boot. The first ending counts.
func (s *system) finish(how ending) {
	select {
	case s.ended <- how:
	default:
	}
}

// disk is what is on the node's disk now.
func (s *system) disk() DiskState { return s.node.cfg.Disk.State() }

// newUUID is a random UUID (RFC 9562, version 4).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
