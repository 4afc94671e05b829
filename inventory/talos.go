package inventory

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// talosMinor is what is known of a minor version of Talos.
type talosMinor struct {
	minor    int        // of 1.x
	required []argument // of the kernel command line
}

// argument is a kernel argument that must have a value. Talos looks at the
// first occurrence of the key.
type argument struct{ key, value string }

// String is the argument as it is written.
func (a argument) String() string {
	if a.value == "" {
		return a.key
	}
	return a.key + "=" + a.value
}

// metalArgs are what Talos needs on metal: it does not know where it is without
// the platform, and machined refuses to go on without the other two (KSPP;
// pkg/kernel/kspp in Talos).
var metalArgs = []argument{{"talos.platform", "metal"}, {"slab_nomerge", ""}, {"pti", "on"}}

// talosMinors are the supported versions, oldest first.
var talosMinors = []talosMinor{
	{9, metalArgs}, {10, metalArgs}, {11, metalArgs}, {12, metalArgs}, {13, metalArgs}, {14, metalArgs},
}

// supportedRange names the versions for people.
func supportedRange() string {
	return fmt.Sprintf("v1.%d to v1.%d", talosMinors[0].minor, talosMinors[len(talosMinors)-1].minor)
}

var versionPattern = regexp.MustCompile(`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(?:0|[1-9][0-9]*)(?:-[0-9A-Za-z.-]+)?$`)

// talosMinorOf finds a version in the table.
func talosMinorOf(version string) (talosMinor, bool) {
	m := versionPattern.FindStringSubmatch(version)
	if m == nil || m[1] != "1" {
		return talosMinor{}, false
	}
	minor, err := strconv.Atoi(m[2])
	i := slices.IndexFunc(talosMinors, func(t talosMinor) bool { return t.minor == minor })
	if err != nil || i < 0 {
		return talosMinor{}, false
	}
	return talosMinors[i], true
}

func checkTalosVersion(v string) *problem {
	if !versionPattern.MatchString(v) {
		return wrong(RuleVersion, "write it like v1.13.9", "%q is not a Talos version", v)
	}
	if _, supported := talosMinorOf(v); !supported {
		return wrong(RuleUnsupported, "write a version from "+supportedRange(), "%q is not supported", v)
	}
	return nil
}

// argsSuffice: a machine that is started without these arguments hangs where
// nobody sees it.
func argsSuffice(n Node) Findings {
	if n.KernelArgs == "" {
		return nil // see argsGiven
	}
	missing, hint := n.missingArgs()
	if missing == "" {
		return nil
	}
	return n.report(RuleMissingArgument, "kernelArgs", hint, "%s", missing)
}

// argsGiven: the same, when there are none at all.
func argsGiven(n Node) Findings {
	if n.KernelArgs != "" {
		return nil
	}
	missing, hint := n.missingArgs()
	if missing == "" {
		return nil
	}
	return n.reportNode(RuleMissingArgument, "install", hint, "%s is marked install, but %s", n.Name, missing)
}

// missingArgs says which arguments the node's version of Talos lacks, and what to
// do; "" if none, or if the node is not to be installed or boots a signed image.
func (n Node) missingArgs() (message, hint string) {
	version, known := talosMinorOf(n.TalosVersion)
	if !n.Install || !known || n.SecureBoot { // the signed image has them
		return "", ""
	}
	given := make(map[string]string)
	for arg := range strings.FieldsSeq(n.KernelArgs) {
		key, value, _ := strings.Cut(arg, "=")
		if _, again := given[key]; !again {
			given[key] = value
		}
	}
	var missing []string
	for _, needed := range version.required {
		if value, has := given[needed.key]; !has || value != needed.value {
			missing = append(missing, needed.String())
		}
	}
	pronoun := "it"
	switch len(missing) {
	case 0:
		return "", ""
	case 1:
	default:
		pronoun = "them"
	}
	return fmt.Sprintf("Talos %s does not boot on metal without %s", n.TalosVersion, some(missing)),
		"add " + pronoun + " to kernelArgs, here or in a _defaults.yaml"
}
