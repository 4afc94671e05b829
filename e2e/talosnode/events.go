package talosnode

import (
	"context"
	"strconv"
	"sync"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// eventHistory is how many events a node remembers.
const eventHistory = 64

// events are what happened since the boot.
type events struct {
	mu      sync.Mutex
	first   int // number of all[0]
	all     []*machine.Event
	changed chan struct{} // closed at the next event
}

func newEvents() *events { return &events{changed: make(chan struct{})} }

// publish adds an event; actor is the id of the call that caused it, or "".
func (e *events) publish(payload proto.Message, actor string) {
	value, err := proto.Marshal(payload)
	if err != nil {
		return // a message of our own making
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, &machine.Event{
		Data:    &anypb.Any{TypeUrl: "talos/runtime/" + string(payload.ProtoReflect().Descriptor().FullName()), Value: value},
		Id:      strconv.Itoa(e.first + len(e.all) + 1),
		ActorId: actor,
	})
	if len(e.all) > eventHistory {
		e.first++
		e.all = e.all[1:]
	}
	close(e.changed)
	e.changed = make(chan struct{})
}

// since returns the events from a number on, the number after them, and what tells of more.
func (e *events) since(number int) (list []*machine.Event, next int, changed <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	from := min(max(number-e.first, 0), len(e.all))
	return append(list, e.all[from:]...), e.first + len(e.all), e.changed
}

// tail is the number of the first of the last n events; of all when n is negative.
func (e *events) tail(n int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n < 0 {
		return 0
	}
	return max(e.first, e.first+len(e.all)-n)
}

// Events streams what happens. The first message is empty: it tells the client
// that the stream stands.
func (s *machineService) Events(req *machine.EventsRequest, stream grpc.ServerStreamingServer[machine.Event]) error {
	if err := stream.Send(&machine.Event{}); err != nil {
		return err
	}
	return s.system.events.follow(stream.Context(), s.system.life, s.system.events.tail(int(req.GetTailEvents())), func(event *machine.Event) error {
		if actor := req.GetWithActorId(); actor != "" && actor != event.GetActorId() {
			return nil
		}
		return stream.Send(event)
	})
}

func (e *events) follow(ctx, life context.Context, from int, send func(*machine.Event) error) error {
	for {
		list, next, changed := e.since(from)
		for _, event := range list {
			if err := send(event); err != nil {
				return err
			}
		}
		from = next
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-life.Done():
			return nil
		}
	}
}

func statusEvent(stage runtime.MachineStage, unmet []runtime.UnmetCondition) *machine.MachineStatusEvent {
	status := &machine.MachineStatusEvent_MachineStatus{Ready: len(unmet) == 0}
	for _, one := range unmet {
		status.UnmetConditions = append(status.UnmetConditions, &machine.MachineStatusEvent_MachineStatus_UnmetCondition{Name: one.Name, Reason: one.Reason})
	}
	return &machine.MachineStatusEvent{Stage: machine.MachineStatusEvent_MachineStage(stage), Status: status}
}
