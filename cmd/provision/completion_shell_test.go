package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/needs"
)

// shellLines are typed in each of the shells in docs/, with Tab at the end. In the folder
// lie docs/examples/nodes, as `nodes`, and a provision.yaml.
var shellLines = []struct {
	line string
	want []string
}{
	{"provision upg", []string{"upgrade"}},
	{"provision inventory sh", []string{"show"}},
	{"provision plan --cluster ", []string{"k8s-prod"}},
	{"provision hold --cluster k8s-prod node-0", []string{"node-01", "node-02", "node-03", "node-04"}},
	{"provision bmc power off --node node-01,node-02,node-03,", []string{"node-01,node-02,node-03,node-04"}},
	{"provision status -o ", []string{"json", "table"}},
	{"provision inventory validate -o gi", []string{"github", "gitlab"}},
	{"provision status --selector si", []string{"site"}},
	{"provision --until ins", []string{"installed"}},
	{"provision --config prov", []string{"provision.yaml"}},
	{"provision hold --cluster nowhere n", nil},
}

// shellWorld is a folder with the example inventory, and a path with `provision` in it.
func shellWorld(t *testing.T) (dir string, env []string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "nodes"), os.DirFS("../../docs/examples/nodes")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "provision.yaml"), "inventory: nodes\n")
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(bin, "provision")
	writeFile(t, program, fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", asProvision, self))
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_DATA_HOME="+home, "LC_ALL=C.UTF-8", "TERM=xterm")
}

// inShell runs a script of a shell and returns what it wrote.
func inShell(t *testing.T, program string, args ...string) string {
	t.Helper()
	needs.Program(t, program)
	dir, env := shellWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience) // each Tab is a process, and hosts are busy
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, env
	var told strings.Builder
	cmd.Stderr = &told
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", program, err, out, told.String())
	}
	return string(out)
}

// checkShell compares what a shell offered, "=line" and then a word a line.
func checkShell(t *testing.T, out string) {
	t.Helper()
	offered := map[string][]string{}
	line := ""
	for text := range strings.Lines(out) {
		text = strings.TrimRight(text, "\r\n")
		if rest, is := strings.CutPrefix(text, "="); is {
			line = rest
			offered[line] = []string{}
		} else if text = strings.TrimSpace(text); text != "" {
			offered[line] = append(offered[line], text)
		}
	}
	for _, l := range shellLines {
		words := offered[l.line]
		if words == nil {
			t.Errorf("%q was not asked: %s", l.line, out)
			continue
		}
		slices.Sort(words)
		if diff := cmp.Diff(append([]string{}, l.want...), words); diff != "" {
			t.Errorf("%q (-want +offered):\n%s", l.line, diff)
		}
	}
}

// quotedLines are the lines as words of a shell.
func quotedLines() string {
	quoted := make([]string, 0, len(shellLines))
	for _, l := range shellLines {
		quoted = append(quoted, "'"+l.line+"'")
	}
	return strings.Join(quoted, " ")
}

func TestBashCompletes(t *testing.T) {
	t.Parallel()
	const library = "/usr/share/bash-completion/bash_completion"
	if _, err := os.Stat(library); err != nil {
		needs.Lacking(t, "bash-completion is missing: run e2e/deps.sh")
	}
	checkShell(t, inShell(t, "bash", "--norc", "-c", `
. `+library+`
. <(provision completion bash)
function=$(complete -p provision | sed 's/.*-F \([^ ]*\).*/\1/')
compopt() { :; }                                  # works within a completion that readline began only
for line in `+quotedLines()+`; do
	echo "=$line"
	read -ra COMP_WORDS <<< "$line"
	case $line in *' ') COMP_WORDS+=('');; esac
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$line COMP_POINT=${#line} COMP_TYPE=9 COMP_KEY=9 COMPREPLY=()
	"$function" provision "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
	for word in "${COMPREPLY[@]}"; do eval "echo ${word%% *}"; done # escaped as a line is
done`))
}

func TestFishCompletes(t *testing.T) {
	t.Parallel()
	checkShell(t, inShell(t, "fish", "--no-config", "-c", `
provision completion fish | source
for line in `+quotedLines()+`
	echo "=$line"
	# "word." beside "word" keeps fish from putting a space behind it.
	complete -C "$line" | string replace -r '\t.*' '' | string match -rv '^\w+\.$'
end
true`))
}

// zsh completes in an interactive shell only, so one is run in a terminal of zsh's own. What
// is offered is what compadd would add.
func TestZshCompletes(t *testing.T) {
	t.Parallel()
	checkShell(t, inShell(t, "zsh", "-f", "-c", `
zmodload zsh/zpty
provision completion zsh > _provision
zpty z zsh -f -i
read_until() { local text; zpty -r -m z text "*$1*" && REPLY=$text }
zpty -w z "PS1= PS2= RPS1=; unsetopt zle_bracketed_paste; stty -echo; fpath=(\$PWD \$fpath); autoload -Uz compinit; compinit -u -D; unset zle_bracketed_paste"
zpty -w z 'compadd() {
	local -a found
	builtin compadd -O found "$@" 2>/dev/null
	printf "%s\n" "<<" "${(@)found}" ">>" >> offered
	builtin compadd "$@"
}
tab() { zle complete-word; BUFFER=; print -r -- "<done $((++lines))>" }
zle -N tab; bindkey "^I" tab; print ready-\now'
read_until ready-now
integer lines=0
for line in `+quotedLines()+`; do
	print -r -- "=$line"
	: > offered
	zpty -w -n z "$line"$'\t'
	read_until "<done $((++lines))>"
	grep -vx -e '<<' -e '>>' -e '' offered | sort -u
done
zpty -d z
exit 0`))
}
