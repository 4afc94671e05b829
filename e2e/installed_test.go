package e2e_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/qemu"
	"github.com/talos-provision/provision/e2e/qemu/disk"
	"github.com/talos-provision/provision/e2e/qemu/image"
)

const (
	nodeArgs = "talos.platform=metal console=ttyS0 slab_nomerge pti=on net.ifnames=0 panic=0 no_timer_check"
	// installerURL is where the guest fetches what it installs: the emulated installer image.
	installerURL = "http://10.98.0.1:8093/installer"
	// installedArgs are inside of what it installs; ip= is of the boot from the network only.
	installedArgs = nodeArgs + " talos.e2e.boot=disk"
	// clusterDefaults is what `provision cluster init` tells to write.
	clusterDefaults = `machineConfig: ../../configs/metal/{{ .labels.role }}.yaml
configPatches:
- ../../configs/metal/node.yaml.tmpl
talosconfig: ../../configs/metal/talosconfig
`
)

// A machine with an empty disk goes the whole way by the program alone: from the
// network into maintenance, its config, an install that the machine does by
// itself, a warm reset into what it wrote to its disk, and a bootstrap over mTLS.
// Nobody installs it anew but who says so (I2).
func TestAMachineInstallsItselfAndRunsFromItsDisk(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.addEmpty(board("node-01", 1, qemu.UEFI))
	s.initCluster()
	if s.built.image.Replaced {
		s.takesItsConfig()
		return
	}
	installer, server := s.serveInstaller(), s.servers["node-01"]

	run := s.start("--until", "ready")
	passed, status := run.states("node-01")
	if want := []string{"Maintenance", "Configured", "Installed", "Ready"}; status != 0 || !containsInOrder(passed, want) {
		t.Fatalf("exit status %d; the node went %v, want %v in this order", status, passed, want)
	}
	s.bootedFromDisk(server, run.log(), installer)
	member := s.runsUnderMTLS()

	s.isKeptFromStrangers(server, member)
	if n := installer.Load(); n != 1 {
		t.Errorf("the machine fetched its system %d times, want once", n)
	}

	// Whoever names it has it wiped, and finds it in maintenance.
	last, status := s.start("--until", "maintenance", "--reinstall", "node-01").finish()
	if e := last["node-01"]; status != 0 || e.State != "Maintenance" {
		t.Errorf("with --reinstall: exit status %d, node-01 ended %s: %s %s", status, e.State, e.Message, e.Error)
	}
	if console := server.SerialLog(); !strings.Contains(console, "guest: wiped the system on /dev/vda") {
		t.Errorf("the machine did not wipe its disk:\n%s", tail(console, 30))
	}
}

// takesItsConfig is how far real Talos comes here: it checks its config, takes it
// and closes its port, and then lacks a way to the registry that it installs from.
func (s *site) takesItsConfig() {
	s.t.Helper()
	passed, status := s.start("--until", "configured").states("node-01")
	if want := []string{"Maintenance", "Configured"}; status != 0 || !containsInOrder(passed, want) {
		s.t.Errorf("exit status %d; the node went %v, want %v in this order", status, passed, want)
	}
}

// isKeptFromStrangers runs the program without the state of the runs before. The
// node that runs is not touched: it is held, unless the talosconfig shows that it
// is what it should be. The one that is switched off comes up from the network
// with the config and the etcd member that are on its disk, and that is told.
func (s *site) isKeptFromStrangers(server server, member uint64) {
	s.t.Helper()
	s.forget()
	s.write("nodes/metal/_defaults.yaml", "{}\n")
	last, status := s.start().finish()
	if e := last["node-01"]; status != 3 || e.State != "Held" {
		s.t.Errorf("without its talosconfig: exit status %d, node-01 ended %s: %s %s; want it held", status, e.State, e.Message, e.Error)
	}
	s.forget()
	s.write("nodes/metal/_defaults.yaml", clusterDefaults)
	last, status = s.start().finish()
	if e := last["node-01"]; status != 0 || e.State != "Ready" {
		s.t.Errorf("with its talosconfig: exit status %d, node-01 ended %s: %s %s; want it found Ready", status, e.State, e.Message, e.Error)
	}
	if n := server.BMC.PowerOns(); n != 1 || len(server.BMC.Resets()) != 1 {
		s.t.Errorf("it runs, and was touched: %d power-ons, resets %v", n, server.BMC.Resets())
	}
	s.forget()
	if err := server.PowerOff(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	last, status = s.start().finish()
	if e := last["node-01"]; status != 1 || e.State != "Failed" || e.Message != "already configured" {
		s.t.Errorf("it is off: exit status %d, node-01 ended %s: %s %s; want the failure that it is configured already", status, e.State, e.Message, e.Error)
	}
	console := server.SerialLog()
	for _, want := range []string{"configured API of Talos " + s.version + " listens at 10.98.0.11", "booted from the network\n"} {
		if !strings.Contains(console, want) {
			s.t.Errorf("the console of the boot from the network does not show %q:\n%s", want, tail(console, 30))
		}
	}
	if again := s.runsUnderMTLS(); again != member {
		s.t.Errorf("its etcd member is %x, and was %x: etcd was bootstrapped twice", again, member)
	}
}

// bootedFromDisk checks that the machine reset itself, and that what runs came
// from its disk without the network.
func (s *site) bootedFromDisk(server server, log string, installer *atomic.Int64) {
	s.t.Helper()
	if diff := cmp.Diff([]redfishtest.Boot{{Target: "Pxe", Mode: "UEFI"}, {Mode: "UEFI"}}, server.Boots()); diff != "" {
		s.t.Errorf("boots (-want +got):\n%s", diff)
	}
	if n, override := server.BMC.PowerOns(), server.BMC.Override(); n != 1 || override.Enabled != "Disabled" {
		s.t.Errorf("powered on %d times, want 1; the boot override is %+v, want it gone", n, override)
	}
	if n := server.BMC.OpenSessions(); n != 0 {
		s.t.Errorf("%d BMC sessions are open", n)
	}
	if n := installer.Load(); n != 1 {
		s.t.Errorf("the machine fetched its system %d times, want once", n)
	}
	if n := strings.Count(log, "a machine asked for a boot script"); n != 1 {
		s.t.Errorf("boot scripts were asked for %d times, want once, before the install", n)
	}
	if n := strings.Count(log, "/"+image.KernelName+" source="); n != 1 {
		s.t.Errorf("the kernel was sent %d times, want once, before the install", n)
	}
	first, second, _ := strings.Cut(server.SerialHistory(), "power-on 2")
	for _, want := range []string{"guest: installed: wrote ", "guest: resets itself"} {
		if !strings.Contains(first, want) {
			s.t.Errorf("the console of the first boot does not show %q:\n%s", want, tail(first, 30))
		}
	}
	for _, want := range []string{
		"guest: kernel command line: " + installedArgs + "\n",
		"guest: eth0 has the address 10.98.0.11/24, gateway 10.98.0.1\n", // of the machine config
		"configured API of Talos " + s.version + " listens at 10.98.0.11", "booted from the disk\n",
	} {
		if !strings.Contains(second, want) {
			s.t.Errorf("the console of the second boot does not show %q:\n%s", want, tail(second, 40))
		}
	}
	for _, never := range []string{"PXE", "iPXE", "ip=10.98.0.11"} {
		if strings.Contains(second, never) {
			s.t.Errorf("the console of the second boot shows %q:\n%s", never, tail(second, 40))
		}
	}
}

// addEmpty makes a machine with an empty disk that is the control plane of its cluster.
func (s *site) addEmpty(config qemu.Config) {
	s.t.Helper()
	config.Disk = filepath.Join(s.dir, config.Name+".img")
	if err := disk.WriteEmpty(config.Disk, 16<<30); err != nil {
		s.t.Fatal(err)
	}
	s.add(config, "ip: 10.98.0.11\ngateway: 10.98.0.1\ninstall: true\nlabels: {role: controlplane}\nkernelArgs: "+nodeArgs+" talos.e2e.installer="+installerURL+"\n")
}

// initCluster does what the documentation says about a new cluster.
func (s *site) initCluster() {
	s.t.Helper()
	s.command("cluster", "init", "metal", "--endpoint", "https://10.98.0.11:6443", "--install-disk", "/dev/vda")
	s.write("nodes/metal/_defaults.yaml", clusterDefaults)
}

// forget removes what the program remembers of its runs.
func (s *site) forget() {
	s.t.Helper()
	if err := os.RemoveAll(filepath.Join(s.dir, "state")); err != nil {
		s.t.Fatal(err)
	}
}

// command runs the program to its end and returns what it printed.
func (s *site) command(args ...string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := s.network.Command(ctx, s.built.binary, append(args, "--config", filepath.Join(s.dir, "provision.yaml"))...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	process, err := s.network.Start(cmd)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := process.Wait(); err != nil {
		s.t.Fatalf("%s: %v\n%s%s", cmd, err, out.String(), stderr.String())
	}
	return out.String()
}

// serveInstaller serves what a machine installs, and counts how often it does:
// a disk whose boot loader is the guest, as one EFI program.
func (s *site) serveInstaller() *atomic.Int64 {
	s.t.Helper()
	stub, err := image.FromEnvironment(os.Getenv).Stub()
	if err != nil {
		lacking(s.t, err)
	}
	program, system := filepath.Join(s.dir, "installed.efi"), filepath.Join(s.dir, "installed.img")
	if err := s.built.image.WriteUKI(stub, program, installedArgs); err != nil {
		s.t.Fatal(err)
	}
	if err := disk.WriteSystem(s.t.Context(), system, program); err != nil {
		s.t.Fatal(err)
	}
	listener, err := s.network.Listen(s.t.Context(), "tcp", "10.98.0.1:8093")
	if err != nil {
		s.t.Fatal(err)
	}
	fetched := &atomic.Int64{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /installer", func(w http.ResponseWriter, r *http.Request) {
		fetched.Add(1)
		http.ServeFile(w, r, system)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	s.t.Cleanup(func() { _ = server.Close() })
	return fetched
}

// containsInOrder tells whether all of want are in got, one after the other.
func containsInOrder(got, want []string) bool {
	for _, text := range got {
		if len(want) > 0 && text == want[0] {
			want = want[1:]
		}
	}
	return len(want) == 0
}
