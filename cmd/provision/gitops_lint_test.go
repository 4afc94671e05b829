package main

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/talos-provision/provision/e2e/needs"
)

func lint(t *testing.T, name string, args ...string) {
	t.Helper()
	needs.Program(t, name)
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
}

func TestTheGitOpsExamplesAreLinted(t *testing.T) {
	t.Parallel()
	files := []string{filepath.Join(gitopsDir, "gitlab-ci.yml"), filepath.Join(gitopsDir, "github-actions.yml")}
	lint(t, "yamllint", append([]string{"--strict", "-d", "{extends: default, rules: {line-length: {max: 140}, truthy: {check-keys: false}}}"}, files...)...)
	lint(t, "go", "tool", "-modfile=../../tools/actionlint/go.mod", "actionlint", files[1])
}

// Bash is what the scripts are written for; shellcheck reads them as they are run.
func TestTheScriptsOfTheGitOpsExamplesAreLinted(t *testing.T) {
	t.Parallel()
	needs.Program(t, "shellcheck")
	for _, p := range []pipeline{gitlab{}, github{}} {
		for _, job := range []string{"validate", "plan", "deploy"} {
			for i, s := range p.steps(t, job) {
				file := filepath.Join(t.TempDir(), fmt.Sprintf("%T-%s-%d.sh", p, job, i))
				writeFile(t, file, "#!/bin/bash\n"+s.script+"\n")
				lint(t, "shellcheck", file)
			}
		}
	}
}

// gitlabKeys are the keywords of a job that the example uses, as GitLab documents them.
var gitlabKeys = []string{"stage", "script", "rules", "environment", "parallel", "resource_group", "interruptible", "allow_failure", "artifacts", "timeout"}

// GitLab itself is not here to say whether the file is sound, so it is held to a narrow form.
func TestTheGitLabExampleIsAPipeline(t *testing.T) {
	t.Parallel()
	file := example[map[string]yaml.Node](t, "gitlab-ci.yml")
	type rule struct {
		If string `yaml:"if"`
	}
	type job struct {
		Stage         string
		Script        []string
		Rules         []rule
		Environment   map[string]string
		ResourceGroup string `yaml:"resource_group"`
		Interruptible *bool
		Parallel      struct{ Matrix []map[string][]string }
	}
	stages := example[struct{ Stages []string }](t, "gitlab-ci.yml").Stages
	if !slices.Equal(stages, []string{"validate", "plan", "deploy"}) {
		t.Errorf("stages %v", stages)
	}
	if names := slices.Sorted(maps.Keys(file)); !slices.Equal(names, []string{"default", "deploy", "plan", "stages", "validate", "workflow"}) {
		t.Errorf("the file has %v", names)
	}
	jobs := map[string]job{}
	for _, name := range stages {
		node := file[name]
		for i := 0; i < len(node.Content); i += 2 {
			if key := node.Content[i].Value; !slices.Contains(gitlabKeys, key) {
				t.Errorf("the job %s has the keyword %s", name, key)
			}
		}
		var j job
		if err := node.Decode(&j); err != nil {
			t.Fatalf("the job %s: %v", name, err)
		}
		if j.Stage != name || len(j.Script) == 0 {
			t.Errorf("the job %s is of the stage %s, with %d lines", name, j.Stage, len(j.Script))
		}
		jobs[name] = j
	}
	plan, deploy := jobs["plan"], jobs["deploy"]
	for name, j := range map[string]job{"plan": plan, "deploy": deploy} {
		if !strings.HasSuffix(j.ResourceGroup, "-$CLUSTER") || j.Interruptible == nil || *j.Interruptible || len(j.Parallel.Matrix) != 1 || j.Environment["name"] == "" {
			t.Errorf("the job %s may run beside itself, or be cut short: %+v", name, j)
		}
	}
	if len(plan.Rules) != 1 || !strings.Contains(plan.Rules[0].If, "$CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_PROJECT_ID") {
		t.Errorf("a fork's request is planned: %+v", plan.Rules)
	}
	if len(deploy.Rules) != 1 || deploy.Rules[0].If != "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH" {
		t.Errorf("deployed is not the default branch alone: %+v", deploy.Rules)
	}
}

// A secret stands in no argument list, which every user of the runner can read.
func TestTheGitOpsExamplesGiveNoSecretAsAnArgument(t *testing.T) {
	t.Parallel()
	secret := regexp.MustCompile(`\$\{?(PLAN_COMMENT_TOKEN|GITHUB_TOKEN|PROVISION_TOKEN|BMC_PASSWORD)\b`)
	for _, p := range []pipeline{gitlab{}, github{}} {
		for _, job := range []string{"validate", "plan", "deploy"} {
			for _, s := range p.steps(t, job) {
				for line := range strings.Lines(s.script) {
					if secret.MatchString(line) && !strings.HasPrefix(strings.TrimSpace(line), "printf ") {
						t.Errorf("%T, %s: %s", p, job, line)
					}
				}
			}
		}
	}
}
