package redfishtest

import (
	"net/http"
	"strconv"
	"time"
)

const taskServicePath = "/redfish/v1/TaskService"

// TaskRules is how a BMC answers writes that take longer: 202 with the Location
// of a task monitor (DSP0266 12.2), which answers 202 until the work is done,
// and then as the write itself would have. What was written shows when the task
// is done, not before.
type TaskRules struct {
	// Resets, Patches and Media say which writes are tasks.
	Resets, Patches, Media bool
	// Lag is how long a task takes, beside the power's own lag.
	Lag time.Duration
	// RetryAfter is sent while the task runs, in seconds; zero sends none.
	RetryAfter int
	// NoLocation sends no Location: nothing tells when the work is done but the
	// resource itself.
	NoLocation bool
	// Failure ends the task with this answer, and nothing is done.
	Failure Answer
}

// task is a write on its way.
type task struct {
	id    string
	rules TaskRules
	due   time.Time
	// ready is closed when what the task waits for has happened; nil: at once.
	ready <-chan struct{}
	// finish does the work and returns the monitor's answer; the lock is held.
	finish func() Answer
	// result is given once it is done.
	result Answer
}

func (t *task) done() bool { return t.result.given() }

// perhapsTask does the work now, or makes a task of it; the lock is held.
func (s *Service) perhapsTask(x *exchange, usual bool, done Answer, work func()) Answer {
	rules := x.effect.task
	if rules == nil && usual {
		rules = &s.profile.Tasks
	}
	if rules == nil {
		work()
		return done
	}
	return s.startTask(*rules, nil, func() Answer {
		work()
		return done
	})
}

// resetTask makes a task of a reset that has been taken.
func (s *Service) resetTask(x *exchange, name string, t *transition) Answer {
	rules := &s.profile.Tasks
	if x.effect.task != nil {
		rules = x.effect.task
	}
	done := s.accepted(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.startTask(*rules, t.done, func() Answer {
		if t.err != nil {
			return s.notSwitched()
		}
		return done
	})
}

// startTask answers 202; the lock is held.
func (s *Service) startTask(rules TaskRules, ready <-chan struct{}, finish func() Answer) Answer {
	t := &task{
		id: strconv.Itoa(len(s.tasks) + 1), rules: rules, due: time.Now().Add(rules.Lag), ready: ready, finish: finish,
	}
	if rules.Failure.given() {
		t.finish = func() Answer { return rules.Failure }
	}
	s.tasks = append(s.tasks, t)
	return s.runningTask(t)
}

func (s *Service) runningTask(t *task) Answer {
	a := Answer{Status: http.StatusAccepted, Body: encode(s.taskDocument(t)), Header: map[string]string{}}
	if !t.rules.NoLocation {
		a.Header["Location"] = taskServicePath + "/TaskMonitors/" + t.id
	}
	if t.rules.RetryAfter > 0 {
		a.Header["Retry-After"] = strconv.Itoa(t.rules.RetryAfter)
	}
	return a
}

// settle finishes the tasks whose time has come, in their order; the lock is
// held. It is called before anything is looked at, so that no clock has to run
// for a task.
func (s *Service) settle() {
	for _, t := range s.tasks {
		if t.done() || time.Now().Before(t.due) {
			continue
		}
		if t.ready != nil {
			select {
			case <-t.ready:
			default:
				continue
			}
		}
		t.result = t.finish()
	}
}

func (s *Service) taskDocument(t *task) Document {
	d := Document{
		"@odata.id": taskServicePath + "/Tasks/" + t.id, "@odata.type": "#Task.v1_4_3.Task",
		"Id": t.id, "Name": "Task " + t.id, "TaskState": "Running", "TaskStatus": "OK",
	}
	switch {
	case !t.done() && t.rules.NoLocation:
	case !t.done():
		d["TaskMonitor"] = taskServicePath + "/TaskMonitors/" + t.id
	case t.result.Status >= http.StatusBadRequest:
		d["TaskState"], d["TaskStatus"] = "Exception", "Critical"
	default:
		d["TaskState"] = "Completed"
	}
	return d
}

// taskOf finds the task of a request; the lock is held.
func (s *Service) taskOf(x *exchange) *task {
	for _, t := range s.tasks {
		if t.id == x.id {
			return t
		}
	}
	return nil
}

func (s *Service) getTask(x *exchange) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.taskOf(x); t != nil {
		return found(s.taskDocument(t))
	}
	return s.notFound(x)
}

func (s *Service) getTaskMonitor(x *exchange) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.taskOf(x)
	switch {
	case t == nil || t.rules.NoLocation:
		return s.notFound(x)
	case !t.done():
		return s.runningTask(t)
	}
	return t.result
}

func (s *Service) getTasks(*exchange) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	members := make([]string, len(s.tasks))
	for i, t := range s.tasks {
		members[i] = taskServicePath + "/Tasks/" + t.id
	}
	return found(collection(taskServicePath+"/Tasks", "TaskCollection", members))
}

func (s *Service) getTaskService(*exchange) Answer {
	return found(Document{
		"@odata.id": taskServicePath, "@odata.type": "#TaskService.v1_1_4.TaskService",
		"Id": "TaskService", "Name": "Task Service", "ServiceEnabled": true, "Tasks": link(taskServicePath + "/Tasks"),
	})
}
