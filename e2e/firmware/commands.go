package firmware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxSleep bounds one sleep of a script.
const maxSleep = 10 * time.Minute

// command is one of iPXE's. Its options are "name" for a flag and "name=" for
// one with an argument; the short form is the first letter.
type command struct {
	options []string
	run     func(ctx context.Context, v *interpreter, f *frame, args arguments) error
}

// arguments of a command, its options taken off.
type arguments struct {
	options map[string]string
	rest    []string
}

// commands are those that every build of iPXE has, a BIOS one too.
func commands() map[string]command {
	load := []string{"name=", "timeout=", "autofree"}
	return map[string]command{
		"#":        {nil, succeed},
		"boot":     {[]string{"autofree", "replace"}, bootCommand},
		"chain":    {[]string{"name=", "timeout=", "autofree", "replace"}, chainCommand},
		"clear":    {nil, clearCommand},
		"dhcp":     {[]string{"configurator=", "timeout="}, dhcpCommand},
		"echo":     {[]string{"n"}, succeed},
		"exit":     {nil, exitCommand},
		"goto":     {nil, gotoCommand},
		"ifclose":  {nil, succeed},
		"ifconf":   {[]string{"configurator=", "timeout="}, dhcpCommand},
		"ifopen":   {nil, succeed},
		"ifstat":   {nil, succeed},
		"imgargs":  {nil, imgargsCommand},
		"imgexec":  {[]string{"autofree", "replace"}, bootCommand},
		"imgfetch": {load, loadCommand(kindUnknown)},
		"imgfree":  {nil, imgfreeCommand},
		"imgstat":  {nil, succeed},
		"inc":      {nil, incCommand},
		"initrd":   {load, loadCommand(kindInitrd)},
		"iseq":     {nil, iseqCommand},
		"isset":    {nil, issetCommand},
		"kernel":   {load, loadCommand(kindKernel)},
		"module":   {load, loadCommand(kindInitrd)},
		"prompt":   {[]string{"key=", "timeout="}, promptCommand},
		"reboot":   {[]string{"warm"}, rebootCommand},
		"route":    {nil, succeed},
		"sanboot":  {[]string{"no-describe", "keep", "drive=", "filename="}, sanbootCommand},
		"set":      {nil, setCommand},
		"sleep":    {nil, sleepCommand},
	}
}

// parseOptions takes the options before the first other argument, as iPXE's
// getopt does: what follows a kernel's URL is the kernel's, dashes or not.
func parseOptions(known []string, argv []string) (arguments, error) {
	args := arguments{options: map[string]string{}}
	for len(argv) > 0 && len(argv[0]) > 1 && argv[0][0] == '-' {
		if argv[0] == "--" {
			argv = argv[1:]
			break
		}
		given, value, inline := strings.Cut(strings.TrimLeft(argv[0], "-"), "=")
		i := slices.IndexFunc(known, func(name string) bool {
			long := strings.TrimSuffix(name, "=")
			return given == long || len(given) == 1 && strings.HasPrefix(long, given)
		})
		if i < 0 {
			return args, fmt.Errorf("unrecognised option %s", argv[0])
		}
		argv = argv[1:]
		name, wantsValue := strings.CutSuffix(known[i], "=")
		if wantsValue && !inline {
			if len(argv) == 0 {
				return args, fmt.Errorf("option --%s needs an argument", name)
			}
			value, argv = argv[0], argv[1:]
		}
		args.options[name] = value
	}
	args.rest = argv
	return args, nil
}

func succeed(context.Context, *interpreter, *frame, arguments) error { return nil }

func setCommand(_ context.Context, v *interpreter, _ *frame, args arguments) error {
	if len(args.rest) == 0 {
		return errUsage
	}
	return v.settings.store(args.rest[0], strings.Join(args.rest[1:], " "))
}

func clearCommand(_ context.Context, v *interpreter, _ *frame, args arguments) error {
	if len(args.rest) != 1 {
		return errUsage
	}
	return v.settings.store(args.rest[0], "")
}

var errUsage = errors.New("wrong number of arguments")

func issetCommand(_ context.Context, _ *interpreter, _ *frame, args arguments) error {
	if len(args.rest) != 1 {
		return errUsage
	}
	if args.rest[0] == "" {
		return errors.New("not set")
	}
	return nil
}

func iseqCommand(_ context.Context, _ *interpreter, _ *frame, args arguments) error {
	if len(args.rest) != 2 {
		return errUsage
	}
	if args.rest[0] != args.rest[1] {
		return errors.New("not equal")
	}
	return nil
}

func incCommand(_ context.Context, v *interpreter, _ *frame, args arguments) error {
	if len(args.rest) < 1 || len(args.rest) > 2 {
		return errUsage
	}
	by := int64(1)
	if len(args.rest) == 2 {
		var err error
		if by, err = strconv.ParseInt(args.rest[1], 0, 32); err != nil {
			return err
		}
	}
	name, _ := splitName(args.rest[0])
	// What is no number counts as 0.
	now, _ := strconv.ParseInt(v.settings.value(name), 0, 32)
	return v.settings.store(name, strconv.FormatInt(now+by, 10))
}

func gotoCommand(_ context.Context, _ *interpreter, f *frame, args arguments) error {
	if len(args.rest) != 1 {
		return errUsage
	}
	target := slices.IndexFunc(f.lines, func(l line) bool { return l.label != "" && l.label == args.rest[0] })
	if target < 0 {
		return fmt.Errorf("no such label :%s", args.rest[0])
	}
	f.pc, f.jumped = target, true
	return nil
}

func exitCommand(_ context.Context, _ *interpreter, f *frame, args arguments) error {
	status := uint64(0)
	if len(args.rest) > 0 {
		var err error
		if status, err = strconv.ParseUint(args.rest[0], 0, 31); err != nil {
			return err
		}
	}
	f.exited = true
	if status != 0 {
		return errExit(status)
	}
	return nil
}

func sleepCommand(ctx context.Context, v *interpreter, _ *frame, args arguments) error {
	if len(args.rest) != 1 {
		return errUsage
	}
	s, err := strconv.ParseUint(args.rest[0], 0, 31)
	if err != nil {
		return err
	}
	return v.host.sleep(ctx, min(time.Duration(s)*time.Second, maxSleep))
}

// promptCommand: nobody is there to press a key.
func promptCommand(ctx context.Context, v *interpreter, _ *frame, args arguments) error {
	timeout, err := strconv.ParseUint(args.options["timeout"], 0, 31)
	if err != nil || timeout == 0 {
		return v.fatal(errors.New("the script waits at a prompt for ever"))
	}
	if err := v.host.sleep(ctx, min(time.Duration(timeout)*time.Millisecond, maxSleep)); err != nil {
		return err
	}
	return errors.New("no key was pressed")
}

func rebootCommand(_ context.Context, v *interpreter, _ *frame, _ arguments) error {
	return v.fatal(errors.New("the script reboots the machine"))
}

func dhcpCommand(ctx context.Context, v *interpreter, _ *frame, _ arguments) error {
	return v.host.dhcpAsIPXE(ctx)
}

// sanbootCommand boots a local disk by its BIOS number. UEFI has no such numbers (ipxe#447).
func sanbootCommand(_ context.Context, v *interpreter, _ *frame, args arguments) error {
	if v.platform != PCBIOS || args.options["drive"] != "0x80" || len(args.rest) > 0 {
		return errors.New("could not boot: only drive 0x80 of a BIOS is emulated")
	}
	v.end = endLocalBoot
	return nil
}

// resolve makes a URL of an argument, relative to the script that it is in.
func resolve(f *frame, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	return f.from.ResolveReference(u), nil
}

// loadCommand downloads an image. kernel selects it, too.
func loadCommand(kind imageKind) func(context.Context, *interpreter, *frame, arguments) error {
	return func(ctx context.Context, v *interpreter, f *frame, args arguments) error {
		if kind == kindKernel {
			v.tell(Served{InstallScript: true})
		}
		image, err := v.load(ctx, f, args, io.Discard, maxImage)
		if err != nil {
			return err
		}
		image.kind = kind
		if kind == kindKernel {
			v.selected = image
			v.tell(Served{Kernel: true})
		}
		return nil
	}
}

func (v *interpreter) tell(what Served) {
	if v.served != nil {
		v.served(what)
	}
}

// load downloads what a command names and keeps it under its name: that of
// the option, else the last part of the path.
func (v *interpreter) load(ctx context.Context, f *frame, args arguments, w io.Writer, limit int64) (*loaded, error) {
	if len(args.rest) == 0 {
		return nil, errUsage
	}
	if len(v.images) >= maxImages {
		return nil, errors.New("out of memory")
	}
	u, err := resolve(f, args.rest[0])
	if err != nil {
		return nil, err
	}
	image, err := v.host.fetch(ctx, u, w, limit)
	if err != nil {
		return nil, err
	}
	v.step("%s, %d bytes", u, image.Size)
	image.Name = path.Base(u.Path)
	if name := args.options["name"]; name != "" {
		image.Name = name
	}
	l := &loaded{Image: image, args: strings.Join(args.rest[1:], " "), from: u}
	v.images = append(v.images, l)
	return l, nil
}
