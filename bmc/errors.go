package bmc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kinds of failure, for errors.Is. The text of an error that a method returns
// names the BMC, what was being done and what to do next.
var (
	// ErrUnauthorized: the BMC refused the user name or password, or dropped the
	// session twice. No further log-in is tried, since BMCs lock accounts.
	ErrUnauthorized = errors.New("the BMC refused the user name or password")
	// ErrUnreachable: no HTTP answer could be had from the BMC.
	ErrUnreachable = errors.New("the BMC cannot be reached")
	// ErrOverrideNotKept: the BMC accepted a boot override and does not show it (I4).
	ErrOverrideNotKept = errors.New("the BMC accepted the boot override but did not keep it")
	// ErrOverrideRefused: every way to write the boot override was refused.
	ErrOverrideRefused = errors.New("the BMC refused the boot override")
	// ErrNoMedia: the BMC shows no virtual CD.
	ErrNoMedia = errors.New("the BMC shows no virtual CD")
	// ErrMediaRefused: every way to insert or eject a medium was refused, or one
	// was accepted and the BMC does not show it.
	ErrMediaRefused = errors.New("the BMC did not take the virtual medium")
	// ErrNoSystem: the BMC shows no ComputerSystem, or not the one asked for.
	ErrNoSystem = errors.New("the BMC shows no such system")
	// ErrAmbiguousSystem: the BMC has several systems and nothing tells which is meant.
	ErrAmbiguousSystem = errors.New("the BMC has several systems")
	// ErrLicence: the BMC wants a licence for this request (403). It is not a
	// matter of the password.
	ErrLicence = errors.New("the BMC has no licence for this")
	// ErrPowerTimeout: the machine did not reach the power state in time.
	ErrPowerTimeout = errors.New("the power state was not reached in time")
	// ErrPowerRefused: every reset type was refused.
	ErrPowerRefused = errors.New("the BMC refused to change the power state")
	// ErrSessionLimit: all sessions of the BMC are taken (RAC0218 on iDRAC) and
	// it takes no Basic authentication instead.
	ErrSessionLimit = errors.New("the BMC has no session left")
	// ErrNotPermitted: Config.Permit forbade a request, which was not sent.
	ErrNotPermitted = errors.New("the BMC was not asked")
	// ErrClosed: the Client was closed.
	ErrClosed = errors.New("the BMC client is closed")
)

// hints end an error with what a person can do; %s is the user name.
var hints = []struct {
	kind error
	text string
}{
	{ErrUnauthorized, "check bmc.username (now %q) and the variable or file its password comes from; one attempt was made and no more, so that the account is not locked"},
	{ErrNotPermitted, "whoever may work on the machine now goes on with it"},
	{ErrOverrideNotKept, "the machine was not reset; set bmc.bootMode to the mode its BIOS uses, or check its boot settings and BMC firmware version"},
	{ErrOverrideRefused, "the machine was not reset; check that the account may configure boot and that PXE is enabled in the BIOS"},
	{ErrNoMedia, "virtual media may need a licence on this BMC (HPE iLO Advanced, Supermicro DCMS, Dell Enterprise); use bmc.boot: pxe otherwise"},
	{ErrMediaRefused, "the machine was not reset; check that the BMC reaches the image's host and port, and that no other medium is mounted on the BMC's own page"},
	{ErrNoSystem, "check that bmc.address is a server's own BMC and that bmc.system, if set, is one of its systems"},
	{ErrAmbiguousSystem, "set bmc.system to one of them"},
	{ErrLicence, "install the licence on the BMC or use an account of a BMC that has it; the password is fine"},
	{ErrPowerTimeout, "look at the machine's console and at the BMC's event log"},
	{ErrPowerRefused, "check that the account may control power and that the BMC's own page can do it"},
	{ErrSessionLimit, "close sessions on the BMC, or wait some 30 minutes until they time out"},
	{errFingerprint, "if the BMC was replaced or its certificate renewed, read the new fingerprint on the BMC's own page and correct bmc.fingerprint; otherwise somebody is between here and the BMC"},
	{errCertificate, "set bmc.caFile to the authority that signed the BMC's certificate, or bmc.fingerprint to the key's fingerprint after comparing it with the BMC's own page, or bmc.insecure: true"},
	{errOldTLS, "update the BMC's firmware, or set bmc.legacyTLS: true"},
	{ErrUnreachable, "check bmc.address, the network to it and that Redfish is enabled"},
}

// errGaveUp ends an operation whose own time is over, not the caller's.
var errGaveUp = errors.New("gave up")

// explain gives an error its operation, its BMC and its hint.
func (c *Client) explain(operation string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s at BMC %s: %w", operation, c.endpoint, err)
	for _, h := range hints {
		if errors.Is(err, h.kind) {
			text := h.text
			if strings.Contains(text, "%q") {
				text = fmt.Sprintf(text, c.cfg.Username)
			}
			return fmt.Errorf("%w; %s", err, text)
		}
	}
	return err
}

// unreachable gives a transport error its kind. A context that ended stays one.
func unreachable(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errGaveUp) {
		return fmt.Errorf("%w: %w: %w", ErrUnreachable, cause, err)
	} else if cause != nil {
		return fmt.Errorf("%w (%w)", cause, err)
	}
	if kind := tlsKind(err); kind != nil {
		return fmt.Errorf("%w: %w: %w", ErrUnreachable, kind, err)
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// refusal is an HTTP answer that is not a success.
type refusal struct {
	method, path string
	status       int
	task         string        // the state in which the task at path ended; no status then
	after        time.Duration // Retry-After
	code, text   string
	notes        []note
	scrub        func(string) string
}

// note is one entry of @Message.ExtendedInfo.
type note struct {
	ID      text       `json:"MessageId"` // iLO writes MessageID; encoding/json ignores case
	Message text       `json:"Message"`
	Args    list[text] `json:"MessageArgs"`
	Related list[text] `json:"RelatedProperties"`
}

func (c *Client) refuse(r request, a answer) *refusal {
	out := &refusal{method: r.method, path: r.path, status: a.status, after: retryAfter(a.header, time.Now()), scrub: c.secrets.scrub}
	var body struct {
		Error object[struct {
			Code    text       `json:"code"`
			Message text       `json:"message"`
			Notes   list[note] `json:"@Message.ExtendedInfo"`
		}] `json:"error"`
		Notes list[note] `json:"@Message.ExtendedInfo"`
	}
	if decode(a.body, &body) != nil {
		return out
	}
	e := body.Error.value
	out.code, out.text = string(e.Code), string(e.Message)
	out.notes = append(out.notes, e.Notes...)
	out.notes = append(out.notes, body.Notes...)
	return out
}

// Error names the request, the status and what the BMC said, in one line.
func (r *refusal) Error() string {
	var said []string
	for _, n := range r.notes {
		part := lastOf(string(n.ID))
		if len(n.Args) > 0 {
			part += fmt.Sprintf(" %v", []text(n.Args))
		}
		if n.Message != "" {
			part = strings.TrimSpace(part + ": " + string(n.Message))
		}
		said = append(said, part)
	}
	if len(said) == 0 {
		said = append(said, strings.TrimSpace(lastOf(r.code)+" "+r.text))
	}
	message := oneLine(strings.Join(said, "; "), 300)
	if message == "" {
		message = "no reason given"
	}
	if r.task != "" {
		return r.scrub(fmt.Sprintf("the task %s ended as %s (%s)", r.path, r.task, message))
	}
	return r.scrub(fmt.Sprintf("%s %s answered HTTP %d (%s)", r.method, r.path, r.status, message))
}

// Unwrap gives the kinds that follow from the answer alone.
func (r *refusal) Unwrap() error {
	switch {
	case r.status == 401:
		return ErrUnauthorized
	case r.status == 403 && r.says("OemLicenseNotPassed", "LicenseNotPassed", "NoValidLicense", "InsufficientLicense", "LicenseKeyRequired"):
		return ErrLicence
	case r.status == 403 && strings.Contains(strings.ToLower(r.text), "licen"):
		return ErrLicence
	}
	return nil
}

// says tells whether one of the messages is meant. Registry names and versions
// in front differ between firmware versions and are ignored.
func (r *refusal) says(messages ...string) bool {
	for _, m := range messages {
		if strings.EqualFold(lastOf(r.code), m) {
			return true
		}
		for _, n := range r.notes {
			if strings.EqualFold(lastOf(string(n.ID)), m) {
				return true
			}
		}
	}
	return false
}

// mentions tells whether the refusal is about a property or contains a phrase.
func (r *refusal) mentions(phrase string) bool {
	phrase = strings.ToLower(phrase)
	has := func(t text) bool { return strings.Contains(strings.ToLower(string(t)), phrase) }
	if has(text(r.text)) {
		return true
	}
	for _, n := range r.notes {
		if has(n.Message) {
			return true
		}
		for _, v := range append(append([]text(nil), n.Args...), n.Related...) {
			if has(v) {
				return true
			}
		}
	}
	return false
}

// lastOf is the message of a MessageId such as Base.1.18.PropertyUnknown.
func lastOf(id string) string { return id[strings.LastIndexByte(id, '.')+1:] }

// oneLine folds white space and cuts at a length in bytes, rune safe.
func oneLine(s string, limit int) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " ")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}
