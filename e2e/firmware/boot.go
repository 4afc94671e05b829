package firmware

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"time"
)

const (
	defaultTimeout = 10 * time.Minute
	tftpPort       = 69
	// maxProgram bounds a boot file: real ones have 100 KB to 1 MB.
	maxProgram = 16 << 20
	// maxScript bounds a script; iPXE holds it in its heap of 512 KB.
	maxScript = 256 << 10
	// maxImage bounds a kernel or initramfs.
	maxImage = 8 << 30
	// maxStepsKept bounds Outcome.Steps.
	maxStepsKept = 2000
	// autoexec is the script that iPXE for EFI looks for beside itself (since 2022).
	autoexec = "autoexec.ipxe"
)

// boot is one network boot of one machine. One goroutine runs it.
type boot struct {
	machine Machine
	profile profile
	mac     net.HardwareAddr
	relay   *Relay
	lease   lease
	http    *http.Client
	random  *rand.Rand
	log     *slog.Logger
	outcome Outcome
}

// NetworkBoot boots the machine from the network once: the ROM's DHCP, the
// boot file by TFTP, then iPXE and its script, until Linux has its kernel and
// initramfs or iPXE gives up, which is no error: Outcome.LocalBoot is set.
// An error says that the ROM did not get as far as iPXE (the firmware then goes
// on to its local disk, LocalBoot is set as well), or where the machine stands
// still. The outcome is always how far it came. It ends with ctx and never
// takes longer than Timeout.
func (m Machine) NetworkBoot(ctx context.Context, r *Relay) (Outcome, error) {
	return m.boot(ctx, r, (*boot).run)
}

// boot bounds one boot of any kind.
func (m Machine) boot(ctx context.Context, r *Relay, run func(*boot, context.Context) error) (Outcome, error) {
	b, err := m.newBoot(r)
	if err != nil {
		return Outcome{}, fmt.Errorf("network boot of %s: %w", m.MAC, err)
	}
	timeout := m.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer b.http.CloseIdleConnections()
	if err := run(b, ctx); err != nil {
		return b.outcome, fmt.Errorf("network boot of %s: %w", m.MAC, err)
	}
	return b.outcome, nil
}

func (m Machine) newBoot(r *Relay) (*boot, error) {
	if m.Platform == "" {
		m.Platform = EFI
	}
	if m.Arch == "" {
		m.Arch = AMD64
	}
	if m.TFTPPort == 0 {
		m.TFTPPort = tftpPort
	}
	p, ok := profiles[[2]string{m.Platform, m.Arch}]
	if !ok {
		return nil, fmt.Errorf("no firmware is emulated for platform %q on %q; there are efi on amd64 and arm64, and pcbios on amd64", m.Platform, m.Arch)
	}
	mac, err := net.ParseMAC(m.MAC)
	if err != nil {
		return nil, err
	}
	if m.Log == nil {
		m.Log = slog.New(slog.DiscardHandler)
	}
	seed := fnv.New64a()
	_, _ = seed.Write(mac)
	b := &boot{
		machine: m, profile: p, mac: mac, relay: r,
		random: rand.New(rand.NewPCG(seed.Sum64(), m.Faults.Seed)),
		log:    m.Log.With("mac", mac.String()),
	}
	b.http = b.newHTTPClient()
	return b, nil
}

func (b *boot) run(ctx context.Context) error {
	err := b.dhcp(ctx, b.rom())
	if err == nil && b.machine.Faults.StopAfterLease {
		b.step("stopped after the lease, as asked")
		return nil
	}
	server := netip.AddrPortFrom(b.lease.next, uint16(b.machine.TFTPPort))
	if err == nil {
		err = b.loadProgram(ctx, server, b.lease.file)
	}
	if err != nil {
		b.outcome.LocalBoot = ctx.Err() == nil
		return err
	}
	return b.runIPXE(ctx, server)
}

// dhcp takes a lease as one of the machine's clients.
func (b *boot) dhcp(ctx context.Context, c client) error {
	l, err := b.exchange(ctx, c)
	if err != nil {
		return err
	}
	b.lease, b.outcome.Leased = l, l.address
	b.served(Served{Lease: l.address})
	return nil
}

// loadProgram gets the boot file as the ROM does: its size first, then the file.
func (b *boot) loadProgram(ctx context.Context, server netip.AddrPort, name string) error {
	size, err := b.probeSize(ctx, server, name)
	if err != nil {
		return err
	}
	b.step("TFTP size of %s is %d", name, size)
	var h head
	program, err := b.download(ctx, server, name, &h, maxProgram, "blksize", fmt.Sprint(b.profile.blksize))
	if err != nil {
		return err
	}
	if program.Size != size {
		return fmt.Errorf("boot file %s has %d bytes, but the server said %d", name, program.Size, size)
	}
	b.outcome.NetworkProgram = program
	b.step("TFTP %s, %d bytes", name, program.Size)
	_, err = b.start(program, &h)
	return err
}

// runIPXE is what iPXE does when it starts. For EFI it runs the autoexec
// script beside it, if there is one, before it opens any interface; else it
// asks DHCP and boots what that says.
func (b *boot) runIPXE(ctx context.Context, server netip.AddrPort) error {
	if b.machine.Platform == EFI {
		name := path.Join(path.Dir(b.outcome.NetworkProgram.Name), autoexec)
		if script := b.fetchAutoexec(ctx, server, name); script != "" {
			return b.runScript(ctx, script, &url.URL{Scheme: "tftp", Host: server.String(), Path: "/" + name})
		}
	}
	if err := b.dhcpAsIPXE(ctx); err != nil {
		return err
	}
	return b.autoboot(ctx)
}

// fetchAutoexec is "" when there is no such file, which is no error.
func (b *boot) fetchAutoexec(ctx context.Context, server netip.AddrPort, name string) string {
	var script bytes.Buffer
	if _, err := b.download(ctx, server, name, &script, maxScript, "blksize", "1432", "tsize", "0"); err != nil {
		b.step("%v; going on with DHCP", err)
		return ""
	}
	b.step("TFTP %s, %d bytes", name, script.Len())
	return script.String()
}

// dhcpAsIPXE takes a lease as iPXE; unless told not to, it waits for a
// ProxyDHCP offer as well.
func (b *boot) dhcpAsIPXE(ctx context.Context) error {
	if err := b.dhcp(ctx, b.ipxe()); err != nil {
		return err
	}
	if b.lease.noProxy {
		return nil
	}
	b.step("iPXE: waiting for a ProxyDHCP offer")
	return sleep(ctx, b.machine.scaled(2*time.Second))
}

// autoboot boots the file name that DHCP gave iPXE.
func (b *boot) autoboot(ctx context.Context) error {
	name := newSettings(b).expand(b.lease.file)
	u, err := url.Parse(name)
	if err != nil || name == "" {
		return b.giveUp(fmt.Errorf("the DHCP server gave iPXE no URL to boot, but %q", name), false)
	}
	if u.Scheme == "" {
		return fmt.Errorf("boot loop: the DHCP server gave iPXE the boot file %q again; it must recognise iPXE (option 77 or 175) and give it the URL of a script", name)
	}
	var script bytes.Buffer
	if _, err := b.fetch(ctx, u, &script, maxScript); err != nil {
		return b.giveUp(err, false)
	}
	b.step("%s, %d bytes", u, script.Len())
	return b.runScript(ctx, script.String(), u)
}

// runScript follows a script and makes its end the machine's.
func (b *boot) runScript(ctx context.Context, script string, from *url.URL) error {
	v := newInterpreter(b, newSettings(b), b.machine.Platform, b.step)
	v.served = b.served
	err := v.run(ctx, script, from)
	switch v.end {
	case endKernel:
		b.outcome.Kernel, err = v.kernel()
		return err
	case endLocalBoot:
		b.outcome.LocalBoot = true
		b.step("booting the local disk")
		return nil
	case endFatal:
		return err
	default:
		return b.giveUp(err, true)
	}
}

// giveUp is iPXE's return to the firmware. A BIOS goes on to the disk in any
// case. EDK2's boot manager goes on to the next entry only if iPXE failed;
// success ends in the setup menu, where the machine stays (netboot.xyz#1276).
func (b *boot) giveUp(why error, byScript bool) error {
	if err := contextError(why); err != nil {
		return err
	}
	if b.machine.Platform == EFI && why == nil && byScript {
		return errors.New("iPXE returned success to UEFI, which then opens its setup menu instead of booting the disk: end the script with exit 1")
	}
	b.outcome.LocalBoot = true
	b.step("iPXE gives up (%v), booting the local disk", why)
	return nil
}

// step records what happens.
func (b *boot) step(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	b.log.Debug("firmware", "step", text)
	if len(b.outcome.Steps) < maxStepsKept {
		b.outcome.Steps = append(b.outcome.Steps, text)
	}
}

// lost decides the fate of one UDP packet.
func (b *boot) lost() bool {
	return b.machine.Faults.Loss > 0 && b.random.Float64() < b.machine.Faults.Loss
}

// sourceIP is the address to send from: the leased one where this host has it,
// which is so for all of 127.0.0.0/8 on Linux; else the kernel chooses.
func (b *boot) sourceIP() net.IP {
	if b.lease.address.IsLoopback() {
		return b.lease.address.AsSlice()
	}
	return nil
}

// rawUUID is an SMBIOS UUID as it lies in memory: the first three fields are
// little-endian (SMBIOS 2.6 and later), which is how DHCP option 97 has it.
func rawUUID(text string) ([]byte, bool) {
	raw, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(raw) != 16 {
		return nil, false
	}
	for i, j := range []int{3, 2, 1, 0, 5, 4, 7, 6} {
		if i < j {
			raw[i], raw[j] = raw[j], raw[i]
		}
	}
	return raw, true
}
