package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/e2e/needs"
)

const gitopsDir = "../../docs/examples/gitops"

// forgeToken and bmcSecret must not be in any log.
const (
	forgeToken = "canary-forge-token-0123456789"
	bmcSecret  = "canary-bmc-variable-0123456789"
)

// step is what a runner gives to bash, with the variables of its own.
type step struct {
	script string
	env    map[string]string
}

// pipeline is an example file: its jobs' steps, as its forge would run them.
type pipeline interface {
	steps(t *testing.T, job string) []step
	// variables are those of a request, and of a push of a commit.
	variables(api string) map[string]string
	push(commit string) map[string]string
}

// site is a repository that is reviewed and deployed, with the daemon that follows it.
type site struct {
	remoteSite
	repository *signedRepository
	forge      *forge
	pipeline   pipeline
	runner     []string // environment
}

func newSite(t *testing.T, p pipeline) *site {
	t.Helper()
	for _, program := range []string{"bash", "curl", "jq"} {
		needs.Program(t, program)
	}
	f := startFleet(t, fleet.Config{Nodes: 2, Adjust: func(m *fleet.Machine) { m.Install = m.Name == "node-01" }})
	s := &site{repository: newSignedRepository(t), forge: newForge(t), pipeline: p}
	dir := s.repository.dir
	if err := os.Rename(filepath.Join(folderOf(f), "nodes"), filepath.Join(dir, "nodes")); err != nil {
		t.Fatal(err)
	}
	s.repository.commit("the first nodes", false)
	// It is not asked again within the test, unless somebody tells it to look.
	edit(t, f, "provision.yaml", "talos:\n", fmt.Sprintf("serve:\n  git: {url: 'file://%s', branch: main, path: nodes, poll: 1h}\ntalos:\n", dir))
	s.remoteSite = newRemoteSite(t, f)
	credentials := filepath.Dir(s.admin)
	writeFile(t, filepath.Join(dir, "provision.yaml"), fmt.Sprintf("inventory: nodes\nclient: {caFile: %s/cert.pem}\n", credentials))
	_, environ := shellWorld(t)
	s.runner = slices.Concat(environ, []string{"PROVISION_SERVER=https://" + s.address, "PROVISION_TOKEN_FILE=" + credentials + "/admin.token", "RUNNER_TEMP=" + t.TempDir(),
		"CLUSTER=demo", "BMC_PASSWORD=" + bmcSecret})
	return s
}

// checkout is the repository as a runner has it, with what a request changes.
func (s *site) checkout(t *testing.T, change func(dir string)) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(s.repository.dir)); err != nil {
		t.Fatal(err)
	}
	change(dir)
	return dir
}

// work runs the steps of a job in a checkout until one fails.
func (s *site) work(t *testing.T, job, dir string, env ...map[string]string) result {
	t.Helper()
	var r result
	summary := filepath.Join(t.TempDir(), "summary.md")
	for _, st := range s.pipeline.steps(t, job) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", st.script)
		cmd.Dir, cmd.Env = dir, append(slices.Clone(s.runner), "GITHUB_STEP_SUMMARY="+summary)
		for _, set := range append([]map[string]string{st.env}, env...) {
			for _, name := range slices.Sorted(maps.Keys(set)) {
				cmd.Env = append(cmd.Env, name+"="+set[name])
			}
		}
		cmd.Env = append(cmd.Env, "CLUSTER=demo") // in the place of k8s-prod
		out, err := cmd.CombinedOutput()
		cancel()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		r.out += string(out)
		r.status = cmd.ProcessState.ExitCode()
		if r.status != exitDone {
			break
		}
	}
	t.Logf("%s: status %d\n%s", job, r.status, r.out)
	for _, secret := range []string{forgeToken, bmcSecret, adminToken} {
		if strings.Contains(r.out, secret) {
			t.Errorf("the log of %s has a secret", job)
		}
	}
	return r
}

// markInstall marks the second node.
func markInstall(t *testing.T, dir string) {
	t.Helper()
	file := filepath.Join(dir, "nodes/demo/node-02.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, file, strings.Replace(string(text), "install: false", "install: true", 1))
}

// What docs/gitops.md walks through, with a fleet, a daemon and git as they are; only the
// forge is a stand-in.
func TestTheGitOpsExamplesReviewAndDeploy(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]pipeline{"GitLab": gitlab{}, "GitHub": github{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, p)
			request := p.variables(s.forge.url)
			broken := s.checkout(t, func(dir string) { writeFile(t, filepath.Join(dir, "nodes/demo/node-02.yaml"), "ip: nonsense\n") })
			s.brokenIsTold(t, broken, request)

			// The first push of a request makes a comment, the next one changes it.
			changed := s.checkout(t, func(dir string) { markInstall(t, dir) })
			s.forge.crowd(120, "<!-- provision plan demo -->\nsomebody else's")
			if r := s.work(t, "validate", changed, request); r.status != exitDone {
				t.Errorf("a sound request is refused: status %d", r.status)
			}
			if r := s.work(t, "plan", changed, request); r.status != exitDone {
				t.Errorf("the plan ended with status %d", r.status)
			}
			first := s.forge.ours(t)
			if !strings.Contains(first.Body, "2 to install") || !strings.Contains(first.Body, "| node-02 | install |") {
				t.Errorf("the comment is %s", first.Body)
			}
			s.work(t, "plan", s.checkout(t, func(string) {}), request)
			second := s.forge.ours(t)
			if second.ID != first.ID || !strings.Contains(second.Body, "1 to install") {
				t.Errorf("the second push left comment %d: %s", second.ID, second.Body)
			}
			untouched(t, s.fleet.Machines()...)

			// Merged: the daemon uses the commit, and then the nodes are installed.
			markInstall(t, s.repository.dir)
			merged := s.repository.commit("install node-02", false)
			if r := s.work(t, "deploy", s.repository.dir, p.push(merged)); r.status != exitDone {
				t.Errorf("the deployment ended with status %d", r.status)
			}
			if used := s.daemon.inventory().Generation; used != merged {
				t.Errorf("the daemon uses %s, want %s", used, merged)
			}
			for _, node := range []string{"node-01", "node-02"} {
				if state := s.daemon.node(node); state != "Maintenance" {
					t.Errorf("%s is %q", node, state)
				}
			}
			if files, _ := filepath.Glob(filepath.Join(s.repository.dir, "*token*")); len(files) > 0 {
				t.Errorf("left behind: %v", files)
			}
			s.brokenIsNotDeployed(t, powerOns(s.fleet))
		})
	}
}

// brokenIsTold checks that a request with a mistake fails, with the place of it.
func (s *site) brokenIsTold(t *testing.T, dir string, request map[string]string) {
	t.Helper()
	r := s.work(t, "validate", dir, request)
	told := r.out
	if report, err := os.ReadFile(filepath.Join(dir, "gl-code-quality-report.json")); err == nil {
		told += string(report)
	}
	if r.status != exitUsage || !regexp.MustCompile(`"path": "nodes/demo/node-02.yaml"|::error file=nodes/demo/node-02.yaml,line=1`).MatchString(told) {
		t.Errorf("a broken request: status %d, %s", r.status, told)
	}
}

// brokenIsNotDeployed checks that a commit which the daemon refuses fails, and touches nothing.
func (s *site) brokenIsNotDeployed(t *testing.T, powered []int) {
	t.Helper()
	writeFile(t, filepath.Join(s.repository.dir, "nodes/demo/node-02.yaml"), "ip: nonsense\n")
	r := s.work(t, "deploy", s.repository.dir, s.pipeline.push(s.repository.commit("broken", false)))
	if r.status != exitFailed || !strings.Contains(r.out, "demo/node-02.yaml") {
		t.Errorf("a refused commit: status %d, %s", r.status, r.out)
	}
	if got := powerOns(s.fleet); !slices.Equal(got, powered) {
		t.Errorf("power-ons %v, before the refused commit %v", got, powered)
	}
}

// example is a parsed file of docs/examples/gitops.
func example[T any](t *testing.T, name string) T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(gitopsDir, name))
	if err != nil {
		t.Fatal(err)
	}
	var parsed T
	if err := yaml.Unmarshal(text, &parsed); err != nil {
		t.Fatal(err)
	}
	return parsed
}

// gitlab runs the lines of a job's script as one, as its shell runner does.
type gitlab struct{}

func (gitlab) steps(t *testing.T, job string) []step {
	t.Helper()
	jobs := example[map[string]yaml.Node](t, "gitlab-ci.yml")
	var j struct{ Script []string }
	node := jobs[job]
	if err := node.Decode(&j); err != nil || len(j.Script) == 0 {
		t.Fatalf("the job %s: %v", job, err)
	}
	return []step{{script: strings.Join(j.Script, "\n")}}
}

func (gitlab) variables(api string) map[string]string {
	return map[string]string{"CI_API_V4_URL": api + "/api/v4", "CI_PROJECT_ID": "42", "CI_MERGE_REQUEST_IID": "5", "PLAN_COMMENT_TOKEN": forgeToken}
}

func (gitlab) push(commit string) map[string]string {
	return map[string]string{"CI_COMMIT_SHA": commit}
}

// github runs each step by itself.
type github struct{}

func (github) steps(t *testing.T, job string) []step {
	t.Helper()
	type githubJob struct {
		Env   map[string]string
		Steps []struct {
			Run  string
			Uses string
			Env  map[string]string
		}
	}
	workflow := example[struct{ Jobs map[string]githubJob }](t, "github-actions.yml")
	j, known := workflow.Jobs[job]
	if !known {
		t.Fatalf("there is no job %s", job)
	}
	var steps []step
	for _, s := range j.Steps {
		if s.Run == "" {
			continue
		}
		env := map[string]string{}
		for _, set := range []map[string]string{j.Env, s.Env} {
			for name, value := range set {
				env[name] = githubValue(t, value)
			}
		}
		if env["PROVISION_SERVER"] == "" {
			delete(env, "PROVISION_SERVER")
		}
		steps = append(steps, step{s.Run, env})
	}
	return steps
}

// githubValue evaluates the expressions of the example.
func githubValue(t *testing.T, value string) string {
	t.Helper()
	values := map[string]string{
		"${{ matrix.cluster }}": "demo", "${{ secrets.BMC_PASSWORD }}": bmcSecret, "${{ github.token }}": forgeToken,
		"${{ github.event.pull_request.number }}": "5", "${{ vars.PROVISION_SERVER }}": "", "${{ secrets.PROVISION_TOKEN }}": adminToken,
	}
	evaluated, known := values[value]
	if !known {
		t.Fatalf("no value is known for %s", value)
	}
	return evaluated
}

func (github) variables(api string) map[string]string {
	return map[string]string{"GITHUB_API_URL": api, "GITHUB_REPOSITORY": "fleet/site", "PROVISION_SERVER": ""}
}

func (github) push(commit string) map[string]string { return map[string]string{"GITHUB_SHA": commit} }
