package dashboard

import (
	"errors"
	"net/http"
	"strings"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
)

const (
	maxForm   = 16 << 10 // bytes of a form
	maxReason = 500      // characters of a hold's reason
)

// action does what a form asks for, and says which page shows the outcome.
type action func(r *http.Request, v Viewer) (then string, err error)

// notices are what a page says after an action, by the word in its address: no text
// of an address is ever shown.
var notices = map[string]string{
	"held":     "Held. No run touches this node's power until it is released.",
	"released": "Released. Runs may work on this node again.",
	"stopped":  "Stopped. The run can be carried on with `provision --cluster NAME`.",
	"halted":   "Stopped. The upgrade can be carried on with `provision upgrade --cluster NAME --continue`.",
	"reload":   "The daemon looks at the inventory now.",
}

// form takes a form from who may act, and sends its sender on.
func (s *site) form(act action) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		viewer := s.opts.Viewer(r.Context())
		if !viewer.MayAct {
			s.fail(w, r, &web.Error{Code: web.CodeForbidden, Message: "Your access is read-only.", Hint: "sign in with the token that may do everything"})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		then, err := "", r.ParseForm()
		if err != nil {
			err = web.Invalid(errors.New("the form cannot be read"), "load the page again and send it once more")
		} else {
			then, err = act(r, viewer)
		}
		s.fleet.forget()
		if err != nil {
			s.fail(w, r, err)
			return
		}
		w.Header().Set("Location", then)
		w.WriteHeader(http.StatusSeeOther)
	})
}

func (s *site) hold(r *http.Request, v Viewer) (string, error) {
	cluster, node := r.PathValue("cluster"), r.PathValue("node")
	reason := strings.TrimSpace(r.PostForm.Get("reason"))
	switch {
	case reason == "":
		return "", web.Invalid(errors.New("a hold needs a reason"), "say why, for whoever wonders later; then send the form again")
	case len([]rune(reason)) > maxReason:
		return "", web.Invalid(errors.New("the reason is too long"), "500 characters are enough")
	}
	err := s.opts.Control.Hold(r.Context(), store.Hold{Cluster: cluster, Node: node, Reason: reason, By: v.Name, Since: s.opts.Now().UTC()})
	return nodeURL(cluster, node) + "?done=held", err
}

func (s *site) release(r *http.Request, _ Viewer) (string, error) {
	cluster, node := r.PathValue("cluster"), r.PathValue("node")
	return nodeURL(cluster, node) + "?done=released", s.opts.Control.Release(r.Context(), cluster, node)
}

func (s *site) stop(r *http.Request, _ Viewer) (string, error) {
	runs, err := s.opts.Control.Runs(r.Context())
	if err != nil {
		return "", err
	}
	for _, run := range runs {
		if run.ID == r.PathValue("id") && run.Finished.IsZero() {
			return runURL(run.ID) + "?done=stopped", s.opts.Control.Stop(r.Context(), run.Cluster)
		}
	}
	return s.stopUpgrade(r)
}

// stopUpgrade interrupts an upgrade that the daemon carries out.
func (s *site) stopUpgrade(r *http.Request) (string, error) {
	upgrades, err := s.opts.Control.Upgrades(r.Context())
	if err != nil {
		return "", err
	}
	for _, u := range upgrades {
		if u.ID == r.PathValue("id") && u.Active {
			return runURL(u.ID) + "?done=halted", s.opts.Control.StopUpgrade(r.Context(), u.Cluster)
		}
	}
	return "", web.NotFound("this run is not under way")
}

func (s *site) reload(r *http.Request, _ Viewer) (string, error) {
	return "/inventory?done=reload", s.opts.Control.Reload(r.Context())
}

// nothingToDo is a form for an address that takes none.
func (s *site) nothingToDo(*http.Request, Viewer) (string, error) {
	return "", &web.Error{Code: web.CodeMethod, Message: "This address takes no forms."}
}

// login shows the form that package web takes, and its status: of a wrong token, it is not 200.
func (s *site) login(w http.ResponseWriter, r *http.Request) {
	v := s.opts.Viewer(r.Context())
	s.show(w, r, &view{
		title: "Sign in", name: "login", bare: true, data: struct{ Error, Next string }{v.LoginError, localPath(r.URL.Query().Get("next"))},
	})
}

// localPath is a path of this site, or the root: a login leads nowhere else.
func localPath(next string) string {
	if !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") || len(next) > maxText {
		return "/"
	}
	return next
}
