package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/talos-provision/provision/provisioner/daemon"
)

// notifySystemd tells systemd that the daemon is ready, as soon as it serves its
// site or waits to, and then that it lives, until ctx ends. Without systemd it does nothing.
func notifySystemd(ctx context.Context, d *daemon.Daemon, log *slog.Logger) error {
	if err := d.Settled(ctx); err != nil {
		return nil // it ended before
	}
	notifyReady()
	defer func() { _, _ = systemd.SdNotify(false, systemd.SdNotifyStopping) }()
	interval, err := systemd.SdWatchdogEnabled(false)
	if err != nil || interval == 0 {
		if err != nil {
			log.Warn("systemd's watchdog cannot be told that the daemon lives", "error", err)
		}
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(interval / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			// A daemon that is stuck says nothing, and is started again: it goes on where it stopped (I8).
			if d.Lives(ctx) {
				_, _ = systemd.SdNotify(false, systemd.SdNotifyWatchdog+"\nSTATUS="+d.Standing())
			}
		}
	}
}

func notifyReady() { _, _ = systemd.SdNotify(false, systemd.SdNotifyReady) }

// notifyReloading says since when, as Type=notify-reload asks for.
func notifyReloading() {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return // without it systemd does not take it
	}
	since := time.Duration(now.Nano()).Microseconds()
	_, _ = systemd.SdNotify(false, fmt.Sprintf("%s\nMONOTONIC_USEC=%d", systemd.SdNotifyReloading, since))
}
