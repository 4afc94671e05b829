package redfishtest_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

// finish polls a monitor until it has another answer than 202.
func (c *client) finish(monitor string) reply {
	c.t.Helper()
	var last reply
	eventually(c.t, "the task ends", func() bool {
		last = c.do("GET", monitor, "")
		return last.status != http.StatusAccepted
	})
	return last
}

func TestAWriteThatIsATaskShowsWhenItIsDone(t *testing.T) {
	t.Parallel()
	p := redfishtest.Generic()
	p.Tasks = redfishtest.TaskRules{Patches: true, Media: true, Resets: true, Lag: 200 * time.Millisecond, RetryAfter: 1}
	s := start(t, redfishtest.Config{Profile: p})
	c := newClient(t, s)
	for _, step := range []struct {
		method, path, body string
		shown              func() bool
	}{
		{"PATCH", "/redfish/v1/Systems/1", full, func() bool { return s.Override() == armed }},
		{"POST", "/redfish/v1/Managers/1/VirtualMedia/CD1/Actions/VirtualMedia.InsertMedia", insertBody, func() bool { return s.Media() == iso }},
		{"POST", resetPath("1"), resetBody("On"), func() bool { return s.PowerState() == "On" }},
	} {
		got := c.do(step.method, step.path, step.body)
		wantEqual(t, "status", got.status, http.StatusAccepted)
		wantEqual(t, "state", got.doc["TaskState"], any("Running"))
		wantEqual(t, "Retry-After", got.header.Get("Retry-After"), "1")
		monitor := got.header.Get("Location")
		if !strings.HasPrefix(monitor, "/redfish/v1/TaskService/TaskMonitors/") {
			t.Fatalf("Location is %q", monitor)
		}
		wantEqual(t, "the end", c.finish(monitor).status, http.StatusNoContent)
		wantEqual(t, "shown in the end", step.shown(), true)
		task := c.get("/redfish/v1/TaskService/Tasks/" + monitor[strings.LastIndexByte(monitor, '/')+1:])
		wantEqual(t, "task", task["TaskState"], any("Completed"))
	}
	wantEqual(t, "listed", c.get("/redfish/v1/TaskService/Tasks")["Members@odata.count"], any(3.0))
}

// Until the task is done, reading back shows what was there before.
func TestATaskIsNotDoneAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{})
	s.Inject(redfishtest.Fault{Method: "PATCH", Times: 1, Action: redfishtest.AsTask(redfishtest.TaskRules{Lag: time.Hour, NoLocation: true})})
	got := newClient(t, s).do("PATCH", "/redfish/v1/Systems/1", full)
	wantEqual(t, "status", got.status, http.StatusAccepted)
	wantEqual(t, "Location", got.header.Get("Location"), "")
	wantEqual(t, "Retry-After", got.header.Get("Retry-After"), "")
	wantEqual(t, "override", s.Override(), atRest)
}

func TestATaskThatFailsChangesNothing(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{})
	c := newClient(t, s)
	failure := redfishtest.Answer{Status: 500, Body: redfishtest.ErrorBody("Base.1.13.InternalError", "Base.1.13.InternalError", "It did not work.")}
	s.Inject(redfishtest.Fault{Method: "PATCH", Action: redfishtest.AsTask(redfishtest.TaskRules{Failure: failure})})
	got := c.do("PATCH", "/redfish/v1/Systems/1", full)
	wantEqual(t, "status", got.status, http.StatusAccepted)
	end := c.finish(got.header.Get("Location"))
	wantEqual(t, "the end", end.status, 500)
	wantEqual(t, "message", messageID(end), "Base.1.13.InternalError")
	wantEqual(t, "task", c.get("/redfish/v1/TaskService/Tasks/1")["TaskState"], any("Exception"))
	wantEqual(t, "override", s.Override(), atRest)
	wantEqual(t, "no such task", c.do("GET", "/redfish/v1/TaskService/Tasks/2", "").status, http.StatusNotFound)
	wantEqual(t, "no such monitor", c.do("GET", "/redfish/v1/TaskService/TaskMonitors/2", "").status, http.StatusNotFound)
}

func TestAResetTaskEndsWithTheMachine(t *testing.T) {
	t.Parallel()
	g := &gate{on: make(chan error)}
	s := start(t, redfishtest.Config{Machine: g})
	s.Inject(redfishtest.Fault{Method: "POST", Path: resetPath("1"), Action: redfishtest.AsTask(redfishtest.TaskRules{})})
	c := newClient(t, s)
	got := c.do("POST", resetPath("1"), resetBody("On"))
	wantEqual(t, "status", got.status, http.StatusAccepted)
	monitor := got.header.Get("Location")
	wantEqual(t, "while it starts", c.do("GET", monitor, "").status, http.StatusAccepted)
	wantEqual(t, "power", s.PowerState(), "PoweringOn")
	g.on <- nil
	wantEqual(t, "the end", c.finish(monitor).status, http.StatusNoContent)
	wantEqual(t, "power", s.PowerState(), "On")
}
