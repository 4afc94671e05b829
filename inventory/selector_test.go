package inventory_test

import (
	"strings"
	"testing"

	"github.com/talos-provision/provision/inventory"
)

func TestSelector(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"role": "worker", "zone": "a", "rack": "r1", "example.com/pool": "x", "empty": ""}
	for text, want := range map[string]bool{
		"role=worker": true, "role==worker": true, "role=control": false, "role!=control": true, "role!=worker": false,
		"role": true, "!role": false, "!spare": true, "spare": false, "spare=yes": false, "spare!=yes": true,
		"rack in (r1,r2)": true, "rack in ( r2 , r3 )": false, "rack notin (r2)": true, "spare notin (r2)": true, "rack in (r1)": true,
		"role=worker,zone!=b": true, "role=worker, zone=b": false, "role=worker,rack in (r1,r9),!spare": true, "example.com/pool=x": true,
		"empty=": true, "empty": true, "zone=": false,
	} {
		s, err := inventory.ParseSelector(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := s.Matches(labels); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestSelectorRefuses(t *testing.T) {
	t.Parallel()
	const form = "write it like role=worker,zone!=b,rack in (r1,r2),!spare"
	for text, want := range map[string]string{
		"":               `selector "": "" is not a condition: ` + form,
		"role=worker,":   `selector "role=worker,": "" is not a condition: ` + form,
		"a=b=c":          `selector "a=b=c": "a=b=c" is not a condition: ` + form,
		"a in b":         `selector "a in b": "a in b" is not a condition: ` + form,
		"a in (b":        `selector "a in (b": a parenthesis is not closed: ` + form,
		"a)":             `selector "a)": the parentheses do not match: ` + form,
		"!a=b":           `selector "!a=b": "!a=b" is not a condition: write a!=b or !a`,
		"role worker":    `selector "role worker": "role worker" is not a condition: ` + form,
		"a >= 5":         `selector "a >= 5": "a >= 5" is not a condition: ` + form,
		"a in ((b),(c))": `selector "a in ((b),(c))": the parentheses do not match: ` + form,
	} {
		if s, err := inventory.ParseSelector(text); err == nil || err.Error() != want {
			t.Errorf("%q gives %v and error\n %v, want\n %s", text, s, err, want)
		}
	}
}

func labelled(t *testing.T) *inventory.Tree {
	t.Helper()
	return clean(t, map[string]string{
		"dev/_defaults.yaml": "labels: {role: worker, zone: a}\n",
		"dev/node-01.yaml":   "labels: {role: control}\n", "dev/node-02.yaml": "", "dev/node-03.yaml": "labels: {zone: b}\n",
		"prod/node-01.yaml": "labels: {role: worker, zone: b}\n",
	})
}

func TestSelectBySelectorAndExclude(t *testing.T) {
	t.Parallel()
	loaded := labelled(t)
	for _, test := range []struct {
		selection inventory.Selection
		want      string
	}{
		{inventory.Selection{Selector: "role=worker"}, "dev/node-02 dev/node-03 prod/node-01"},
		{inventory.Selection{Selector: "role=worker,zone!=b"}, "dev/node-02"},
		{inventory.Selection{Cluster: "dev", Selector: "role=worker"}, "dev/node-02 dev/node-03"},
		{inventory.Selection{Nodes: []string{"node-[01-02]"}, Selector: "role=worker"}, "dev/node-02 prod/node-01"},
		{inventory.Selection{Exclude: []string{"dev/*"}}, "prod/node-01"},
		{inventory.Selection{Cluster: "dev", Exclude: []string{"node-01,node-02"}}, "dev/node-03"},
		{inventory.Selection{Cluster: "dev", Exclude: []string{"prod/node-01"}}, "dev/node-01 dev/node-02 dev/node-03"},
		{inventory.Selection{Nodes: []string{"node-0*"}, Selector: "zone in (a,c)", Exclude: []string{"node-01"}}, "dev/node-02"},
	} {
		nodes, err := loaded.Select(test.selection)
		if err != nil {
			t.Errorf("%+v: %v", test.selection, err)
		}
		if got := ids(nodes); got != test.want {
			t.Errorf("%+v selects %s, want %s", test.selection, got, test.want)
		}
	}
}

// A mistyped exclusion must not be taken for one that excludes nothing.
func TestSelectRefusesWhatFitsNothing(t *testing.T) {
	t.Parallel()
	loaded := labelled(t)
	for _, test := range []struct {
		selection inventory.Selection
		want      string
	}{
		{inventory.Selection{Exclude: []string{"node-04"}}, "exclude: no node is called node-04: did you mean node-01?"},
		{inventory.Selection{Cluster: "prod", Exclude: []string{"node-01"}}, "every selected node is excluded: correct the exclusion node-01"},
		{inventory.Selection{Selector: "rol=worker"}, `selector "rol=worker": no node has a label rol: did you mean role?`},
		{inventory.Selection{Selector: "role=storage"}, "no node of the selection has labels that fit role=storage: `provision inventory list -o json` shows the labels"},
		{inventory.Selection{Selector: "role~worker"}, `selector "role~worker": no node has a label role~worker: the labels are role, zone`},
	} {
		nodes, err := loaded.Select(test.selection)
		if err == nil || err.Error() != test.want {
			t.Errorf("%+v selects %s and error\n %v, want\n %s", test.selection, ids(nodes), err, test.want)
		}
	}
}

func FuzzParseSelector(f *testing.F) {
	for _, s := range []string{"role=worker,zone!=b", "a in (b,c),!d", "(", "a in (", "!!a", "=", "\xff", "a notin ()"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := inventory.ParseSelector(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "selector ") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		s.Matches(nil)
		s.Matches(map[string]string{text: text})
	})
}
