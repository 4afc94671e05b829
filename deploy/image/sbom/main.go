// Command sbom writes what an image consists of, as CycloneDX JSON: the Go modules
// that the linker put into a binary, and the packages that dpkg knows of. The same
// input gives the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "sbom: %v\n", err)
		os.Exit(2)
	}
}

// options are what the document is made of.
type options struct {
	binary, version string
	epoch           int64 // seconds since 1970
	dpkg, osRelease string
	sources         []string
	out             string
}

func run(args []string, errOut io.Writer) error {
	var o options
	f := flag.NewFlagSet("sbom", flag.ContinueOnError)
	f.SetOutput(errOut)
	f.StringVar(&o.binary, "binary", "", "a program that Go built")
	f.StringVar(&o.version, "version", "", "its version")
	f.Int64Var(&o.epoch, "epoch", 0, "when it was made, in seconds since 1970")
	f.StringVar(&o.dpkg, "dpkg", "", "dpkg's status file, where there is one")
	f.StringVar(&o.osRelease, "os-release", "", "os-release of the same system")
	f.Func("source", "something built from source: NAME@COMMIT=URL", func(s string) error {
		o.sources = append(o.sources, s)
		return nil
	})
	f.StringVar(&o.out, "out", "", "file to write")
	if err := f.Parse(args); err != nil {
		return fmt.Errorf("read the arguments: %w", err)
	}
	if o.binary == "" || o.out == "" {
		return errors.New("-binary and -out are needed: name the program, and the file to write")
	}
	raw, err := o.document()
	if err != nil {
		return err
	}
	if err := os.WriteFile(o.out, raw, 0o644); err != nil {
		return fmt.Errorf("write the SBOM: %w", err)
	}
	return nil
}

// document gathers the components and encodes them.
func (o *options) document() ([]byte, error) {
	program, components, err := modules(o.binary, o.version)
	if err != nil {
		return nil, err
	}
	for _, s := range o.sources {
		c, err := fromSource(s)
		if err != nil {
			return nil, err
		}
		components = append(components, c)
	}
	if o.dpkg != "" {
		packages, err := o.packages()
		if err != nil {
			return nil, err
		}
		components = append(components, packages...)
	}
	slices.SortFunc(components, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	return encode(program, components, time.Unix(o.epoch, 0).UTC())
}

// packages are those of a Debian.
func (o *options) packages() ([]component, error) {
	status, err := os.ReadFile(o.dpkg)
	if err != nil {
		return nil, fmt.Errorf("read dpkg's status: %w", err)
	}
	distribution := ""
	if o.osRelease != "" {
		release, err := os.ReadFile(o.osRelease)
		if err != nil {
			return nil, fmt.Errorf("read os-release: %w", err)
		}
		distribution = codename(string(release))
	}
	return debian(string(status), distribution), nil
}
