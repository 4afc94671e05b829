package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/provisioner/machineconfig"
)

type kubeconfigFlags struct {
	out          string
	merge, force bool
}

func clusterKubeconfigCommand(a *app) *cobra.Command {
	var f kubeconfigFlags
	c := &cobra.Command{
		Use:   "kubeconfig NAME",
		Short: "Get an administrator's kubeconfig from a control plane node",
		Long: `kubeconfig asks a control plane node of the cluster for a kubeconfig of its
administrator and writes it to a file that only you can read.

Exit status: 0 done; 1 no control plane node gave one; 2 usage, configuration or
inventory error; 3 the file exists.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.theCluster(args[0])
			if err != nil {
				return err
			}
			return a.clusterKubeconfig(cmd.Context(), r, f)
		},
	}
	p := c.Flags()
	p.StringVar(&f.out, "out", "", "file to write, - for standard output (default: NAME.kubeconfig)")
	p.BoolVar(&f.merge, "merge", false, "add it to the file, in place of entries of the same names")
	p.BoolVar(&f.force, "force", false, "replace the file")
	return c
}

func (a *app) clusterKubeconfig(ctx context.Context, r *runningCluster, f kubeconfigFlags) error {
	if f.out == "" {
		f.out = r.name + ".kubeconfig"
	}
	if f.merge && (f.force || f.out == "-") {
		return usageError("--merge goes with a file, and not with --force")
	}
	existing, err := os.ReadFile(f.out)
	switch {
	case f.out == "-" || f.force || errors.Is(err, fs.ErrNotExist):
		existing = nil
	case err != nil:
		return fmt.Errorf("read %s: %w", f.out, err)
	case !f.merge:
		return &statusError{exitRefused, fmt.Sprintf("%s exists: --merge adds to it, --force replaces it, --out names another", f.out)}
	}
	var fresh []byte
	if err := r.firstOf(ctx, func(host string) error { fresh, err = r.admin.Kubeconfig(ctx, host); return err }); err != nil {
		var status *statusError
		if errors.As(err, &status) || errors.Is(err, context.Canceled) {
			return err
		}
		return &statusError{exitFailed, fmt.Sprintf("get the kubeconfig of %s: %v", r.name, err)}
	}
	if f.out == "-" {
		_, err := a.out.Write(fresh)
		return err
	}
	merged, err := machineconfig.MergeKubeconfig(existing, fresh)
	if err != nil {
		return &statusError{exitFailed, fmt.Sprintf("merge into %s: %v", f.out, err)}
	}
	if err := replaceFile(f.out, merged); err != nil {
		return fmt.Errorf("write %s: %w", f.out, err)
	}
	if asJSON, _ := a.json(); asJSON {
		return a.printJSON(map[string]string{"cluster": r.name, "file": f.out})
	}
	_, err = fmt.Fprintf(a.out, "wrote %s\n", f.out)
	return err
}

// replaceFile puts a whole file, readable for its owner alone, in the place of
// what was there. A folder that is not there yet, as ~/.kube on a new account, is made.
func replaceFile(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	w, err := os.CreateTemp(filepath.Dir(file), ".kubeconfig-") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(w.Name()) }()
	_, err = w.Write(content)
	if err := errors.Join(err, w.Sync(), w.Close()); err != nil {
		return err
	}
	return os.Rename(w.Name(), file)
}
