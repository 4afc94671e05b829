package bmc

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter caps what a BMC may ask to wait before the next look.
const maxRetryAfter = 30 * time.Second

// retryAfter reads the header of RFC 9110 10.2.3, in seconds or as a date; 0 when
// there is none.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	if seconds, err := strconv.Atoi(v); err == nil {
		return min(max(time.Duration(min(seconds, 3600))*time.Second, 0), maxRetryAfter)
	}
	if at, err := http.ParseTime(v); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

// taskDocument is a Task, or what a task monitor answers in its place.
type taskDocument struct {
	ID       link       `json:"@odata.id"`
	Type     text       `json:"@odata.type"`
	Monitor  link       `json:"TaskMonitor"`
	State    text       `json:"TaskState"`
	Status   text       `json:"TaskStatus"`
	Messages list[note] `json:"Messages"`
}

// taskEnds are the states in which a task stays (DSP2046, Task.TaskState), with
// whether it did what it was to do.
var taskEnds = map[string]bool{
	"Completed": true, "Exception": false, "Killed": false, "Cancelled": false, "Interrupted": false,
}

// follow waits for what a BMC accepted (202) to be done. A task that failed is a
// *refusal. An answer without a monitor, or a monitor that is gone, tells
// nothing: the caller reads back in any case.
func (c *Client) follow(ctx context.Context, a answer) error {
	if a.status != http.StatusAccepted {
		return nil
	}
	monitor, after := monitorOf(a)
	if monitor == "" {
		return nil
	}
	for {
		if err := sleep(ctx, max(after, c.cfg.Timeouts.Poll)); err != nil {
			return err
		}
		now, err := c.exchange(ctx, request{method: http.MethodGet, path: monitor})
		switch {
		case err != nil:
			if errors.Is(err, ErrUnreachable) && ctx.Err() == nil {
				after = 0
				continue // bounded by the operation's time
			}
			return err
		case now.status == http.StatusNotFound, now.status == http.StatusGone:
			return nil
		case now.status == http.StatusServiceUnavailable, now.status == http.StatusTooManyRequests:
		case !now.ok():
			return c.refuse(request{method: http.MethodGet, path: monitor}, now)
		default:
			done, err := c.taskEnded(monitor, now)
			if done || err != nil {
				return err
			}
		}
		after = retryAfter(now.header, time.Now())
	}
}

// monitorOf finds where the progress of an accepted request is shown: Location
// as DSP0266 12.2 has it, else the task in the body (iBMC).
func monitorOf(a answer) (string, time.Duration) {
	monitor := localPath(a.header.Get("Location"))
	if monitor == "" {
		var task taskDocument
		if decode(a.body, &task) == nil && (task.State != "" || strings.Contains(string(task.Type), "#Task.")) {
			if monitor = string(task.Monitor); monitor == "" {
				monitor = string(task.ID)
			}
		}
	}
	return monitor, retryAfter(a.header, time.Now())
}

// taskEnded judges one answer of a monitor. A state counts more than the status:
// some monitors are the task itself and answer 200 all the time (iDRAC).
func (c *Client) taskEnded(monitor string, now answer) (bool, error) {
	var task taskDocument
	_ = decode(now.body, &task) // no document: the status decides
	worked, ended := taskEnds[string(task.State)]
	switch {
	case !ended && task.State != "":
		return false, nil
	case !ended:
		return now.status != http.StatusAccepted, nil
	case worked && !strings.EqualFold(string(task.Status), "Critical"):
		return true, nil
	}
	return true, &refusal{path: monitor, task: string(task.State), notes: task.Messages, scrub: c.secrets.scrub}
}
