package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/talos-provision/provision/inventory"
)

// suggest makes the errors of mistyped commands, arguments and flags say what was
// most likely meant, in root and below.
func (a *app) suggest(root *cobra.Command) {
	root.SetFlagErrorFunc(flagError)
	eachCommand(root, func(c *cobra.Command) {
		check := c.Args
		if check == nil {
			return
		}
		c.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			switch {
			case err == nil:
				return nil
			case len(args) > 0 && c.HasAvailableSubCommands():
				return a.unknownCommand(c, args[0])
			case len(args) > 0 && check(c, nil) == nil && check(c, args[:1]) != nil:
				return a.unwanted(c, args[0])
			}
			return usageError("%s: %v; write it like: provision %s", c.CommandPath(), err, strings.TrimPrefix(c.UseLine(), "provision "))
		}
	})
}

// unknownCommand is the error of a word that is no command below c.
func (a *app) unknownCommand(c *cobra.Command, word string) error {
	message := fmt.Sprintf("unknown command %q for %q", word, c.CommandPath())
	if near := nearestCommand(c, word); near != "" {
		return usageError("%s: did you mean `%s`?", message, near)
	}
	if flag := a.selecting(word); flag != "" {
		return usageError("%s: did you mean `%s %s`?", message, c.CommandPath(), flag)
	}
	return usageError("%s: `%s --help` lists the commands", message, c.CommandPath())
}

// nearestCommand is the command that a word most likely means: one below c, or one
// of that very name elsewhere; "" for none.
func nearestCommand(c *cobra.Command, word string) string {
	byName := map[string]string{}
	var names []string
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() {
			byName[child.Name()] = child.CommandPath()
			names = append(names, child.Name())
		}
	}
	if near := inventory.Nearest(word, names); near != "" {
		return byName[near]
	}
	elsewhere := ""
	eachCommand(c.Root(), func(other *cobra.Command) {
		if elsewhere == "" && other.IsAvailableCommand() && strings.EqualFold(other.Name(), word) {
			elsewhere = other.CommandPath()
		}
	})
	return elsewhere
}

// unwanted is the error of an argument to a command that takes none.
func (a *app) unwanted(c *cobra.Command, word string) error {
	message := fmt.Sprintf("%q takes no arguments, and was given %q", c.CommandPath(), word)
	if flag := a.selecting(word); flag != "" {
		return usageError("%s: did you mean %s?", message, flag)
	}
	return usageError("%s: see `%s --help`", message, c.CommandPath())
}

// selecting is the flag that selects the cluster or the node of a name; "" for none.
func (a *app) selecting(word string) string {
	names := a.names()
	if slices.Contains(clustersOf(names), word) {
		return "--cluster " + word
	}
	if slices.ContainsFunc(names, func(n inventory.Name) bool { return n.Node == word }) {
		return "--node " + word
	}
	return ""
}

// knownCluster says that a cluster is in the inventory, or what is meant instead. An
// inventory that cannot be read here is no reason to refuse one.
func (a *app) knownCluster(cluster string) error {
	clusters := clustersOf(a.names())
	if len(clusters) == 0 || slices.Contains(clusters, cluster) {
		return nil
	}
	if near := inventory.Nearest(cluster, clusters); near != "" {
		return usageError("no node is in cluster %s: did you mean %s?", cluster, near)
	}
	return usageError("no node is in cluster %s: `provision inventory list` shows the clusters", cluster)
}

// flagError is the error of a flag that cannot be read.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return usageError("%v; see `%s --help`", err, c.CommandPath())
	}
	name := unknown.GetSpecifiedName()
	if short := unknown.GetSpecifiedShortnames(); short != "" {
		name, _, _ = strings.Cut(short, "=") // -cluster is --cluster to many
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := inventory.Nearest(name, names); near != "" && len(name) > 1 {
		return usageError("%v: did you mean --%s?", err, near)
	}
	if others := commandsWith(c.Root(), name); len(others) > 0 {
		return usageError("%v: it is a flag of `%s`", err, strings.Join(others, "`, `"))
	}
	return usageError("%v: see `%s --help`", err, c.CommandPath())
}

// commandsWith are the first few commands that have a flag of their own of this name.
func commandsWith(root *cobra.Command, flag string) []string {
	const shown = 3
	var paths []string
	eachCommand(root, func(c *cobra.Command) {
		own := c.LocalNonPersistentFlags().Lookup(flag) != nil || c != root && c.PersistentFlags().Lookup(flag) != nil
		if own && c.IsAvailableCommand() && len(paths) < shown {
			paths = append(paths, c.CommandPath())
		}
	})
	return paths
}
