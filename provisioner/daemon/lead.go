package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
)

// leading is the daemon while it leads its site: the only time in which machines
// are served and worked on.
type leading struct {
	controller *provisioner.Controller
	services   Services
	ctx        context.Context // ends with the leadership
	jobs       sync.WaitGroup
	woken      chan struct{} // has room for one: look for work
	resumed    chan struct{} // closed when the runs that were cut short have their nodes again
	autoSeen   string        // what autoInstall has nothing more to do for
}

func (l *leading) wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// errLost says that another may lead the site now.
var errLost = errors.New("the leadership of the site was lost")

// campaign leads the site whenever it can, until ctx ends.
func (d *Daemon) campaign(ctx context.Context) error {
	for {
		d.stand("waits to lead the site: another controller does")
		standby := time.AfterFunc(standbyAfter, d.settle)
		leadership, err := d.opts.Store.Lead(ctx, d.opts.Site)
		standby.Stop()
		if err == nil {
			err = d.lead(ctx, leadership)
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was asked to end
		}
		d.stand(fmt.Sprintf("does not lead the site: %v", err))
		d.opts.Log.Error("the site is not led by this controller; it tries again", "site", d.opts.Site, "error", err)
		if !pause(ctx, retryInterval) {
			return nil
		}
	}
}

func (d *Daemon) stand(why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leading, d.standing = nil, why
}

// standbyAfter is how long a leadership that is not to be had at once is waited for
// before the daemon counts as one that stands by.
const standbyAfter = 3 * time.Second

func (d *Daemon) settle() { d.settling.Do(func() { close(d.settled) }) }

// lead serves the site until ctx ends, the leadership is lost, or a boot service dies.
func (d *Daemon) lead(ctx context.Context, leadership *store.Leadership) (err error) {
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), retryInterval)
		defer cancel()
		if errResign := leadership.Resign(bounded); errResign != nil {
			d.opts.Log.Warn("the leadership could not be handed on, which then takes its time", "error", errResign)
		}
	}()
	group, ctx := errgroup.WithContext(ctx)
	l, err := d.setUp(ctx)
	if err != nil {
		return err
	}
	defer l.services.Close()
	group.Go(func() error {
		select {
		case <-leadership.Lost():
			// At once: what it still does may take its time to end, and changes nothing any more.
			d.stand("has lost the leadership of the site")
			return errLost
		case <-ctx.Done():
			return nil
		}
	})
	group.Go(func() error {
		// A machine that boots for a run which was cut short must not be sent to its disk meanwhile:
		// the ports are bound, so that what it asks waits there.
		select {
		case <-l.resumed:
		case <-ctx.Done():
		}
		return l.services.Run(ctx)
	})
	group.Go(func() error {
		defer l.jobs.Wait()    // the machines that a run powers need the boot services to the end
		defer d.stand("stops") // no run begins from here on
		return d.work(l)
	})
	d.opts.Log.Info("this controller leads the site", "site", d.opts.Site)
	d.settle()
	return group.Wait()
}

// setUp makes the controller and the boot services of the generation in use, and listens.
func (d *Daemon) setUp(ctx context.Context) (*leading, error) {
	settings, g := d.now()
	controller, err := d.opts.Host.Controller(d.opts.Host.Inventory(g), d.told)
	if err != nil {
		return nil, err
	}
	services, err := d.opts.Host.Services(controller, g)
	if err != nil {
		return nil, err
	}
	if err := services.Listen(ctx); err != nil {
		return nil, err
	}
	controller.SetLimits(settings.Power, settings.Budgets)
	l := &leading{controller: controller, services: services, ctx: ctx, woken: make(chan struct{}, 1), resumed: make(chan struct{})}
	d.mu.Lock()
	d.leading, d.standing = l, ""
	newer := d.generation
	d.mu.Unlock()
	if newer.ID != g.ID { // it came while the services were made
		d.follow(l, newer)
	}
	return l, nil
}

// work looks for runs to go on with and nodes to install, now and whenever
// something may have changed.
func (d *Daemon) work(l *leading) error {
	d.takeUp(l)
	close(l.resumed)
	for {
		if err := d.opts.Store.Alive(); err == nil {
			d.resume(l)
			d.autoInstall(l)
		}
		timer := time.NewTimer(retryInterval)
		select {
		case <-l.ctx.Done():
			timer.Stop()
			return nil
		case <-l.woken:
			timer.Stop()
		case <-timer.C:
		}
	}
}
