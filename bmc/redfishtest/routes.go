package redfishtest

import (
	"io"
	"net/http"
	"strings"
)

// exchange is one request on its way through the service.
type exchange struct {
	request *http.Request
	path    string // without a trailing slash
	id      string // what matched "*" in the route
	body    []byte
	effect  effect // of the faults that matched
}

// route is one line of the table below. The words $system, $chassis, $manager,
// $settings and $maker stand for the profile's own, "*" for anything.
type route struct {
	method, path string
	open         bool // needs no credentials
	handle       func(*Service, *exchange) Answer
}

// routes is everything that a service answers; a path that it has with another
// method only is answered 405.
var routes = []route{
	{"GET", "/redfish", true, (*Service).getVersions},
	{"GET", "/redfish/v1", true, (*Service).getRoot},
	{"GET", "/redfish/v1/SessionService", false, (*Service).getSessionService},
	{"GET", "/redfish/v1/SessionService/Sessions", false, (*Service).getSessions},
	{"POST", "/redfish/v1/SessionService/Sessions", true, (*Service).login},
	{"GET", "/redfish/v1/SessionService/Sessions/*", false, (*Service).getSession},
	{"DELETE", "/redfish/v1/SessionService/Sessions/*", false, (*Service).deleteSession},
	{"GET", "/redfish/v1/Systems", false, (*Service).getSystems},
	{"GET", "/redfish/v1/Systems/$system", false, (*Service).getSystem},
	{"PATCH", "/redfish/v1/Systems/$system", false, (*Service).patchSystem},
	{"GET", "/redfish/v1/Systems/$system/$settings", false, (*Service).getSettings},
	{"PATCH", "/redfish/v1/Systems/$system/$settings", false, (*Service).patchSettings},
	{"GET", "/redfish/v1/Systems/$system/ResetActionInfo", false, (*Service).getActionInfo},
	{"POST", "/redfish/v1/Systems/$system/Actions/ComputerSystem.Reset", false, (*Service).postReset},
	{"GET", "/redfish/v1/Systems/$system/EthernetInterfaces", false, (*Service).getInterfaces},
	{"GET", "/redfish/v1/Systems/$system/EthernetInterfaces/*", false, (*Service).getInterface},
	{"GET", "/redfish/v1/Chassis", false, (*Service).getChassisCollection},
	{"GET", "/redfish/v1/Chassis/$chassis", false, (*Service).getChassis},
	{"GET", "/redfish/v1/Chassis/$chassis/Assembly", false, (*Service).getAssembly},
	{"GET", "/redfish/v1/Managers", false, (*Service).getManagers},
	{"GET", "/redfish/v1/Managers/$manager", false, (*Service).getManager},
	{"GET", taskServicePath, false, (*Service).getTaskService},
	{"GET", taskServicePath + "/Tasks", false, (*Service).getTasks},
	{"GET", taskServicePath + "/Tasks/*", false, (*Service).getTask},
	{"GET", taskServicePath + "/TaskMonitors/*", false, (*Service).getTaskMonitor},
	{"GET", "/redfish/v1/Managers/$manager/VirtualMedia", false, (*Service).getMediaCollection},
	{"GET", "/redfish/v1/Managers/$manager/VirtualMedia/*", false, (*Service).getMedium},
	{"PATCH", "/redfish/v1/Managers/$manager/VirtualMedia/*", false, (*Service).patchMedium},
	{"POST", "/redfish/v1/Managers/$manager/VirtualMedia/*/Actions/VirtualMedia.InsertMedia", false, (*Service).insertMedia},
	{"POST", "/redfish/v1/Managers/$manager/VirtualMedia/*/Actions/VirtualMedia.EjectMedia", false, (*Service).ejectMedia},
	{"POST", "/redfish/v1/Managers/$manager/VirtualMedia/*/Oem/$maker/Actions/VirtualMedia.VmmControl", false, (*Service).vmmControl},
	{"GET", "/redfish/v1/Systems/$system/VirtualMedia", false, (*Service).getMediaCollection},
	{"GET", "/redfish/v1/Systems/$system/VirtualMedia/*", false, (*Service).getMedium},
	{"PATCH", "/redfish/v1/Systems/$system/VirtualMedia/*", false, (*Service).patchMedium},
	{"POST", "/redfish/v1/Systems/$system/VirtualMedia/*/Actions/VirtualMedia.InsertMedia", false, (*Service).insertMedia},
	{"POST", "/redfish/v1/Systems/$system/VirtualMedia/*/Actions/VirtualMedia.EjectMedia", false, (*Service).ejectMedia},
}

// maxBody is far above any write that Redfish knows.
const maxBody = 1 << 20

// ServeHTTP handles one Redfish request.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer s.enter()()
	x := &exchange{request: r, path: strings.TrimSuffix(r.URL.Path, "/")}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		s.reply(w, x, fail(http.StatusRequestEntityTooLarge, s.message("PayloadTooLarge"), "The request body cannot be read."))
		return
	}
	x.body = body
	x.effect = s.effects(r.Method, x.path)
	for _, call := range x.effect.calls {
		call(s)
	}
	a := x.effect.answer
	if !a.given() && x.effect.connection != closeBefore {
		a = s.dispatch(x)
	}
	s.reply(w, x, a)
}

// enter counts a request in, the function that it returns counts it out.
func (s *Service) enter() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.inFlight++
	s.counts.maxInFlight = max(s.counts.maxInFlight, s.counts.inFlight)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.counts.inFlight--
	}
}

// dispatch finds the route, checks credentials and calls it. Credentials come
// before existence: a BMC does not tell strangers what it has.
func (s *Service) dispatch(x *exchange) Answer {
	s.mu.Lock()
	s.settle()
	s.mu.Unlock()
	method := x.request.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	matched, allow := s.match(x, method)
	closed := matched == nil || !matched.open || method == http.MethodGet && s.profile.Session.ProtectRoot
	if closed && !s.authorised(x.request) {
		return s.unauthorised()
	}
	extra, isExtra := Extra{}, false
	if method == http.MethodGet {
		extra, isExtra = s.extra(x.path)
	}
	if matched != nil && (!isExtra || !extra.Instead) {
		return matched.handle(s, x)
	}
	if isExtra {
		return extra.answer()
	}
	if len(allow) > 0 {
		a := fail(http.StatusMethodNotAllowed, s.message("OperationNotAllowed"), "The method is not allowed for this resource.")
		a.Header = map[string]string{"Allow": strings.Join(allow, ", ")}
		return a
	}
	return s.notFound(x)
}

// match returns the route, or the methods that the path has instead.
func (s *Service) match(x *exchange, method string) (matched *route, allow []string) {
	for i := range routes {
		r := &routes[i]
		id, ok := s.matchPath(r.path, x.path)
		switch {
		case !ok:
		case r.method == method:
			x.id = id
			return r, nil
		default:
			allow = append(allow, r.method)
		}
	}
	return nil, allow
}

// matchPath compares part by part, and returns the part that "*" stands for.
func (s *Service) matchPath(pattern, path string) (id string, ok bool) {
	if s.profile.Session.None && strings.HasPrefix(pattern, "/redfish/v1/SessionService") {
		return "", false
	}
	for {
		want, restWant, moreWant := strings.Cut(pattern, "/")
		got, restGot, moreGot := strings.Cut(path, "/")
		switch {
		case moreWant != moreGot, want != "" && got == "":
			return "", false
		case want == "*":
			id = got
		case s.part(want) != got:
			return "", false
		}
		if !moreWant {
			return id, true
		}
		pattern, path = restWant, restGot
	}
}

// part resolves a word of a route.
func (s *Service) part(word string) string {
	switch word {
	case "$system":
		return s.profile.SystemID
	case "$chassis":
		return s.profile.ChassisID
	case "$manager":
		return s.profile.ManagerID
	case "$settings":
		return s.profile.Boot.Settings.ID
	case "$maker":
		return s.profile.Media.Control
	}
	return word
}

// message qualifies the name of a standard message, "Base.1.8.NoValidSession".
func (s *Service) message(name string) string { return s.profile.Registry + "." + name }

func (s *Service) notFound(x *exchange) Answer {
	return fail(http.StatusNotFound, s.message("ResourceMissingAtURI"), "The resource at the URI was not found.", x.path)
}

func (s *Service) malformed() Answer {
	return fail(http.StatusBadRequest, s.message("MalformedJSON"), "The request body is not valid JSON.")
}

func orNoContent(a Answer) Answer {
	if a.given() {
		return a
	}
	return Answer{Status: http.StatusNoContent}
}
