package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/talos-provision/provision/inventory"
)

// words are what a flag or an argument can be; the inventory is asked for them
// only when somebody presses Tab. toComplete is the word so far.
type words func(a *app, c *cobra.Command, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective)

// flagWords are the words of flags by name, wherever a command has one of that name.
// A flag that is not here takes what nobody can guess.
var flagWords = map[string]words{
	"cluster":          clusterWords,
	"node":             nodeWords,
	"exclude":          nodeWords,
	"reinstall":        nodeWords,
	"canary":           nodeWords,
	"selector":         selectorWords,
	"order":            labelWords,
	"output":           outputWords,
	"until":            oneOf("maintenance", "configured", "installed", "ready"),
	"log-level":        oneOf("debug", "info", "warn", "error"),
	"method":           oneOf(methodDisk, methodPXE),
	"api":              oneOf("lifecycle", "legacy"),
	"arch":             oneOf("amd64", "arm64"),
	"boot-mode":        oneOf("uefi", "legacy"),
	"config":           filesLike("yaml", "yml"),
	"secrets":          filesLike("yaml", "yml"),
	"schematic":        filesLike("yaml", "yml"),
	"bmc":              anyFile,
	"token-file":       anyFile,
	"password-file":    anyFile,
	"password-command": anyFile,
	"ca-file":          anyFile,
	"kubeconfig":       anyFile,
	"trace":            anyFile,
	"out":              anyFile,
	"inventory":        folders,
	"state":            folders,
	"tftp-root":        folders,
}

// ownFlagWords are those of one command's flag, "command flag", where others have it otherwise.
var ownFlagWords = map[string]words{
	"cluster init out":          folders,
	"inventory render format":   oneOf("dnsmasq", "ipxe"),
	"inventory validate format": oneOf("text", "json", "sarif", "github", "gitlab"),
}

// argumentWords are the words of a command's first argument; of further ones where many is set.
var argumentWords = map[string]struct {
	words words
	many  bool
}{
	"hold":               {words: nodeWords},
	"release":            {words: nodeWords},
	"cluster init":       {words: clusterWords},
	"cluster health":     {words: clusterWords},
	"cluster kubeconfig": {words: clusterWords},
	"state backup":       {words: anyFile},
	"state restore":      {words: anyFile},
	"assets import":      {words: anyFile, many: true},
	"man":                {words: folders},
}

// complete tells the shells what can stand where, in root and below.
func (a *app) complete(root *cobra.Command) {
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	eachCommand(root, func(c *cobra.Command) {
		path := pathBelow(c)
		for _, set := range []*pflag.FlagSet{c.PersistentFlags(), c.LocalNonPersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) {
				w := flagWords[f.Name]
				if own := ownFlagWords[path+" "+f.Name]; own != nil {
					w = own
				}
				if w != nil {
					// It fails for a flag that is not there or has words already: neither is so here.
					_ = c.RegisterFlagCompletionFunc(f.Name, a.completes(w))
				}
			})
		}
		if argument, known := argumentWords[path]; known {
			c.ValidArgsFunction = func(c *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
				if len(args) > 0 && !argument.many {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return a.completes(argument.words)(c, args, toComplete)
			}
		}
	})
}

func (a *app) completes(w words) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		all, directive := w(a, c, toComplete)
		if directive&(cobra.ShellCompDirectiveFilterFileExt|cobra.ShellCompDirectiveFilterDirs) != 0 {
			return all, directive
		}
		return slices.DeleteFunc(slices.Clone(all), func(word string) bool { return !strings.HasPrefix(word, toComplete) }), directive
	}
}

// eachCommand visits a command and all below it.
func eachCommand(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, child := range c.Commands() {
		eachCommand(child, visit)
	}
}

// pathBelow is a command's path without the program's name: "inventory show".
func pathBelow(c *cobra.Command) string {
	_, below, _ := strings.Cut(c.CommandPath(), " ")
	return below
}

// outputsBeside are the values of --output beside table and json, by command.
var outputsBeside = map[string][]string{
	"plan":               {"markdown"},
	"inventory validate": {"sarif", "github", "gitlab"},
}

func outputWords(_ *app, c *cobra.Command, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return append([]string{"table", "json"}, outputsBeside[pathBelow(c)]...), cobra.ShellCompDirectiveNoFileComp
}

func oneOf(values ...string) words {
	return func(*app, *cobra.Command, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return values, cobra.ShellCompDirectiveNoFileComp
	}
}

func filesLike(extensions ...string) words {
	return func(*app, *cobra.Command, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return extensions, cobra.ShellCompDirectiveFilterFileExt
	}
}

func anyFile(*app, *cobra.Command, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

func folders(*app, *cobra.Command, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// names are the nodes of the inventory that flags, environment and provision.yaml name;
// none where it cannot be read, since a shell in the middle of a line is no place for errors.
func (a *app) names() []inventory.Name {
	c, err := a.loadConfig()
	if err != nil {
		return nil
	}
	names, _ := inventory.Names(c.Inventory)
	return names
}

func clusterWords(a *app, _ *cobra.Command, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return clustersOf(a.names()), cobra.ShellCompDirectiveNoFileComp
}

func clustersOf(names []inventory.Name) []string {
	var clusters []string
	for _, n := range names {
		if n.Cluster != "" {
			clusters = append(clusters, n.Cluster)
		}
	}
	slices.Sort(clusters)
	return slices.Compact(clusters)
}

// nodeWords complete the last name of a hostlist with nodes that are not in it yet,
// those of --cluster where it is given.
func nodeWords(a *app, _ *cobra.Command, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before, word := cutLast(toComplete, ",", "[", "]")
	named := strings.Split(before, ",")
	clusters := map[string][]string{}
	var order []string
	for _, n := range a.names() {
		name := n.Node
		if strings.Contains(word, "/") {
			name = n.Cluster + "/" + n.Node
		}
		other := a.flags.cluster != "" && n.Cluster != a.flags.cluster
		if other || !strings.HasPrefix(name, word) || slices.Contains(named, name) {
			continue
		}
		if clusters[name] == nil {
			order = append(order, name)
		}
		clusters[name] = append(clusters[name], n.Cluster)
	}
	completions := make([]cobra.Completion, 0, len(order))
	for _, name := range order {
		word := before + name
		if before == "" { // with a description bash finds no word that has a comma
			word = cobra.CompletionWithDesc(word, strings.Join(clusters[name], ", "))
		}
		completions = append(completions, word)
	}
	return completions, cobra.ShellCompDirectiveNoFileComp
}

// cutLast splits behind the last separator that is in no bracket.
func cutLast(list, separator, opening, closing string) (before, last string) {
	at := strings.LastIndex(list, separator)
	for at >= 0 && strings.Count(list[:at], opening) > strings.Count(list[:at], closing) {
		at = strings.LastIndex(list[:at], separator)
	}
	return list[:at+1], list[at+1:]
}

// selectorWords complete the last condition of a selector: the key of a label, then its value.
func selectorWords(a *app, _ *cobra.Command, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before, condition := cutLast(toComplete, ",", "(", ")")
	key, _, valued := strings.Cut(condition, "=")
	if valued {
		operator := "="
		if negated, found := strings.CutSuffix(key, "!"); found {
			key, operator = negated, "!="
		}
		values := a.labels()[key]
		completions := make([]cobra.Completion, 0, len(values))
		for _, value := range values {
			completions = append(completions, before+key+operator+value)
		}
		return completions, cobra.ShellCompDirectiveNoFileComp
	}
	keys, _ := labelWords(a, nil, "")
	for i := range keys {
		keys[i] = before + keys[i]
	}
	return keys, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

func labelWords(a *app, _ *cobra.Command, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return slices.Sorted(maps.Keys(a.labels())), cobra.ShellCompDirectiveNoFileComp
}

// labels are the labels of the inventory's nodes, those of --cluster where it is given, each
// with its values. For them the files must be read.
func (a *app) labels() map[string][]string {
	c, err := a.loadConfig()
	if err != nil {
		return nil
	}
	tree, _, err := inventory.Load(c.Inventory)
	if err != nil {
		return nil
	}
	labels := map[string][]string{}
	for _, n := range tree.Nodes {
		for key, value := range n.Labels {
			if (a.flags.cluster == "" || n.Cluster == a.flags.cluster) && !slices.Contains(labels[key], value) {
				labels[key] = append(labels[key], value)
			}
		}
	}
	for _, values := range labels {
		slices.Sort(values)
	}
	return labels
}
