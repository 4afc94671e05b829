package docs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommandsAreFoundInMarkdown(t *testing.T) {
	t.Parallel()
	page := "Text with `provision plan\n--cluster a`.\n\n```sh\n# a comment\nprovision plan \\\n  --cluster a   # why\ncat > f <<END\n# kept\nEND\n```\n\n" +
		"1. In a list:\n\n   ```\n   make build\n   ```\n\n```console\n$ provision version\nprovision dev\n$ provision status\n```\n\n" +
		"=== \"a tab\"\n\n    ```bash\n    cd /tmp\n    ```\n\n```\nplain text\n```\n"
	type found struct {
		Line        int
		Text, Shown string
		First       bool
	}
	var got []found
	for _, s := range parse("page.md", []byte(page), 0) {
		if s.inline {
			got = append(got, found{s.line, s.text, "", false})
		}
		for _, c := range commands(s) {
			got = append(got, found{c.line, c.text, c.shown, c.first})
		}
	}
	want := []found{
		{1, "provision plan --cluster a", "", false},
		{6, "provision plan  --cluster a", "", true},
		{8, "cat > f <<END\n# kept\nEND", "", false},
		{16, "make build", "", true},
		{20, "provision version", "provision dev\n", true},
		{22, "provision status", "", false},
		{28, "cd /tmp", "", true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

func TestInvocationsAreFoundInALineOfShell(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][][]string{
		"provision plan --cluster a":                            {{"plan", "--cluster", "a"}},
		"sudo -E bin/provision --node 'node-[01-02]' > out.txt": {{"--node", "node-[01-02]"}},
		"mkdir x && provision state backup $(date +%F).backup":  {{"state", "backup", "x.backup"}},
		"BMC=1 provision plan | grep provision; provision x":    {{"plan"}, {"x"}},
		"echo provision": nil,
	} {
		if diff := cmp.Diff(want, invocations(line, "provision")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}
