package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// completed is what a shell gets for a command line whose last word is incomplete.
func completed(t *testing.T, args ...string) (words []string, directive cobra.ShellCompDirective) {
	t.Helper()
	r := provision(t, append([]string{cobra.ShellCompNoDescRequestCmd}, args...)...)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	number, err := strconv.Atoi(strings.TrimPrefix(lines[len(lines)-1], ":"))
	if err != nil || r.status != exitDone {
		t.Fatalf("%v: status %d, %s%s", args, r.status, r.out, r.err)
	}
	if told, _, _ := strings.Cut(r.err, "Completion ended with directive"); told != "" {
		t.Errorf("%v: standard error says %q", args, told)
	}
	return lines[:len(lines)-1], cobra.ShellCompDirective(number)
}

// completionInventory has two clusters that share a name, and labels.
func completionInventory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"k8s-prod/_defaults.yaml": "labels: {role: worker}\n", "k8s-prod/node-01.yaml": "labels: {role: controlplane, rack: r1}\n",
		"k8s-prod/node-02.yaml": "serial: S2\n", "k8s-prod/db-01.yaml": "serial: S3\n",
		"k8s-dev/node-01.yaml": "serial: S4\nlabels: {zone: a}\n", "site/node-09.yaml": "serial: S5\ncluster: k8s-edge\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, file, text)
	}
	return dir
}

func TestTabCompletesFromTheInventory(t *testing.T) {
	t.Parallel()
	dir := completionInventory(t)
	const none, noSpace = cobra.ShellCompDirectiveNoFileComp, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	for line, tc := range map[string]struct {
		want      []string
		directive cobra.ShellCompDirective
	}{
		"--cluster ?":                               {[]string{"k8s-dev", "k8s-edge", "k8s-prod"}, none},
		"plan --cluster k8s-p?":                     {[]string{"k8s-prod"}, none},
		"plan --cluster=k8s-e?":                     {[]string{"k8s-edge"}, none},
		"cluster init ?":                            {[]string{"k8s-dev", "k8s-edge", "k8s-prod"}, none},
		"cluster health k8s-d?":                     {[]string{"k8s-dev"}, none},
		"cluster kubeconfig k8s-dev ?":              {nil, none},
		"plan --node ?":                             {[]string{"node-01", "node-09", "db-01", "node-02"}, none},
		"plan --cluster k8s-prod --node n?":         {[]string{"node-01", "node-02"}, none},
		"plan --cluster k8s-prod --node node-01,n?": {[]string{"node-01,node-02"}, none},
		"plan --node node-[01,02],k8s-e?":           {nil, none},
		"plan --node k8s-prod/?":                    {[]string{"k8s-prod/db-01", "k8s-prod/node-01", "k8s-prod/node-02"}, none},
		"hold d?":                                   {[]string{"db-01"}, none},
		"hold db-01 ?":                              {nil, none},
		"hold node-01 --reason ?":                   {nil, none},
		"release --cluster k8s-edge ?":              {[]string{"node-09"}, none},
		"inventory show --node node-0?":             {[]string{"node-01", "node-09", "node-02"}, none},
		"bmc power off --cluster k8s-dev --node ?":  {[]string{"node-01"}, none},
		"bmc info --node d?":                        {[]string{"db-01"}, none},
		"--cluster k8s-dev --reinstall ?":           {[]string{"node-01"}, none},
		"--cluster k8s-prod --exclude node-02,d?":   {[]string{"node-02,db-01"}, none},
		"upgrade --cluster k8s-prod --canary d?":    {[]string{"db-01"}, none},
		"status --selector ?":                       {[]string{"rack", "role", "zone"}, noSpace},
		"status -l ra?":                             {[]string{"rack"}, noSpace},
		"status --cluster k8s-dev -l ?":             {[]string{"zone"}, noSpace},
		"status -l role=?":                          {[]string{"role=controlplane", "role=worker"}, none},
		"status -l zone,role!=w?":                   {[]string{"zone,role!=worker"}, none},
		"upgrade --order ?":                         {[]string{"rack", "role", "zone"}, none},
		"status -o ?":                               {[]string{"table", "json"}, none},
		"plan -o m?":                                {[]string{"markdown"}, none},
		"inventory validate -o g?":                  {[]string{"github", "gitlab"}, none},
		"inventory validate --format s?":            {[]string{"sarif"}, none},
		"inventory render --format ?":               {[]string{"dnsmasq", "ipxe"}, none},
		"--until ?":                                 {[]string{"maintenance", "configured", "installed", "ready"}, none},
		"plan --until r?":                           {[]string{"ready"}, none},
		"--log-level ?":                             {[]string{"debug", "info", "warn", "error"}, none},
		"upgrade --method ?":                        {[]string{"disk", "pxe"}, none},
		"upgrade --api ?":                           {[]string{"lifecycle", "legacy"}, none},
		"bmc boot pxe --boot-mode ?":                {[]string{"uefi", "legacy"}, none},
		"assets pull --arch ?":                      {[]string{"amd64", "arm64"}, none},
		"--config ?":                                {[]string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt},
		"--state ?":                                 {nil, cobra.ShellCompDirectiveFilterDirs},
		"--token-file ?":                            {nil, cobra.ShellCompDirectiveDefault},
		"cluster init k8s-dev --out ?":              {nil, cobra.ShellCompDirectiveFilterDirs},
		"cluster kubeconfig k8s-dev --out ?":        {nil, cobra.ShellCompDirectiveDefault},
		"state backup ?":                            {nil, cobra.ShellCompDirectiveDefault},
		"assets import a.iso ?":                     {nil, cobra.ShellCompDirectiveDefault},
		"plan ?":                                    {nil, none},
		"upg?":                                      {[]string{"upgrade"}, none},
		"inventory va?":                             {[]string{"validate"}, none},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(strings.TrimSuffix(line, "?"))
			if strings.HasSuffix(line, " ?") {
				args = append(args, "")
			}
			words, directive := completed(t, append([]string{"--inventory", dir}, args...)...)
			if diff := cmp.Diff(tc.want, slices.Clone(words), cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })); diff != "" || directive != tc.directive {
				t.Errorf("directive %d, want %d; words (-want +got):\n%s", directive, tc.directive, diff)
			}
		})
	}
}

// The inventory is the one that provision.yaml names.
func TestTabCompletesFromTheInventoryOfTheConfiguration(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "site.yaml")
	writeFile(t, file, fmt.Sprintf("inventory: %s\n", completionInventory(t)))
	if words, _ := completed(t, "--config", file, "hold", "db"); !slices.Equal(words, []string{"db-01"}) {
		t.Errorf("words %q, want db-01", words)
	}
}

// Somebody in the middle of a line is told nothing of what is broken elsewhere.
func TestTabIsQuietWhereTheInventoryIsBroken(t *testing.T) {
	t.Parallel()
	broken := completionInventory(t)
	writeFile(t, filepath.Join(broken, "k8s-prod/node-02.yaml"), "serial: [\n")
	writeFile(t, filepath.Join(broken, "k8s-prod/_defaults.yaml"), "\t: {{\n")
	badConfig := filepath.Join(t.TempDir(), "bad.yaml")
	writeFile(t, badConfig, "power: {parallel: 0}\n")
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"names of broken files":   {[]string{"--inventory", broken, "--cluster", "k8s-prod", "hold", "node"}, []string{"node-01", "node-02"}},
		"labels beside them":      {[]string{"--inventory", broken, "status", "-l", "r"}, []string{"rack", "role"}},
		"no inventory":            {[]string{"--inventory", filepath.Join(broken, "none"), "hold", ""}, []string{}},
		"a file as the inventory": {[]string{"--inventory", badConfig, "--cluster", ""}, []string{}},
		"a broken configuration":  {[]string{"--config", badConfig, "--node", ""}, []string{}},
		"no configuration":        {[]string{"--config", badConfig + "x", "-l", ""}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if words, _ := completed(t, tc.args...); !slices.Equal(words, tc.want) {
				t.Errorf("words %q, want %q", words, tc.want)
			}
		})
	}
}

// Tab is answered while somebody waits, also for a large fleet.
func TestTabIsQuickWith10000Nodes(t *testing.T) {
	if testing.Short() {
		t.Skip("writing 10,000 files takes too long for -short")
	}
	t.Parallel()
	dir := t.TempDir()
	for cluster := range 10 {
		folder := filepath.Join(dir, fmt.Sprintf("k8s-%02d", cluster))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		for node := range 1000 {
			writeFile(t, filepath.Join(folder, fmt.Sprintf("node-%04d.yaml", node)), fmt.Sprintf("serial: S%d-%d\nip: 10.0.0.1\nlabels: {rack: r%d}\n", cluster, node, node%40))
		}
	}
	began := time.Now()
	words, _ := completed(t, "--inventory", dir, "--cluster", "k8s-07", "--node", "node-05")
	took := time.Since(began)
	t.Logf("%d words in %s", len(words), took)
	if len(words) != 100 {
		t.Errorf("%d words, want 100", len(words))
	}
	// About 0.1 s without the race detector on an idle host; bounded for a busy one.
	if took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}
