package redfishtest

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

const (
	stateOn          = "On"
	stateOff         = "Off"
	statePoweringOn  = "PoweringOn"
	statePoweringOff = "PoweringOff"
)

// resetKind is what a reset type does to the power.
type resetKind struct{ off, on, soft bool }

// resetKinds is the meaning of every reset type but PushPowerButton, which
// depends on the state and is found out when it comes.
var resetKinds = map[string]resetKind{
	"On":               {on: true},
	"ForceOn":          {on: true},
	"ForceOff":         {off: true},
	"GracefulShutdown": {off: true},
	"GracefulRestart":  {off: true, on: true, soft: true},
	"ForceRestart":     {off: true, on: true},
	"PowerCycle":       {off: true, on: true},
	"Nmi":              {},
}

func (s *Service) advertised() []string {
	if types := s.profile.Reset.Advertised; types != nil {
		return types
	}
	return s.profile.Reset.Types
}

func (s *Service) resetAction() Document {
	d := Document{"target": s.systemPath() + "/Actions/ComputerSystem.Reset"}
	if s.profile.Reset.ActionInfo {
		d["@Redfish.ActionInfo"] = s.systemPath() + "/ResetActionInfo"
	} else {
		d["ResetType@Redfish.AllowableValues"] = s.advertised()
	}
	return d
}

func (s *Service) getActionInfo(x *exchange) Answer {
	if !s.profile.Reset.ActionInfo {
		return s.notFound(x)
	}
	return s.shaped(ResourceActionInfo, Document{
		"@odata.id": x.path, "@odata.type": "#ActionInfo.v1_1_2.ActionInfo",
		"Id": "ResetActionInfo", "Name": "Reset Action Info",
		"Parameters": []Document{{
			"Name": "ResetType", "Required": true, "DataType": "String", "AllowableValues": s.advertised(),
		}},
	})
}

// transition is one change of the power on its way.
type transition struct {
	kind    resetKind
	dropped bool // boots without the override
	regress bool // falls back to off instead of starting
	done    chan struct{}
	err     error
}

func (s *Service) postReset(x *exchange) Answer {
	if a := s.actionPrecondition(x); a.given() {
		return a
	}
	var parameters struct{ ResetType string }
	if err := json.Unmarshal(x.body, &parameters); err != nil {
		return s.malformed()
	}
	name := parameters.ResetType
	if !slices.Contains(s.profile.Reset.Types, name) {
		return fail(http.StatusBadRequest, s.message("ActionParameterNotSupported"), "The reset type is not supported.", name, "ComputerSystem.Reset")
	}
	if x.effect.ignorePower {
		return s.accepted(name)
	}
	state := s.PowerState()
	kind := resetKinds[name]
	if name == "PushPowerButton" {
		kind = resetKind{off: state == stateOn, on: state == stateOff}
	}
	if a, stop := s.checkState(name, kind, state); stop {
		return a
	}
	t := &transition{kind: kind, dropped: x.effect.dropOverride, regress: x.effect.regress, done: make(chan struct{})}
	if !s.enqueue(t) {
		return fail(http.StatusServiceUnavailable, s.message("ServiceShuttingDown"), "The service is shutting down.")
	}
	if x.effect.task != nil || s.profile.Tasks.Resets {
		return s.resetTask(x, name, t)
	}
	if s.config.PowerLag <= 0 {
		<-t.done
		if t.err != nil {
			return s.notSwitched()
		}
	}
	return s.accepted(name)
}

func (s *Service) notSwitched() Answer {
	return fail(http.StatusInternalServerError, s.message("InternalError"), "The machine could not be switched.")
}

// accepted records a reset that is answered with success.
func (s *Service) accepted(name string) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.resets = append(s.counts.resets, name)
	return orNoContent(s.profile.Reset.Done)
}

// checkState answers resets that cannot or need not be done in this state.
func (s *Service) checkState(name string, kind resetKind, state string) (a Answer, stop bool) {
	rules := s.profile.Reset
	var refusal Answer
	switch {
	case !kind.on && !kind.off: // nothing to do in any state
	case state == statePoweringOn, state == statePoweringOff:
		if !rules.Busy.given() {
			return Answer{}, false
		}
		refusal = rules.Busy
	case kind.on && kind.off && state == stateOff:
		refusal = rules.WhileOff
	case kind.on && !kind.off && state == stateOff && s.settling():
		refusal = rules.Settling
	case kind.on && !kind.off && state == stateOn:
		refusal = rules.AlreadyOn
	case kind.off && !kind.on && state == stateOff:
		refusal = rules.AlreadyOff
	default:
		return Answer{}, false
	}
	if refusal.given() {
		return refusal, true
	}
	return s.accepted(name), true
}

// settling tells whether the machine went off so recently that the BMC refuses
// On.
func (s *Service) settling() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.profile.Reset.Settling.given() && !s.offAt.IsZero() && time.Since(s.offAt) < s.config.Settling
}

// enqueue hands a transition to the worker, and starts one if none runs: an
// idle service has no goroutine for it. It reports false after Close.
func (s *Service) enqueue(t *transition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.queue = append(s.queue, t)
	if len(s.queue) == 1 {
		s.showing = t.kind.firstState()
		s.work.Add(1)
		go s.switchPower()
	}
	return true
}

func (k resetKind) firstState() string {
	if k.off {
		return statePoweringOff
	}
	return statePoweringOn
}

// switchPower works the queue until it is empty.
func (s *Service) switchPower() {
	defer s.work.Done()
	for {
		s.mu.Lock()
		t := s.queue[0]
		s.showing = t.kind.firstState()
		s.mu.Unlock()

		t.err = s.perform(t)
		if t.err != nil {
			s.log.Warn("machine could not be switched", "system", s.profile.SystemID, "error", t.err)
		}

		s.mu.Lock()
		s.queue = s.queue[1:]
		idle := len(s.queue) == 0
		if idle {
			s.queue, s.showing = nil, ""
		}
		s.mu.Unlock()
		close(t.done)
		if idle {
			return
		}
	}
}

// perform does one transition; what does not fit the state is skipped, as it
// may have been queued behind another.
func (s *Service) perform(t *transition) error {
	if t.kind.off && s.machine.Powered() {
		if err := s.wait(s.config.PowerLag); err != nil {
			return err
		}
		if err := s.machine.PowerOff(s.ctx); err != nil {
			return err
		}
		s.mu.Lock()
		s.offAt = time.Now()
		s.mu.Unlock()
	}
	if !t.kind.on || s.machine.Powered() {
		return nil
	}
	s.mu.Lock()
	s.showing = statePoweringOn
	s.mu.Unlock()
	if err := s.wait(s.config.PowerLag); err != nil {
		return err
	}
	if t.regress {
		return nil
	}
	boot, undo := s.takeBoot(t.kind.soft, t.dropped)
	if err := s.machine.PowerOn(s.ctx, boot); err != nil {
		undo()
		return err
	}
	s.mu.Lock()
	s.counts.powerOns++
	s.onAt = time.Now()
	s.mu.Unlock()
	return nil
}

// wait sleeps, or ends early with the service.
func (s *Service) wait(d time.Duration) error { return sleep(s.ctx, d) }

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
