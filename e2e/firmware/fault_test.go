package firmware_test

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/talos-provision/provision/e2e/firmware"
)

func TestMachineStandsStill(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, platform string
		set            func(*lab)
		want           string
		localBoot      bool
		silent         bool // nothing answers, so that waiting longer is of no use
	}{
		{"exit 0 on UEFI", firmware.EFI, func(l *lab) { l.files["autoexec.ipxe"] = "#!ipxe\nexit\n" }, "opens its setup menu", false, false},
		{"iPXE is not recognised", firmware.PCBIOS, func(l *lab) {
			l.answer = func(_, reply *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
				reply.UpdateOption(dhcpv4.OptBootFileName("undionly.kpxe"))
				return reply
			}
		}, "boot loop", false, false},
		{"kernel without its initramfs", firmware.EFI, func(l *lab) {
			l.pages["/boot.ipxe"] = "#!ipxe\nkernel /vmlinuz a\ninitrd --name i /initramfs-amd64.xz\nboot\n"
		}, "lacks initrd=i", false, false},
		{"no DHCP server", firmware.EFI, func(l *lab) {
			l.answer = func(_, _ *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 { return nil }
		}, "no answer to DHCP DISCOVER", true, true},
		{"offer without a boot file", firmware.EFI, func(l *lab) {
			l.answer = func(_, reply *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
				delete(reply.Options, 67)
				return reply
			}
		}, "PXE-E53", true, true},
		{"offer marked PXEClient without discovery control", firmware.EFI, func(l *lab) {
			l.answer = func(_, reply *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
				reply.UpdateOption(dhcpv4.OptClassIdentifier("PXEClient"))
				return reply
			}
		}, "PXE-E16", true, true},
		{"ACK without a lease time", firmware.EFI, func(l *lab) {
			l.answer = func(_, reply *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
				delete(reply.Options, 51)
				return reply
			}
		}, "PXE-E21", true, false},
		{"NAK", firmware.EFI, func(l *lab) {
			l.answer = func(request, reply *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
				if request.MessageType() == dhcpv4.MessageTypeRequest {
					reply.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageTypeNak))
				}
				return reply
			}
		}, "refused (NAK)", true, false},
		{"boot file missing", firmware.EFI, func(l *lab) { delete(l.files, "snponly.efi") }, "TFTP error 1", true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, install, tt.set)
			m := l.machine(tt.platform)
			if tt.silent {
				m.MinRetry = 20 * time.Millisecond
			}
			got, err := l.boot(m)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want it to contain %q", err, tt.want)
			}
			if got.LocalBoot != tt.localBoot || got.Kernel != nil {
				t.Errorf("outcome = %+v, want LocalBoot %v and no kernel", got, tt.localBoot)
			}
		})
	}
}

func TestMachineStopsAfterItsLease(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	m := l.machine(firmware.EFI)
	m.Faults.StopAfterLease = true
	got, err := l.boot(m)
	want := firmware.Outcome{Leased: netip.MustParseAddr("127.66.0.86")}
	if diff := cmp.Diff(want, got, withoutSteps, addresses); diff != "" || err != nil {
		t.Errorf("error %v, outcome (-want +got):\n%s", err, diff)
	}
	if _, tftpRead, _ := l.seen(); len(tftpRead) != 0 {
		t.Errorf("TFTP requests: %v, want none", tftpRead)
	}
}

func TestLostPacketsAreSentAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t, install, func(l *lab) { l.files["snponly.efi"] = strings.Repeat(program, 500) })
	m := l.machine(firmware.EFI)
	m.Faults.Loss, m.MinRetry = 0.15, 50*time.Millisecond
	got, err := l.boot(m)
	if err != nil || got.Kernel == nil {
		t.Fatalf("outcome = %+v, %v, want a kernel", got, err)
	}
	if want := sum(l.files["snponly.efi"]); got.NetworkProgram.SHA256 != want {
		t.Errorf("boot file = %+v, want digest %s", got.NetworkProgram, want)
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	var busy atomic.Int32
	l := newLab(t, install, func(l *lab) {
		l.serve = func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/vmlinuz" && busy.Add(1) <= 3 {
				w.Header().Set("Retry-After", "3")
				w.Header().Set("Content-Length", "0")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("Content-Length", strconv.Itoa(len(l.pages[r.URL.Path])))
			_, _ = w.Write([]byte(l.pages[r.URL.Path]))
		}
	})
	got, err := l.boot(l.machine(firmware.EFI))
	if err != nil || got.Kernel == nil {
		t.Errorf("outcome = %+v, %v, want a kernel", got, err)
	}
	if n := busy.Load(); n != 4 {
		t.Errorf("%d requests for the kernel, want 4", n)
	}
}

func TestDownloadsThatAreNotWholeFail(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"short body": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("short"))
		}, "after 5 of 100 bytes"},
		"no Content-Length": {func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			_, _ = w.Write([]byte("#!ipxe\nexit 0\n"))
		}, "no Content-Length"},
		"error": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "500 Internal Server Error"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, install, func(l *lab) { l.serve = tt.serve })
			got, err := l.boot(l.machine(firmware.EFI))
			if err != nil || !got.LocalBoot || !strings.Contains(strings.Join(got.Steps, "\n"), tt.want) {
				t.Errorf("outcome = %+v, %v, want a local boot after %q", got, err, tt.want)
			}
		})
	}
}

func TestBootEndsWithItsContext(t *testing.T) {
	t.Parallel()
	started := make(chan struct{})
	l := newLab(t, install, func(l *lab) {
		l.serve = func(_ http.ResponseWriter, r *http.Request) {
			close(started)
			<-r.Context().Done()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	outcome, err := l.machine(firmware.EFI).NetworkBoot(ctx, l.relay)
	if !errors.Is(err, context.Canceled) || outcome.LocalBoot {
		t.Errorf("outcome = %+v, %v, want context.Canceled", outcome, err)
	}
}

func TestMachineRefusesWhatItCannotBe(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for want, m := range map[string]firmware.Machine{
		"no firmware is emulated": {MAC: "52:54:00:00:00:01", Platform: "openfirmware"},
		"invalid MAC address":     {MAC: "x"},
	} {
		if _, err := m.NetworkBoot(t.Context(), l.relay); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want it to contain %q", err, want)
		}
	}
	if _, err := firmware.NewRelay(netip.MustParseAddrPort("0.0.0.0:0"), l.relay.Addr()); err == nil {
		t.Error("a relay without an address of its own was opened")
	}
}
