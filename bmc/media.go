package bmc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Medium is one virtual CD drive of a BMC.
type Medium struct {
	// Device is the path of the drive's resource.
	Device string `json:"device"`
	// Inserted tells whether the machine sees a medium.
	Inserted bool `json:"inserted"`
	// Image is its URI as the BMC shows it. Some BMCs go on showing it after the
	// ejection (community.general#6969).
	Image string `json:"image,omitempty"`
}

// Bounds of the work with media, far above what is needed.
const (
	maxDrives     = 16
	maxDriveTries = 3 // drives that an image is offered to
	maxMediaTries = 12
	maxMediaLooks = 10
)

// Media lists the virtual CD drives.
func (c *Client) Media(ctx context.Context) ([]Medium, error) {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	drives, err := c.drives(ctx)
	if err != nil {
		return nil, c.explain("list the virtual media", err)
	}
	out := make([]Medium, 0, len(drives))
	for _, d := range drives {
		out = append(out, Medium{Device: d.path, Inserted: d.inserted(), Image: string(d.Image)})
	}
	return out, nil
}

// InsertMedia puts the image at a URI, which the BMC must reach, into the first
// virtual CD drive, in place of what is there, and reads it back. It does nothing
// when the image is in a drive already. It does not arm the boot; Arm does both.
func (c *Client) InsertMedia(ctx context.Context, uri string) error {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	_, err := aimOf(BootRequest{Kind: BootMedia, MediaURI: uri}, c.mode)
	if err == nil {
		_, err = c.insert(ctx, uri)
	}
	return c.explain("insert the virtual medium", err)
}

// EjectMedia empties the drive that this client put an image into, else every
// virtual CD drive whose image came from a URI. It does nothing when there is
// none, and none when the BMC has no virtual CD.
func (c *Client) EjectMedia(ctx context.Context) error {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	err := c.eject(ctx, "")
	if errors.Is(err, ErrNoMedia) {
		err = nil
	}
	return c.explain("eject the virtual medium", err)
}

// insert tells whether it changed anything.
func (c *Client) insert(ctx context.Context, uri string) (changed bool, err error) {
	drives, err := c.drives(ctx)
	if err != nil {
		return false, err
	}
	if i := slices.IndexFunc(drives, func(d *driveDocument) bool { return d.holds(uri) }); i >= 0 {
		c.remember(drives[i].path)
		return false, nil
	}
	var last error
	for _, d := range drives[:min(len(drives), maxDriveTries)] {
		if d.inserted() {
			c.log.WarnContext(ctx, "replace the virtual medium", "drive", d.path, "image", c.secrets.scrub(string(d.Image)))
			if err := c.changeDrive(ctx, d, d.ejections(), func(d *driveDocument) bool { return !d.inserted() }); err != nil {
				last = err
				if ending(ctx, err) {
					break
				}
				continue
			}
		}
		c.remember(d.path) // from here on it may be in, whatever comes back
		err := c.changeDrive(ctx, d, d.insertions(uri), func(d *driveDocument) bool { return d.holds(uri) })
		if err == nil {
			return true, nil
		}
		if last = err; ending(ctx, err) {
			return false, err
		}
	}
	c.remember("")
	return false, last
}

func (c *Client) remember(drive string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.medium = drive
}

// eject empties the drive of this client, else the drives with a URI's image:
// that one, or any when uri is "".
func (c *Client) eject(ctx context.Context, uri string) error {
	c.mu.Lock()
	own := c.medium
	c.mu.Unlock()
	var drives []*driveDocument
	var err error
	if own != "" {
		var d *driveDocument
		d, err = c.readDrive(ctx, own)
		drives = []*driveDocument{d}
	} else {
		drives, err = c.drives(ctx)
	}
	if err != nil {
		return err
	}
	var all error
	for _, d := range drives {
		mine := own != "" || uri != "" && d.holds(uri) || uri == "" && webURI(string(d.Image))
		if !mine || !d.inserted() {
			continue
		}
		all = errors.Join(all, c.changeDrive(ctx, d, d.ejections(), func(d *driveDocument) bool { return !d.inserted() }))
	}
	if all == nil {
		c.remember("")
	}
	return all
}

// ending tells that no other drive or way can help.
func ending(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, ErrUnauthorized) || errors.Is(err, ErrLicence) || errors.Is(err, ErrNotPermitted) || errors.Is(err, ErrClosed)
}

// changeDrive tries the ways in turn until the drive shows what is wanted.
func (c *Client) changeDrive(ctx context.Context, d *driveDocument, ways []driveWrite, done func(*driveDocument) bool) error {
	var last error
	tries := 0
	for _, way := range ways {
		tags := append(tagForms(d.etag, false), tagForms("", true)...)
		if way.method == http.MethodPost {
			tags = append([]map[string]string{nil}, tags...) // actions mostly want none
		}
		for _, tag := range tags {
			if tries++; tries > maxMediaTries {
				break
			}
			a, err := c.write(ctx, request{method: way.method, path: way.path, payload: way.payload, headers: tag})
			if err == nil {
				err = c.follow(ctx, a)
			}
			if err != nil && ending(ctx, err) {
				return c.unsure(ctx, d, err, done)
			}
			// Looking is worth it after a refusal too: it may be there already,
			// or an answer may have got lost.
			looks := maxMediaLooks
			r, refused := errors.AsType[*refusal](err)
			if refused {
				looks = 1
			}
			shown, now, lookErr := c.lookAtDrive(ctx, d.path, looks, done)
			if shown {
				return nil
			}
			if lookErr != nil && ending(ctx, lookErr) {
				return c.unsure(ctx, d, lookErr, done)
			}
			if now != nil {
				d = now
			}
			if last = err; err == nil {
				last = fmt.Errorf("it said yes to %s %s and shows %s", way.method, way.path, d)
			}
			if refused && r.busy() {
				if err := sleep(ctx, max(c.cfg.Timeouts.Poll, r.after)); err != nil {
					return fmt.Errorf("%w: %w; last: %w", ErrMediaRefused, err, last)
				}
				continue
			}
			if !refused || r.status != http.StatusPreconditionFailed && r.status != http.StatusPreconditionRequired {
				break // another header changes nothing
			}
		}
	}
	return fmt.Errorf("%w: %w", ErrMediaRefused, last)
}

// unsure ends a change that was cut off: it says so unless the drive shows that
// it was done.
func (c *Client) unsure(ctx context.Context, d *driveDocument, err error, done func(*driveDocument) bool) error {
	cause := context.Cause(ctx)
	if cause == nil {
		return err
	}
	if !errors.Is(err, cause) {
		err = fmt.Errorf("%w; last: %w", cause, err)
	}
	grace, cancel := within(context.WithoutCancel(ctx), c.cfg.Timeouts.Logout)
	defer cancel()
	if shown, _, _ := c.lookAtDrive(grace, d.path, 1, done); shown {
		return fmt.Errorf("%w; the change of the virtual medium in %s was done all the same", err, d.path)
	}
	return fmt.Errorf("%w; the virtual medium in %s may have been changed", err, d.path)
}

func (c *Client) lookAtDrive(ctx context.Context, path string, looks int, done func(*driveDocument) bool) (bool, *driveDocument, error) {
	var d *driveDocument
	for look := range looks {
		if look > 0 {
			if err := sleep(ctx, c.cfg.Timeouts.Poll); err != nil {
				return false, d, fmt.Errorf("the virtual medium was sent and is not shown: %w", err)
			}
		}
		now, err := c.readDrive(ctx, path)
		if err != nil {
			return false, d, err
		}
		if d = now; done(d) {
			return true, d, nil
		}
	}
	return false, d, nil
}

// String is what a drive shows, for an error.
func (d *driveDocument) String() string {
	if !d.inserted() {
		return "an empty drive"
	}
	if d.Image == "" {
		return "another medium"
	}
	return strings.TrimSpace("the medium " + string(d.Image))
}
