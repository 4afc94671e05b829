package docs

import (
	"path"
	"regexp"
	"testing"
)

// way is how a command is proven.
type way string

const (
	executed  way = "executed"  // in the page's world
	elsewhere way = "elsewhere" // by a test of another package, or a target whose tests are named
	excused   way = "excused"   // cannot be executed by tests; docs/unproven.md says why
)

// rule is how the commands that it matches are proven. The first one that matches counts.
type rule struct {
	page  string         // a pattern of path.Match, "" for every page
	match *regexp.Regexp // of the whole command
	way   way
	// as is what is run in place of it, with $1 for what match caught; "" for itself.
	as string
	// before and after are lines of shell that make what the reader has, and do what the page
	// tells in words. DOC_OUTPUT is the output that the page shows.
	before, after string
	status        int    // that it ends with
	says          string // a pattern that its output has to have
	by            string // the tests, or the words of docs/unproven.md
}

// covers says whether the rule is for a command.
func (r rule) covers(c command) bool {
	if r.page != "" {
		if ok, err := path.Match(r.page, c.page); !ok || err != nil {
			return false
		}
	}
	return r.match.FindString(c.text) == c.text
}

// ruleFor is the rule of a command.
func ruleFor(c command) (rule, bool) {
	for _, r := range rules {
		if r.covers(c) {
			return r, true
		}
	}
	return rule{}, false
}

// place is something that is in another place in a world than on a reader's host.
type place struct{ documented, here string }

var places = []place{
	{"/etc/provision/provision.yaml", "{{dir}}/provision.yaml"},
	{"/etc/provision", "{{dir}}/etc"},
	{"/var/lib/provision", "{{dir}}/state"},
	{"/var/cache/provision", "{{dir}}/cache"},
	{"/usr/lib/ipxe", "{{dir}}/ipxe"},
	{"/srv/", "{{dir}}/srv/"},
	{"/dev/sda", "/dev/vda"},
	{"10.99.0.0/24", "{{bmcs}}"},
	{"k8s-dev", "k8s-prod"},
	{"BMC_PASSWORD=…", `BMC_PASSWORD="$(cat {{dir}}/bmc-password)"`},
	{"BMC_PASSWORD=...", `BMC_PASSWORD="$(cat {{dir}}/bmc-password)"`},
}

// standIns take the place of programs that would change the host, with the
// arguments (a pattern) that they are to be given.
var standIns = map[string]string{
	"apt-get": `install (ipxe|\./(dist/)?provision_\S+\.deb)|(remove|purge) provision`,
	"install": `(bin|provision_VERSION_linux_amd64)/provision /usr/local/bin/|-D -m 644 \S+ /etc/(systemd/system/provision\.service|sysusers\.d/provision\.conf)|` +
		`-m 644 docs/examples/provision\.yaml \S+/etc/|-d \S+/etc/nodes|-m 600 /dev/null \S+/etc/secrets\.env`,
	"setcap":           `cap_net_bind_service,cap_net_raw\+ep /usr/local/bin/provision`,
	"sudoedit":         `\S+/(provision\.yaml|secrets\.env)`,
	"systemctl":        `daemon-reload|enable --now provision|restart provision`,
	"systemd-sysusers": ``,
}

func re(pattern string) *regexp.Regexp { return regexp.MustCompile(`(?s)^(?:` + pattern + `)$`) }

// Every rule is used: one that is not hides that a command is gone.
func TestEveryRuleIsUsed(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, page := range pages(t) {
		for _, s := range snippets(t, page) {
			for _, c := range commands(s) {
				if r, ok := ruleFor(c); ok {
					used[r.page+r.match.String()] = true
				}
			}
		}
	}
	for _, r := range rules {
		if !used[r.page+r.match.String()] {
			t.Errorf("no command of %q is like %s: take the rule away", r.page, r.match)
		}
	}
}
