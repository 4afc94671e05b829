package firmware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"
)

// Bounds on a boot's scripts.
const (
	maxCommands = 5000
	maxDepth    = 16
	maxImages   = 1000
)

// host is what a script needs of its machine.
type host interface {
	// dhcpAsIPXE takes a lease.
	dhcpAsIPXE(ctx context.Context) error
	// fetch downloads at most limit bytes.
	fetch(ctx context.Context, u *url.URL, w io.Writer, limit int64) (Image, error)
	// sleep waits as long as the machine would, by its clock.
	sleep(ctx context.Context, d time.Duration) error
}

func (b *boot) sleep(ctx context.Context, d time.Duration) error {
	return sleep(ctx, b.machine.scaled(d))
}

// ending is how the machine leaves its scripts; endNone: it is still in them.
type ending int

const (
	endNone ending = iota
	endKernel
	endLocalBoot
	endFatal
)

// interpreter runs iPXE scripts. A script that chains another one shares its
// settings and images with it.
type interpreter struct {
	host     host
	settings *settings
	platform string
	step     func(format string, args ...any)
	served   func(Served) // nil: nobody watches
	commands map[string]command

	images   []*loaded
	selected *loaded
	end      ending
	// why goes with endFatal.
	why error
	// ran counts the commands executed, depth the scripts chained.
	ran, depth int
}

// loaded is an image in iPXE's memory.
type loaded struct {
	Image
	kind   imageKind
	args   string
	script string   // of a script
	from   *url.URL // where it was loaded from
}

type imageKind int

const (
	kindUnknown imageKind = iota
	kindKernel
	kindInitrd
)

// frame is one running script.
type frame struct {
	lines []line
	from  *url.URL
	// pc is the next line.
	pc int
	// exited: the command exit was run; jumped: goto was.
	exited, jumped bool
	// replacement goes on in this script's place (--replace).
	replacement *loaded
}

func newInterpreter(h host, s *settings, platform string, step func(string, ...any)) *interpreter {
	return &interpreter{host: h, settings: s, platform: platform, step: step, commands: commands()}
}

// errExit is a script's exit status other than 0.
type errExit int

func (e errExit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// run executes a script to its end. A nil error is iPXE's success.
func (v *interpreter) run(ctx context.Context, text string, from *url.URL) error {
	if v.depth++; v.depth > maxDepth {
		return v.fatal(fmt.Errorf("scripts chain each other more than %d deep: look for a script that chains itself", maxDepth))
	}
	defer func() { v.depth-- }()
	for {
		f, err := v.runOne(ctx, text, from)
		if f == nil || f.replacement == nil || v.end != endNone {
			return err
		}
		text, from = f.replacement.script, f.replacement.from
	}
}

// runOne executes one script; the frame is nil when it is none.
func (v *interpreter) runOne(ctx context.Context, text string, from *url.URL) (*frame, error) {
	lines, err := parseScript(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	f := &frame{lines: lines, from: from}
	for f.pc < len(f.lines) {
		command := f.lines[f.pc].command
		f.pc++
		err := v.runLine(ctx, f, command)
		switch {
		case v.end != endNone:
			return f, v.why
		case f.exited || err != nil:
			return f, err
		}
	}
	return f, nil
}

// runLine executes the statements of a line one after another.
func (v *interpreter) runLine(ctx context.Context, f *frame, text string) error {
	var err error
	proceed := true
	for _, s := range parseCommand(text) {
		if proceed {
			err = v.execute(ctx, f, s.argv)
		}
		if jumped := f.jumped; jumped || f.exited || v.end != endNone {
			f.jumped = false
			return err
		}
		proceed = s.next.proceeds(err)
	}
	return err
}

// execute runs one command. No command is success: "chain … ||" ends a line
// whose failure does not matter.
func (v *interpreter) execute(ctx context.Context, f *frame, argv []string) error {
	if len(argv) == 0 {
		return nil
	}
	if v.ran++; v.ran > maxCommands {
		return v.fatal(fmt.Errorf("%s: more than %d commands were run: look for a loop without a counter", f.from, maxCommands))
	}
	if err := ctx.Err(); err != nil {
		return v.fatal(ctx.Err())
	}
	expanded := make([]string, len(argv))
	for i, token := range argv {
		expanded[i] = v.settings.expand(token)
	}
	v.step("$ %s", strings.Join(expanded, " "))
	run, ok := v.commands[expanded[0]]
	if !ok {
		return v.failed(fmt.Errorf("%s: command not found", expanded[0]))
	}
	args, err := parseOptions(run.options, expanded[1:])
	if err == nil {
		err = run.run(ctx, v, f, args)
	}
	if canceled := contextError(err); canceled != nil {
		return v.fatal(canceled)
	}
	var status errExit
	if err != nil && v.end == endNone && !errors.As(err, &status) {
		return v.failed(fmt.Errorf("%s: %w", expanded[0], err))
	}
	return err
}

// failed records a command's failure; what it means is up to the script.
func (v *interpreter) failed(err error) error {
	v.step("%v", err)
	return err
}

// fatal ends the machine's boot, past every || of every script.
func (v *interpreter) fatal(err error) error {
	v.end, v.why = endFatal, err
	return err
}

// kernel is what the machine started. Linux for EFI finds its initramfs by the
// name on its command line; without that an older kernel panics for want of a
// root file system (coreos/bugs#1239).
func (v *interpreter) kernel() (*Kernel, error) {
	k := &Kernel{Cmdline: v.selected.args, KernelSize: v.selected.Size, KernelSHA256: v.selected.SHA256}
	initrds := 0
	for _, image := range v.images {
		if image.kind != kindInitrd {
			continue
		}
		initrds++
		k.InitrdSize += image.Size
		k.InitrdSHA256 = image.SHA256
		if v.platform == EFI && !hasWord(k.Cmdline, "initrd="+image.Name) {
			return nil, fmt.Errorf("the kernel panics: it does not find its initramfs, because the command line lacks initrd=%s", image.Name)
		}
	}
	if initrds > 1 {
		k.InitrdSHA256 = ""
	}
	return k, nil
}

func hasWord(text, word string) bool {
	for w := range strings.FieldsSeq(text) {
		if w == word {
			return true
		}
	}
	return false
}
