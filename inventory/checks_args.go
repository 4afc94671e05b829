package inventory

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// argRules judge one kernel argument each.
var argRules = []func(arg string) *problem{argForOmni, argIsBootable, argConfig}

func checkKernelArgs(v string) *problem {
	if i := strings.IndexFunc(v, func(r rune) bool { return (r < ' ' || r > '~') && !strings.ContainsRune("\t\r\n", r) }); i >= 0 {
		r := []rune(v[i:])[0]
		if r < ' ' || r == '\x7f' {
			return wrong(RuleUnbootable, "remove it", "contains a control character")
		}
		return wrong(RuleUnbootable, "write it in ASCII", "contains %q, which does not reach the kernel", string(r))
	}
	for arg := range strings.FieldsSeq(v) {
		for _, rule := range argRules {
			if p := rule(arg); p != nil {
				return p
			}
		}
	}
	return nil
}

func argForOmni(arg string) *problem {
	if !strings.HasPrefix(arg, "siderolink.api=") {
		return nil
	}
	return wrong(RuleOmni, "remove it: a node that joins Omni never shows the maintenance API that confirms it",
		"contains siderolink.api=")
}

// argIsBootable refuses what iPXE takes for itself: it has no quoting (ipxe
// src/core/exec.c).
func argIsBootable(arg string) *problem {
	switch {
	case slices.Contains([]string{"||", "&&", ";"}, arg):
		return wrong(RuleUnbootable, "remove it", "contains %q, which ends the command in iPXE", arg)
	case strings.HasPrefix(arg, "#"):
		return wrong(RuleUnbootable, "remove it", "contains %q, which begins a comment in iPXE", arg)
	case strings.Contains(arg, "${") && !strings.HasPrefix(arg, "talos.config="):
		return wrong(RuleUnbootable, "write the value itself", "contains %q, in which iPXE would replace ${", arg)
	}
	return nil
}

// configVariables are what Talos replaces in the query of talos.config=, in any
// case (platform/metal/url in Talos).
var configVariables = []string{"uuid", "serial", "mac", "hostname", "code"}

var variablePattern = regexp.MustCompile(`\$\{([^}]*)\}`)

// argConfig: Talos takes talos.config=metal-iso or an HTTP URL, and replaces
// variables in the values of its query only; those in the path are sent as they
// are (talos#10225). The value is not repeated: it may hold a secret (I9).
func argConfig(arg string) *problem {
	value, is := strings.CutPrefix(arg, "talos.config=")
	if !is || value == "metal-iso" {
		return nil
	}
	before, query, _ := strings.Cut(value, "?")
	if strings.Contains(before, "${") {
		return wrong(RuleTalosConfig, "put it into the query, like http://10.0.0.1/config?uuid=${uuid}",
			"has a variable in the path of talos.config=, where Talos does not replace it")
	}
	for _, m := range variablePattern.FindAllStringSubmatch(query, -1) {
		if !slices.Contains(configVariables, strings.ToLower(m[1])) {
			return wrong(RuleTalosConfig, "Talos knows ${"+strings.Join(configVariables, "}, ${")+"}",
				"has the variable %q in talos.config=, which Talos does not know", "${"+m[1]+"}")
		}
	}
	u, err := url.Parse(before)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return wrong(RuleTalosConfig, "write talos.config=https://HOST/PATH or talos.config=metal-iso",
			"has a talos.config= that is neither an HTTP URL nor metal-iso")
	case u.User != nil:
		p := wrong(RuleClearPassword, "remove it and change the password: kernel arguments are given to everybody in the provisioning network",
			"has a user or a password in talos.config=")
		p.secret = true
		return p
	}
	return nil
}

// bootLoaderArgs is what the boot loader adds to the line, and the NUL behind it.
const bootLoaderArgs = len(" initrd=initramfs.xz") + 1

// commandLineFits: what the other rules accept gives a command line that the
// kernel takes.
func commandLineFits(n Node) Findings {
	if len(oneLine(n.KernelArgs)) < maxCommandLine/2 {
		return nil // the network part is far shorter than the rest
	}
	line, err := n.KernelCommandLine()
	if err == nil && len(line)+bootLoaderArgs > maxCommandLine {
		err = fmt.Errorf("kernel command line of %s has %d bytes, and with the %d of the boot loader more than the %d that the kernel takes: shorten kernelArgs",
			n.Name, len(line), bootLoaderArgs, maxCommandLine)
	}
	if err != nil {
		return n.report(RuleCommandLine, "kernelArgs", "", "%v", err)
	}
	return nil
}
