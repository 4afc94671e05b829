// Command bench runs the boot services beside dnsmasq, Kea, tftpd-hpa and nginx,
// one after the other in the same two network namespaces, with clients that
// nobody here wrote, and prints how they compare. Absolute figures depend on the
// machine and on what else it does; the ratios within one run are what counts.
// It needs root and the packages of deps.sh.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// bench is one run.
type bench struct {
	*lab
	out    io.Writer
	ours   string // the program bootserver
	rounds int
	quick  bool
	// profiles is a folder; empty takes none. section is the one at work.
	profiles, section string
}

// sections in the order in which they are run.
var sections = []struct {
	name string
	run  func(ctx context.Context, b *bench) error
}{
	{"dhcp", benchDHCP},
	{"tftp", benchTFTP},
	{"http", benchHTTP},
	{"script", benchScript},
}

func main() {
	only := flag.String("only", "", "sections to run, with commas between: dhcp, tftp, http, script (default all)")
	rounds := flag.Int("rounds", 3, "how often each figure is measured; the best counts")
	profiles := flag.String("profiles", "", "folder to put a CPU profile of ours for each section into, for go tool pprof")
	quick := flag.Bool("quick", false, "small and short, to see that everything works")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	err := run(ctx, strings.FieldsFunc(*only, func(r rune) bool { return r == ',' }), *rounds, *quick, *profiles)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only []string, rounds int, quick bool, profiles string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("network namespaces need root")
	}
	l, err := newLab(ctx, os.Stderr)
	if err != nil {
		return err
	}
	defer l.close()
	b := &bench{lab: l, out: os.Stdout, ours: l.path("bootserver"), rounds: rounds, quick: quick, profiles: profiles}
	if quick {
		b.rounds = 1
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", b.ours, "github.com/talos-provision/provision/e2e/bench/bootserver")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build bootserver: %w: %s", err, out)
	}
	if err := b.files(); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(b.out, "best of %d; %d processors, which clients and servers share\n", b.rounds, processors())
	for _, s := range sections {
		if len(only) > 0 && !slices.Contains(only, s.name) {
			continue
		}
		b.section = s.name
		if err := s.run(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return ctx.Err()
}

// bootserver is our side, with every service; port says when it is ready.
func (b *bench) bootserver(network string, port int, args ...string) server {
	return server{name: "provision", network: network, port: port, args: append([]string{
		b.ours, "-ipxe", b.path("tftp"), "-cache", b.path("cache"),
	}, args...)}
}

// begin starts a server. Of ours it takes a profile meanwhile, if asked to.
func (b *bench) begin(ctx context.Context, s server) (*running, error) {
	if b.profiles == "" || s.args[0] != b.ours {
		return b.start(ctx, s)
	}
	const address = "127.0.0.1:6060"
	s.args = append(slices.Clone(s.args), "-pprof", address)
	r, err := b.start(ctx, s)
	if err != nil {
		return nil, err
	}
	take := exec.CommandContext(ctx, "ip", "netns", "exec", serverNS, "curl", "-s", "--retry", "5", "--retry-connrefused",
		"-o", filepath.Join(b.profiles, b.section+".pprof"), "http://"+address+"/debug/pprof/profile?seconds=3")
	if err := take.Start(); err != nil {
		r.stop()
		return nil, err
	}
	go func() { _ = take.Wait() }() // a server that is stopped earlier leaves no profile
	return r, nil
}

// table prints rows with the columns aligned, as Markdown.
func (b *bench) table(title string, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	_, _ = fmt.Fprintf(b.out, "\n%s (load average %s)\n\n", title, load())
	for i, row := range rows {
		cells := make([]string, len(row))
		for j, cell := range row {
			cells[j] = cell + strings.Repeat(" ", widths[j]-len([]rune(cell)))
		}
		_, _ = fmt.Fprintf(b.out, "| %s |\n", strings.Join(cells, " | "))
		if i == 0 {
			for j := range cells {
				cells[j] = strings.Repeat("-", widths[j])
			}
			_, _ = fmt.Fprintf(b.out, "| %s |\n", strings.Join(cells, " | "))
		}
	}
}

func ratio(ours, theirs float64) string {
	if theirs == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", ours/theirs)
}

func processors() int {
	cpus, err := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*")
	if err != nil {
		return 0
	}
	return len(cpus)
}
