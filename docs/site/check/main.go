// Command check reads the site that mkdocs built, and the Markdown that it was
// built from, and says what a reader would stumble over: links and anchors that
// lead nowhere, pages that nothing leads to, images that are missing or have no
// text, and anything that a browser would fetch from another host. It asks no
// network: of links to other hosts it only checks how they are written.
//
//	check [-hosts] SITE REPOSITORY
//
// Exit status: 0 nothing is wrong; 1 something is; 2 it could not look.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
)

func main() {
	hosts := flag.Bool("hosts", false, "list the hosts that pages link to")
	flag.Usage = func() {
		_, _ = fmt.Fprintln(flag.CommandLine.Output(), "usage: check [-hosts] SITE REPOSITORY")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	err := run(os.Stdout, flag.Arg(0), flag.Arg(1), *hosts)
	switch {
	case errors.Is(err, errFound):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(2)
	}
}

// errFound says that problems were found and told.
var errFound = errors.New("problems were found")

// run checks the site and the repository's Markdown, and tells about both.
func run(out io.Writer, site, repository string, hosts bool) error {
	pages, err := load(os.DirFS(site))
	if err != nil {
		return fmt.Errorf("read the site in %s: %w", site, err)
	}
	problems := pages.check()
	texts, more, err := checkMarkdown(os.DirFS(repository))
	if err != nil {
		return fmt.Errorf("read the Markdown in %s: %w", repository, err)
	}
	problems = append(problems, more...)
	slices.SortFunc(problems, problem.compare)
	for _, p := range problems {
		_, _ = fmt.Fprintln(out, p)
	}
	if hosts {
		for _, host := range pages.hosts() {
			_, _ = fmt.Fprintln(out, "links to", host)
		}
	}
	_, _ = fmt.Fprintf(out, "%d pages and %d Markdown files, %d links to %d other hosts; problems: %d\n",
		len(pages.pages), texts, pages.external, len(pages.hosts()), len(problems))
	if len(problems) > 0 {
		return errFound
	}
	return nil
}
