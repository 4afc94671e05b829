package redfishtest

import (
	"fmt"
	"net/http"
	"strings"
)

// etag returns the entity tag of the System, or of a settings resource. It
// changes with each write to the boot settings, the BMC's own among them: Once
// is cleared by the boot. It does not change with the power state.
func (s *Service) etag(resource string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.etagLocked(resource)
}

func (s *Service) etagLocked(resource string) string {
	tag := fmt.Sprintf(`"%s%x"`, strings.ToLower(resource), 0xa1+s.revision)
	if s.profile.ETag.Weak {
		return "W/" + tag
	}
	return tag
}

// precondition checks If-Match (RFC 9110 13.1.1) as the vendor does.
func (s *Service) precondition(x *exchange, resource string) Answer {
	rules := s.profile.ETag
	given := x.request.Header.Get("If-Match")
	if rules.None {
		return Answer{}
	}
	if given == "" {
		return rules.Required
	}
	tag := s.etagLocked(resource)
	ok := false
	switch rules.Accept {
	case IfMatchExact:
		ok = given == tag || given == "*"
	case IfMatchBare:
		ok = given == strings.Trim(strings.TrimPrefix(tag, "W/"), `"`)
	case IfMatchNever:
	}
	if ok {
		return Answer{}
	}
	return fail(http.StatusPreconditionFailed, s.message("PreconditionFailed"),
		"The If-Match header does not match the current entity tag of the resource.")
}

// actionPrecondition checks If-Match on an action.
func (s *Service) actionPrecondition(x *exchange) Answer {
	if s.profile.ETag.RefuseOnActions && x.request.Header.Get("If-Match") != "" {
		return fail(http.StatusPreconditionFailed, s.message("PreconditionFailed"),
			"The If-Match header cannot be used with this request.")
	}
	return Answer{}
}

// gzipTag is the tag that some web servers send to clients that accept gzip.
func gzipTag(tag string) string {
	if rest, ok := strings.CutSuffix(tag, `"`); ok {
		return rest + `-gzip"`
	}
	return tag + "-gzip"
}
