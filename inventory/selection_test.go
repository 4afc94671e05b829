package inventory_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory"
)

func TestParseHostlist(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"node-01":             "node-01",
		"node-[01-03,09]":     "node-01 node-02 node-03 node-09",
		"node-[8-11]":         "node-8 node-9 node-10 node-11",
		"node-[08-11]":        "node-08 node-09 node-10 node-11",
		"r[1-2]n[01-02]":      "r1n01 r1n02 r2n01 r2n02",
		"a, b,,c d":           "a b c d",
		"a,node-[1,3],a":      "a node-1 node-3",
		"node-0*,db-?":        "node-0* db-?",
		"k8s-dev/node-[1-2]x": "k8s-dev/node-1x k8s-dev/node-2x",
		"n[1-1]":              "n1",
	}
	for hosts, want := range tests {
		got, err := inventory.ParseHostlist(hosts)
		if err != nil {
			t.Errorf("%q: %v", hosts, err)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q gives %v, want %s", hosts, got, want)
		}
	}
}

func TestParseHostlistRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"":                     `host list "" has no name: write it like node-[01-06,09]`,
		",,":                   `host list ",," has no name: write it like node-[01-06,09]`,
		"n[1-2":                `host list "n[1-2": a bracket is not closed: write it like node-[01-06,09]`,
		"n1-2]":                `host list "n1-2]": the brackets do not match: write it like node-[01-06,09]`,
		"n[[1]]":               `host list "n[[1]]": the brackets do not match: write it like node-[01-06,09]`,
		"n[6-1]":               `host list "n[6-1]": "6-1" runs backwards: write 1-6`,
		"n[a-c]":               `host list "n[a-c]": "a-c" is not a number or a range like 01-06`,
		"n[]":                  `host list "n[]": "" is not a number or a range like 01-06`,
		"n[1-2-3]":             `host list "n[1-2-3]": "1-2-3" is not a number or a range like 01-06`,
		"n[1-99999999]":        `host list "n[1-99999999]": "1-99999999" gives more than 10000 names: use * or --cluster`,
		"n[1-999][1-999]":      `host list "n[1-999][1-999]": "n[1-999][1-999]" gives more than 10000 names: use * or --cluster`,
		"n[1-9999],m[1-9999]":  `host list "n[1-9999],m[1-9999]" gives more than 10000 names: use * or --cluster`,
		"n[99999999999999999]": `host list "n[99999999999999999]": "99999999999999999" is not a number or a range like 01-06`,
		"node;reboot":          `host list "node;reboot": ";" cannot be in a node's name: write names like node-01, or a pattern like node-0*`,
	}
	for hosts, want := range tests {
		if got, err := inventory.ParseHostlist(hosts); err == nil || err.Error() != want {
			t.Errorf("%q gives %d names and error\n %v, want\n %s", hosts, len(got), err, want)
		}
	}
}

func fleet(t *testing.T) *inventory.Tree {
	t.Helper()
	files := map[string]string{"prod/node-01.yaml": "", "prod/db-1.yaml": ""}
	for i := 1; i <= 12; i++ {
		files[fmt.Sprintf("dev/rack/node-%02d.yaml", i)] = ""
	}
	return clean(t, files)
}

func TestSelect(t *testing.T) {
	t.Parallel()
	loaded := fleet(t)
	tests := []struct {
		selection inventory.Selection
		want      string
	}{
		{inventory.Selection{Cluster: "prod"}, "prod/db-1 prod/node-01"},
		{inventory.Selection{Cluster: "dev", Nodes: []string{"node-[10-12,01]"}}, "dev/node-01 dev/node-10 dev/node-11 dev/node-12"},
		{inventory.Selection{Nodes: []string{"node-01"}}, "dev/node-01 prod/node-01"},
		{inventory.Selection{Nodes: []string{"prod/node-01"}}, "prod/node-01"},
		{inventory.Selection{Nodes: []string{"dev/node-1*", "db-?"}}, "dev/node-10 dev/node-11 dev/node-12 prod/db-1"},
		{inventory.Selection{Cluster: "dev", Nodes: []string{"*-03"}}, "dev/node-03"},
	}
	for _, test := range tests {
		nodes, err := loaded.Select(test.selection)
		if err != nil {
			t.Errorf("%+v: %v", test.selection, err)
		}
		if got := ids(nodes); got != test.want {
			t.Errorf("%+v selects %s, want %s", test.selection, got, test.want)
		}
	}
	if nodes, err := loaded.Select(inventory.Selection{}); err != nil || len(nodes) != 14 {
		t.Errorf("everything is %d nodes, %v", len(nodes), err)
	}
	if diff := cmp.Diff([]string{"dev", "prod"}, loaded.Clusters()); diff != "" {
		t.Errorf("clusters (-want +got):\n%s", diff)
	}
}

func ids(nodes []inventory.Node) string {
	all := make([]string, 0, len(nodes))
	for _, n := range nodes {
		all = append(all, n.ID())
	}
	return strings.Join(all, " ")
}

func TestSelectSaysWhatWasMeant(t *testing.T) {
	t.Parallel()
	loaded := fleet(t)
	tests := []struct {
		selection inventory.Selection
		want      string
	}{
		{inventory.Selection{Cluster: "prd"}, "no node is in cluster prd: did you mean prod?"},
		{inventory.Selection{Cluster: "staging"}, "no node is in cluster staging: the clusters are dev, prod"},
		{inventory.Selection{Cluster: "prod", Nodes: []string{"node-[01-02]"}}, "no node is called node-02: did you mean node-01?"},
		{inventory.Selection{Nodes: []string{"x*"}}, "no node is called x*: the nodes are node-01, node-02, node-03, node-04, node-05, node-06, node-07, node-08 and 6 more"},
		{inventory.Selection{Nodes: []string{"n["}}, `host list "n[": a bracket is not closed: write it like node-[01-06,09]`},
	}
	for _, test := range tests {
		if nodes, err := loaded.Select(test.selection); err == nil || err.Error() != test.want {
			t.Errorf("%+v selects %s and error\n %v, want\n %s", test.selection, ids(nodes), err, test.want)
		}
	}
	if _, err := (&inventory.Tree{}).Select(inventory.Selection{Cluster: "a"}); err == nil || err.Error() != "no node is in cluster a: the inventory has no clusters" {
		t.Errorf("empty inventory: %v", err)
	}
}

func TestNode(t *testing.T) {
	t.Parallel()
	loaded := fleet(t)
	if n, err := loaded.Node("db-1"); err != nil || n.ID() != "prod/db-1" {
		t.Errorf("db-1 is %s, %v", n.ID(), err)
	}
	if n, err := loaded.Node("dev/node-01"); err != nil || n.File != "dev/rack/node-01.yaml" {
		t.Errorf("dev/node-01 is %s, %v", n.File, err)
	}
	twice, _ := load(t, tree(t, map[string]string{"a/x/n1.yaml": "", "a/y/n1.yaml": ""}))
	for _, test := range []struct {
		tree       *inventory.Tree
		name, want string
	}{
		{loaded, "node-01", "node-01 is a node of several clusters: say which with dev/node-01 or prod/node-01"},
		{loaded, "db-2", "no node is called db-2: did you mean db-1?"},
		{twice, "n1", "n1 is given by a/x/n1.yaml and a/y/n1.yaml: rename one"},
	} {
		if _, err := test.tree.Node(test.name); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
}

func FuzzParseHostlist(f *testing.F) {
	for _, s := range []string{"node-[01-06,09]", "a,b c", "r[1-2]n[01-02]*", "[", "]", "[[1]]", "n[1-]", "n[1-99999999]", "\xff,ä"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, hosts string) {
		names, err := inventory.ParseHostlist(hosts)
		if err != nil {
			return
		}
		if len(names) == 0 || len(names) > 10_000 {
			t.Fatalf("%q gives %d names", hosts, len(names))
		}
		for i, name := range names {
			if name == "" || strings.ContainsAny(name, "[], ") || i < 100 && slices.Contains(names[:i], name) {
				t.Fatalf("%q gives %q", hosts, names)
			}
		}
		if again, err := inventory.ParseHostlist(strings.Join(names, ",")); err != nil || !slices.Equal(again, names) {
			t.Fatalf("%q gives %q, and that %q %v", hosts, names, again, err)
		}
	})
}
