package redfishtest

import (
	"path"
	"strings"
	"time"
)

// Fault makes requests go wrong. Faults are tried in the order of their
// injection; more than one may act on a request.
type Fault struct {
	// Method is matched exactly; empty matches any.
	Method string
	// Path is a [path.Match] pattern, "/redfish/v1/Systems/*"; with "/**" at its
	// end it also matches everything below; empty matches any. A trailing slash
	// of the request does not count.
	Path string
	// Skip lets that many matching requests pass first.
	Skip int
	// Times is how many requests it acts on; 0 is for ever.
	Times int
	// Share is the part of the matching requests that it acts on, drawn from Seed:
	// above 0 and at most a half; 0 is all of them. With a share it never acts on
	// two of them in a row, so that a client that asks again gets on.
	Share float64
	Seed  uint64
	// Action is what happens.
	Action Action
}

// Action is what a fault does. Make one with a function of this package:
// [Respond], [RespondWith], [Redirect], [StripHeader], [Delay],
// [CloseConnection], [CloseAfter], [CutAnswer], [IgnoreWrite], [DropOverride], [IgnorePower], [FallBack],
// [AsTask], [DropToken], [Call].
type Action struct {
	kind   actionKind
	answer Answer
	delay  time.Duration
	header []string
	call   func(*Service)
	task   TaskRules
}

type actionKind int

const (
	actNothing actionKind = iota
	actRespond
	actStripHeader
	actDelay
	actClose
	actCloseAfter
	actCut
	actIgnoreWrite
	actDropOverride
	actIgnorePower
	actFallBack
	actDropToken
	actTask
	actCall
)

// Respond answers with this status and body; nothing else happens. [ErrorBody]
// makes bodies.
func Respond(status int, body string) Action {
	return Action{kind: actRespond, answer: Answer{Status: status, Body: body}}
}

// RespondWith gives this answer, header fields among it; nothing else happens.
func RespondWith(a Answer) Action { return Action{kind: actRespond, answer: a} }

// Redirect answers with this status, 301 to 308, and a Location. Clients that
// follow a 301 of a PATCH turn it into a GET, and believe it was written.
func Redirect(status int, location string) Action {
	return Action{kind: actRespond, answer: Answer{Status: status, Header: map[string]string{"Location": location}}}
}

// StripHeader answers without these header fields: a login without Location
// cannot be logged out, one without X-Auth-Token is none.
func StripHeader(names ...string) Action { return Action{kind: actStripHeader, header: names} }

// Delay does what was asked at once and answers that much later: a client that
// gives up meanwhile finds the write applied (bmclib#465).
func Delay(d time.Duration) Action { return Action{kind: actDelay, delay: d} }

// CloseConnection closes the connection without doing what was asked.
func CloseConnection() Action { return Action{kind: actClose} }

// CloseAfter does what was asked and closes the connection without an answer.
func CloseAfter() Action { return Action{kind: actCloseAfter} }

// CutAnswer does what was asked, sends half of the answer and resets the
// connection.
func CutAnswer() Action { return Action{kind: actCut} }

// IgnoreWrite answers a PATCH with success and keeps nothing of it
// (bmclib#459).
func IgnoreWrite() Action { return Action{kind: actIgnoreWrite} }

// DropOverride loses the boot override at the next boot: reading back shows it,
// the machine starts in its default order. It acts on the PATCH that sets the
// override or on the reset that boots.
func DropOverride() Action { return Action{kind: actDropOverride} }

// IgnorePower answers a reset with success and does nothing (pbnj#75).
func IgnorePower() Action { return Action{kind: actIgnorePower} }

// FallBack shows PoweringOn after a reset and then Off: the machine never
// starts (powerman#154).
func FallBack() Action { return Action{kind: actFallBack} }

// DropToken forgets every session and answers 401, as a BMC that was restarted.
func DropToken() Action { return Action{kind: actDropToken} }

// AsTask answers the write with 202 and a task that does the work, see
// [TaskRules]; its Resets, Patches and Media do not count.
func AsTask(rules TaskRules) Action { return Action{kind: actTask, task: rules} }

// Call calls f before the request is handled, with nothing locked, for tests
// that must act between two requests of a client.
func Call(f func(*Service)) Action { return Action{kind: actCall, call: f} }

// fault counts what is left of a Fault.
type fault struct {
	Fault
	skip, left int
	chance     chance
}

// effect is the sum of the faults that matched one request.
type effect struct {
	answer                                          Answer
	delay                                           time.Duration
	connection                                      closing
	ignoreWrite, dropOverride, ignorePower, regress bool
	dropTokens                                      bool
	strip                                           []string
	calls                                           []func(*Service)
	task                                            *TaskRules
}

type closing int

const (
	keepOpen closing = iota
	closeBefore
	closeAfterwards
	closeWithin // the answer
)

// apply is the table of what each action adds; final ends the search.
func (a Action) apply(e *effect) (final bool) {
	switch a.kind {
	case actRespond:
		e.answer = a.answer
		return true
	case actDropToken:
		e.dropTokens = true
		return true
	case actClose:
		e.connection = closeBefore
		return true
	case actCloseAfter:
		e.connection = closeAfterwards
	case actCut:
		e.connection = closeWithin
	case actStripHeader:
		e.strip = append(e.strip, a.header...)
	case actCall:
		e.calls = append(e.calls, a.call)
	case actDelay:
		e.delay += a.delay
	case actIgnoreWrite:
		e.ignoreWrite = true
	case actDropOverride:
		e.dropOverride = true
	case actIgnorePower:
		e.ignorePower = true
	case actFallBack:
		e.regress = true
	case actTask:
		e.task = &a.task
	case actNothing:
	}
	return false
}

// Inject adds a fault from the next request on.
func (s *Service) Inject(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &fault{Fault: f, skip: f.Skip, left: f.Times, chance: newChance(f.Share, f.Seed)})
}

// ClearFaults removes all faults.
func (s *Service) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// effects collects what the faults do to a request, and uses them up.
func (s *Service) effects(method, requestPath string) effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	var e effect
	for i := 0; i < len(s.faults); i++ {
		f := s.faults[i]
		if f.Method != "" && f.Method != method || !matchPattern(f.Path, requestPath) {
			continue
		}
		if f.skip > 0 {
			f.skip--
			continue
		}
		if !f.chance.comes() {
			continue
		}
		if f.Times > 0 {
			f.left--
			if f.left == 0 {
				s.faults = append(s.faults[:i:i], s.faults[i+1:]...)
				i--
			}
		}
		if f.Action.apply(&e) {
			break
		}
	}
	if e.dropTokens {
		clear(s.sessions)
		e.answer = s.unauthorised()
	}
	return e
}

// matchPattern treats a pattern that path.Match does not understand as matching
// nothing.
func matchPattern(pattern, requestPath string) bool {
	if pattern == "" {
		return true
	}
	pattern = strings.TrimSuffix(pattern, "/")
	base, below := strings.CutSuffix(pattern, "/**")
	for p := requestPath; p != ""; p = parent(p) {
		if ok, err := path.Match(base, p); ok && err == nil {
			return true
		}
		if !below {
			break
		}
	}
	return false
}
