package machineconfig

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/talos-provision/provision/inventory"
)

// valuesOf is what a template sees of a node: what the inventory sets, named as
// in its files (.talosVersion, .labels.role) and as Go names it (.TalosVersion).
// What is not set is not there, so that using it is an error: a config with a
// hole in it would be taken by Talos. The account of the BMC is left out.
func valuesOf(n inventory.Node) map[string]any {
	values := map[string]any{"labels": labels(n), "Labels": labels(n), "id": n.ID(), "ID": n.ID()}
	node := reflect.ValueOf(n)
	for i := range node.NumField() {
		field := node.Type().Field(i)
		if !field.IsExported() || node.Field(i).IsZero() && field.Type.Kind() != reflect.Bool {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch field.Type.Kind() {
		case reflect.String, reflect.Bool, reflect.Slice:
			values[name], values[field.Name] = node.Field(i).Interface(), node.Field(i).Interface()
		default: // labels are there, bmc and schematic are no values of a machine config
		}
	}
	derive(values, n)
	return values
}

// derive adds what a machine config writes in another form than the inventory.
func derive(values map[string]any, n inventory.Node) {
	if bits, ok := inventory.MaskBits(n.Netmask); ok && n.IP != "" {
		values["cidr"] = fmt.Sprintf("%s/%d", n.IP, bits)
	}
	if gateway, err := netip.ParseAddr(n.Gateway); err == nil {
		values["defaultRoute"] = "0.0.0.0/0"
		if gateway.Is6() {
			values["defaultRoute"] = "::/0"
		}
	}
}

func labels(n inventory.Node) map[string]string {
	if n.Labels == nil {
		return map[string]string{}
	}
	return n.Labels
}

// fill executes a template over a node's values. The error is an atLine and
// repeats nothing but names of the template.
func fill(name string, text []byte, n inventory.Node) ([]byte, error) {
	values := valuesOf(n)
	functions := template.FuncMap{
		// has tells whether the inventory sets a value.
		"has": func(key string) bool { _, there := values[key]; return there },
	}
	t, err := template.New(name).Option("missingkey=error").Funcs(functions).Parse(string(text))
	if err != nil {
		return nil, misreadTemplate(name, err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, values); err != nil {
		return nil, misfilled(name, err, values, n)
	}
	return out.Bytes(), nil
}

var (
	lineOfTemplate  = regexp.MustCompile(`^:(\d+)(?::\d+)?: `)
	missingKey      = regexp.MustCompile(`map has no entry for key "([^"]*)"$`)
	unknownFunction = regexp.MustCompile(`^function "(\w+)" not defined$`)
)

// lineIn takes the line out of a template's error.
func lineIn(name string, err error) (line int, message string) {
	message = strings.TrimPrefix(err.Error(), "template: "+name)
	if m := lineOfTemplate.FindStringSubmatch(message); m != nil {
		line, _ = strconv.Atoi(m[1])
		message = message[len(m[0]):]
	}
	return max(line, 1), message
}

func misreadTemplate(name string, err error) error {
	line, message := lineIn(name, err)
	hint := "correct the part between {{ and }}"
	if m := unknownFunction.FindStringSubmatch(message); m != nil {
		message = "there is no function " + m[1]
		hint = "a value of the node begins with a dot, like {{ .name }}"
	}
	return hinted{atLine{line, "it is no valid template: " + withoutValues(message)}, hint}
}

func misfilled(name string, err error, values map[string]any, n inventory.Node) error {
	line, message := lineIn(name, err)
	if m := missingKey.FindStringSubmatch(message); m != nil {
		hint := fmt.Sprintf("set it, or leave the part out with {{ if has %q }}; set are %s", m[1], strings.Join(namesOf(values), ", "))
		if _, isLabel := n.Labels[m[1]]; isLabel {
			hint = fmt.Sprintf("did you mean .labels.%s?", m[1])
		}
		return hinted{atLine{line, fmt.Sprintf("%s has no value for %s", n.ID(), m[1])}, hint}
	}
	// What else can fail is a function on a value that does not suit it.
	return hinted{atLine{line, "it cannot be filled in for " + n.ID()}, "correct the part between {{ and }}"}
}

// namesOf are the names as the inventory spells them.
func namesOf(values map[string]any) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if name[0] >= 'a' && name[0] <= 'z' {
			names = append(names, name)
		}
	}
	return names
}
