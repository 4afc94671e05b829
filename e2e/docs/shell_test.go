package docs

import (
	"regexp"
	"slices"
	"strings"
)

// command is a line that a page tells people to type.
type command struct {
	snippet
	text  string // the line as a shell takes it, continued lines joined
	shown string // the output that a console block shows under it
	first bool   // of its block
}

// programs are those with which an unlabelled block of commands begins.
var programs = []string{
	"apt", "apt-get", "bin/provision", "cd", "cp", "curl", "cosign", "dnsmasq", "docker", "dpkg", "export", "git", "go", "grep", "helm", "journalctl",
	"kubectl", "make", "mkdir", "podman", "buildah", "provision", "sudo", "systemctl", "talosctl",
}

var (
	shells  = []string{"sh", "bash", "shell"}
	prompt  = regexp.MustCompile(`^[$#] `)
	heredoc = regexp.MustCompile(`<<-?\s*['"]?(\w+)['"]?`)
	comment = regexp.MustCompile(`(^|\s+)#\s.*$`)
)

// commands are those of a block; none when it is something else.
func commands(s snippet) []command {
	if s.inline {
		return nil
	}
	lines := strings.Split(strings.TrimRight(s.text, "\n"), "\n")
	lang := s.lang
	if lang == "" {
		word, _, _ := strings.Cut(lines[0], " ")
		switch {
		case strings.HasPrefix(lines[0], "$ "):
			lang = "console"
		case slices.Contains(programs, word):
			lang = "sh"
		}
	}
	if lang != "console" && !slices.Contains(shells, lang) {
		return nil
	}
	var all []command
	for i := 0; i < len(lines); i++ {
		at, text := i, lines[i]
		if lang == "console" {
			if !prompt.MatchString(text) {
				if len(all) > 0 {
					all[len(all)-1].shown += text + "\n"
				}
				continue
			}
			text = text[2:]
		}
		if strings.TrimSpace(comment.ReplaceAllString(text, "")) == "" {
			continue
		}
		for strings.HasSuffix(text, `\`) && i+1 < len(lines) {
			i++
			text = strings.TrimSuffix(text, `\`) + " " + strings.TrimSpace(strings.TrimPrefix(lines[i], "> "))
		}
		if end := heredoc.FindStringSubmatch(text); end != nil {
			for i+1 < len(lines) && strings.TrimSpace(lines[i]) != end[1] {
				i++
				text += "\n" + lines[i]
			}
		} else {
			text = strings.TrimSpace(comment.ReplaceAllString(text, ""))
		}
		c := command{snippet: s, text: text, first: len(all) == 0}
		c.line += at
		all = append(all, c)
	}
	return all
}

var (
	substituted = regexp.MustCompile(`\$\([^)]*\)`)
	redirected  = regexp.MustCompile(`\s[0-9]?>>?\s*\S+|\s<\s*\S+`)
	separators  = regexp.MustCompile(`&&|\|\||;|\n|\s&(\s|$)|\s\|\s`)
	assigned    = regexp.MustCompile(`^[A-Z_]+=`)
)

// invocations are the command lines of one program within a line of shell, without its name.
func invocations(line, program string) [][]string {
	line = redirected.ReplaceAllString(substituted.ReplaceAllString(line, "x"), "")
	var all [][]string
	for _, part := range separators.Split(line, -1) {
		args := words(part)
		for len(args) > 0 && (args[0] == "sudo" || args[0] == "-E" || args[0] == "exec" || args[0] == "time" || assigned.MatchString(args[0])) {
			args = args[1:]
		}
		if len(args) > 0 && (args[0] == program || strings.HasSuffix(args[0], "/"+program)) {
			all = append(all, args[1:])
		}
	}
	return all
}

// words splits a command line at blanks, as far as quotes allow.
func words(line string) []string {
	var all []string
	var word strings.Builder
	quote, in := rune(0), false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, in = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			if in {
				all = append(all, word.String())
				word.Reset()
			}
			in = false
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if in {
		all = append(all, word.String())
	}
	return all
}
