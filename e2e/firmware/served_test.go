package firmware_test

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/firmware"
)

func TestWhatAMachineIsServedIsTold(t *testing.T) {
	t.Parallel()
	lease := firmware.Served{Lease: netip.MustParseAddr("127.66.0.86")}
	for name, tt := range map[string]struct {
		set  func(*lab)
		want []firmware.Served
	}{
		"an install":        {install, []firmware.Served{lease, lease, {InstallScript: true}, {Kernel: true}}},
		"its own disk":      {func(l *lab) { l.pages["/boot.ipxe"] = "#!ipxe\nexit 1\n" }, []firmware.Served{lease, lease}},
		"no kernel is sent": {func(l *lab) { l.pages["/boot.ipxe"] = "#!ipxe\nkernel /nothing a\n" }, []firmware.Served{lease, lease, {InstallScript: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, tt.set)
			m := l.machine(firmware.EFI)
			var got []firmware.Served
			m.OnServed = func(s firmware.Served) { got = append(got, s) }
			if _, err := l.boot(m); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, addresses); diff != "" {
				t.Errorf("served (-want +got):\n%s", diff)
			}
		})
	}
}

// The kernel is asked for and begun, and never ends until the power goes.
func TestADownloadStallsUntilThePowerGoes(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	l := newLab(t, install, func(l *lab) {
		l.serve = func(w http.ResponseWriter, r *http.Request) {
			page := l.pages[r.URL.Path]
			if r.URL.Path == "/vmlinuz" {
				page = strings.Repeat("k", 1<<20)
				close(asked)
			}
			w.Header().Set("Content-Length", strconv.Itoa(len(page)))
			_, _ = w.Write([]byte(page))
		}
	})
	m := l.machine(firmware.EFI)
	m.Faults.StallAfter = 64 << 10
	served := make(chan firmware.Served, 10)
	m.OnServed = func(s firmware.Served) { served <- s }
	ctx, powerOff := context.WithCancel(t.Context())
	go func() { <-asked; powerOff() }()
	outcome, err := m.NetworkBoot(ctx, l.relay)
	close(served)
	if !errors.Is(err, context.Canceled) || outcome.Kernel != nil || outcome.LocalBoot {
		t.Errorf("outcome = %+v, %v, want it to hang until its power goes", outcome, err)
	}
	for s := range served {
		if s.Kernel {
			t.Error("a kernel was served whole")
		}
	}
}

func TestAnotherSeedLosesOtherPackets(t *testing.T) {
	t.Parallel()
	arrived := map[string]bool{}
	for seed := range uint64(6) {
		l := newLab(t, install)
		m := l.machine(firmware.EFI)
		m.Faults.Loss, m.Faults.Seed, m.MinRetry = 0.4, seed, 20*time.Millisecond
		_, _ = l.boot(m) // far enough to have lost some
		packets, tftpRead, urls := l.seen()
		what := make([]string, 0, len(packets))
		for _, p := range packets {
			what = append(what, p.MessageType().String())
		}
		arrived[strings.Join(slices.Concat(what, tftpRead, urls), " ")] = true
	}
	if len(arrived) < 2 {
		t.Errorf("what arrived is the same for every seed: %v", arrived)
	}
}
