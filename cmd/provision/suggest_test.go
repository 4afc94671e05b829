package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestMistypedWordsAreAnsweredByWhatWasMeant(t *testing.T) {
	t.Parallel()
	dir := completionInventory(t)
	for line, want := range map[string]string{
		"upgade":                             "unknown command \"upgade\" for \"provision\": did you mean `provision upgrade`?",
		"inventory valdate":                  "did you mean `provision inventory validate`?",
		"bmc power cylce":                    "did you mean `provision bmc power cycle`?",
		"cluster heatlh":                     "did you mean `provision cluster health`?",
		"validate":                           "did you mean `provision inventory validate`?",
		"bmc upgrade":                        "did you mean `provision upgrade`?",
		"k8s-prod":                           "did you mean `provision --cluster k8s-prod`?",
		"xyzzy":                              "`provision --help` lists the commands",
		"plan k8s-prod":                      "did you mean --cluster k8s-prod?",
		"status db-01":                       "did you mean --node db-01?",
		"status of":                          `"provision status" takes no arguments, and was given "of"`,
		"release":                            "provision release NODE --cluster NAME",
		"hold a b":                           "provision hold NODE --cluster NAME",
		"plan --clutser k8s-prod":            "unknown flag: --clutser: did you mean --cluster?",
		"--clutser k8s-prod":                 "did you mean --cluster?",
		"plan -cluster k8s-prod":             "did you mean --cluster?",
		"upgrade --max-unavailabl 2":         "did you mean --max-unavailable?",
		"bmc info --adddress 10.0.0.1":       "did you mean --address?",
		"status --canary node-01":            "it is a flag of `provision upgrade`",
		"status --follow":                    "it is a flag of `provision events`",
		"status --xyzzy":                     "see `provision status --help`",
		"status -x":                          "see `provision status --help`",
		"plan --cluster":                     "see `provision plan --help`",
		"plan --cluster k8s-prd":             "did you mean k8s-prod?",
		"plan --cluster k8s-prod --node d01": "did you mean db-01?",
		"--cluster k8s-prod --exclude db-1":  "did you mean db-01?",
		"inventory show --node node-2":       "did you mean node-0",
		"cluster health k8s-prd":             "did you mean k8s-prod?",
		"status --cluster k8s-prd":           "did you mean k8s-prod?",
		"events --follow --cluster k8s-prd":  "did you mean k8s-prod?",
		"status -l rol=worker":               "did you mean role?",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			args := append(strings.Fields(line), "--inventory", dir, "--state", filepath.Join(dir, "none"))
			if strings.HasSuffix(line, "--cluster") {
				args = strings.Fields(line)
			}
			r := provision(t, args...)
			if r.status != exitUsage || !strings.Contains(r.err, want) || r.out != "" {
				t.Errorf("status %d, output %q, error %q; want %d and %q", r.status, r.out, r.err, exitUsage, want)
			}
		})
	}
}

// A suggestion looks at names only: what a password is made of stays where it is (I9).
func TestI9ASuggestionReadsNoSecret(t *testing.T) {
	t.Parallel()
	dir := completionInventory(t)
	mark := filepath.Join(t.TempDir(), "was-run")
	writeFile(t, filepath.Join(dir, "k8s-prod/node-02.yaml"), "bmc: {address: 10.0.0.1, passwordCommand: [touch, "+mark+"]}\n")
	for _, args := range [][]string{{"plan", "--cluster", "k8s-prd"}, {"nod-02"}, {"__complete", "hold", ""}, {"__complete", "status", "-l", ""}} {
		provision(t, append([]string{"--inventory", dir}, args...)...)
	}
	if found, _ := filepath.Glob(mark); len(found) > 0 {
		t.Error("the command of a password was run")
	}
}
