package firmware

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// chainCommand loads an image and runs it: a script here.
func chainCommand(ctx context.Context, v *interpreter, f *frame, args arguments) error {
	var text strings.Builder
	image, err := v.load(ctx, f, args, &text, maxScript)
	if err != nil {
		return err
	}
	image.script = text.String()
	return v.exec(ctx, f, image, args)
}

// bootCommand runs an image: the named one, else the selected one.
func bootCommand(ctx context.Context, v *interpreter, f *frame, args arguments) error {
	image := v.selected
	if len(args.rest) > 0 {
		if image = v.find(args.rest[0]); image == nil {
			return fmt.Errorf("no such image %s", args.rest[0])
		}
		if len(args.rest) > 1 {
			image.args = strings.Join(args.rest[1:], " ")
		}
	}
	if image == nil {
		return errors.New("no image is selected")
	}
	return v.exec(ctx, f, image, args)
}

// exec hands the machine over to an image. Only Linux and scripts are
// emulated: anything else is an exec format error.
func (v *interpreter) exec(ctx context.Context, f *frame, image *loaded, args arguments) error {
	if image.kind == kindKernel {
		v.selected, v.end = image, endKernel
		return nil
	}
	if _, free := args.options["autofree"]; free {
		v.free(image)
	}
	if _, replace := args.options["replace"]; replace {
		// The other script takes the place of this one, whose end it is, so that they do not nest.
		if _, err := parseScript(image.script); err != nil {
			return err
		}
		f.replacement, f.exited = image, true
		return nil
	}
	err := v.run(ctx, image.script, image.from)
	if err != nil && v.end == endNone {
		return fmt.Errorf("could not boot: %w", err)
	}
	return err
}

func imgargsCommand(_ context.Context, v *interpreter, _ *frame, args arguments) error {
	if len(args.rest) == 0 {
		return errUsage
	}
	image := v.find(args.rest[0])
	if image == nil {
		return fmt.Errorf("no such image %s", args.rest[0])
	}
	image.args = strings.Join(args.rest[1:], " ")
	return nil
}

// imgfreeCommand drops the named images, or all.
func imgfreeCommand(_ context.Context, v *interpreter, _ *frame, args arguments) error {
	if len(args.rest) == 0 {
		v.images, v.selected = nil, nil
		return nil
	}
	for _, name := range args.rest {
		image := v.find(name)
		if image == nil {
			return fmt.Errorf("no such image %s", name)
		}
		v.free(image)
	}
	return nil
}

func (v *interpreter) free(image *loaded) {
	v.images = slices.DeleteFunc(v.images, func(l *loaded) bool { return l == image })
	if v.selected == image {
		v.selected = nil
	}
}

// find is the image of that name; nil when there is none.
func (v *interpreter) find(name string) *loaded {
	for _, image := range v.images {
		if image.Name == name {
			return image
		}
	}
	return nil
}
