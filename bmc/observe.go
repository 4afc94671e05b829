package bmc

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
)

// Operation is the part of Redfish that a request is about.
type Operation string

// The operations. There are no others.
const (
	OperationService Operation = "service" // the service root and what is none of the others
	OperationSession Operation = "session" // log in and out
	OperationSystem  Operation = "system"  // read a ComputerSystem and what belongs to it
	OperationBoot    Operation = "boot"    // write boot settings
	OperationPower   Operation = "power"   // reset a machine
	OperationChassis Operation = "chassis"
	OperationManager Operation = "manager"
	OperationMedia   Operation = "media" // virtual media
	OperationTask    Operation = "task"  // wait for what the BMC does by itself
)

// Outcome is the class of what came of a request.
type Outcome string

// The outcomes. There are no others.
const (
	OutcomeOK           Outcome = "ok"           // an answer below 400
	OutcomeUnauthorized Outcome = "unauthorized" // 401
	OutcomeForbidden    Outcome = "forbidden"    // 403
	OutcomeMissing      Outcome = "missing"      // 404 and 405: firmware has not all of Redfish
	OutcomeRefused      Outcome = "refused"      // any other 4xx
	OutcomeServerError  Outcome = "server error" // 5xx
	OutcomeTimeout      Outcome = "timeout"
	OutcomeTLS          Outcome = "tls" // a certificate that is not trusted, or no common version
	OutcomeUnreachable  Outcome = "unreachable"
	OutcomeCancelled    Outcome = "cancelled" // by this program
)

// Operations lists all operations.
func Operations() []Operation {
	return []Operation{
		OperationService, OperationSession, OperationSystem, OperationBoot, OperationPower, OperationChassis, OperationManager,
		OperationMedia, OperationTask,
	}
}

// Outcomes lists all outcomes.
func Outcomes() []Outcome {
	return []Outcome{
		OutcomeOK, OutcomeUnauthorized, OutcomeForbidden, OutcomeMissing, OutcomeRefused, OutcomeServerError, OutcomeTimeout,
		OutcomeTLS, OutcomeUnreachable, OutcomeCancelled,
	}
}

// Exchange is one request with its answer, as Config.OnRequest is told. It names
// neither BMC nor account, so that counting by it stays bounded and tells nothing (I9).
type Exchange struct {
	Operation Operation
	Outcome   Outcome
	// Duration is from the request to the end of the answer.
	Duration time.Duration
}

// observe tells of an exchange that has ended.
func (g *guard) observe(req *http.Request, start time.Time, rec recording, err error) {
	if g.onRequest == nil {
		return
	}
	g.onRequest(Exchange{
		Operation: operationOf(req.Method, req.URL.Path), Outcome: outcomeOf(req.Context(), rec.answer.status, err), Duration: time.Since(start),
	})
}

// operations are told by a part of the path, first match wins.
var operations = []struct {
	part string
	is   Operation
}{
	{"/sessionservice", OperationSession},
	{"/sessions", OperationSession},
	{"computersystem.reset", OperationPower},
	{"/virtualmedia", OperationMedia},
	{"/task", OperationTask},
	{"/jobs", OperationTask},
	{"/systems", OperationSystem},
	{"/chassis", OperationChassis},
	{"/managers", OperationManager},
}

func operationOf(method, path string) Operation {
	path = strings.ToLower(path)
	for _, o := range operations {
		if !strings.Contains(path, o.part) {
			continue
		}
		if o.is == OperationSystem && method != http.MethodGet && method != http.MethodHead {
			return OperationBoot
		}
		return o.is
	}
	return OperationService
}

// answers are the outcomes that a status has; those of a whole class come after.
var answers = map[int]Outcome{
	http.StatusUnauthorized: OutcomeUnauthorized, http.StatusForbidden: OutcomeForbidden,
	http.StatusNotFound: OutcomeMissing, http.StatusMethodNotAllowed: OutcomeMissing,
}

func outcomeOf(ctx context.Context, status int, err error) Outcome {
	if err != nil {
		return failureOf(ctx, err)
	}
	if special, found := answers[status]; found {
		return special
	}
	switch {
	case status >= http.StatusInternalServerError:
		return OutcomeServerError
	case status >= http.StatusBadRequest:
		return OutcomeRefused
	}
	return OutcomeOK
}

// failureOf tells why there was no answer.
func failureOf(ctx context.Context, err error) Outcome {
	var (
		network net.Error
		record  tls.RecordHeaderError // the other end speaks no TLS
		cause   = context.Cause(ctx)
	)
	switch {
	case cause != nil && !errors.Is(cause, errGaveUp) && !errors.Is(cause, context.DeadlineExceeded):
		return OutcomeCancelled
	case cause != nil, errors.As(err, &network) && network.Timeout():
		return OutcomeTimeout
	case errors.As(err, &record), tlsKind(err) != nil:
		return OutcomeTLS
	}
	return OutcomeUnreachable
}
