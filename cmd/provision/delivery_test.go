package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
)

// newFetching is a cluster of one node that fetches its machine config by URL.
func newFetching(t *testing.T, kernelTime time.Duration, adjust func(*fleet.Machine)) *fleet.Fleet {
	t.Helper()
	f := startFleet(t, fleet.Config{
		Clusters: []fleet.Cluster{one}, MachineConfigs: true, DeliverByURL: true, TimeScale: 0.01, Adjust: adjust,
		KernelTime: kernelTime, InstallTime: 100 * time.Millisecond, ReadyTime: 50 * time.Millisecond,
	})
	edit(t, f, "provision.yaml", "bootTimeout: 2m", "bootTimeout: 2m\n  installTimeout: 2m\n  readyTimeout: 2m")
	return f
}

// configURLs are what the machine's kernels were told to fetch, boot by boot.
func configURLs(m *fleet.Machine) (all []string) {
	for _, b := range m.Boots() {
		if found := regexp.MustCompile(`talos\.config=(\S+)`).FindStringSubmatch(b.Cmdline); found != nil {
			all = append(all, found[1])
		}
	}
	return all
}

// getFrom asks for a URL from an address of the loopback network.
func getFrom(t *testing.T, source, url string) (int, error) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}).DialContext,
	}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

func TestANodeThatFetchesItsConfigIsReadyAndNeverInMaintenance(t *testing.T) {
	t.Parallel()
	f := newFetching(t, 0, func(m *fleet.Machine) { m.Faults.BrokenDownloads = 2 })
	r, last := provisionCluster(t, f, "prod")
	if r.status != exitDone || last["node-01"].State != "Ready" {
		t.Fatalf("status %d, last event %+v", r.status, last["node-01"])
	}
	if !strings.Contains(r.out, "fetched its machine config") || strings.Contains(r.out, `"Maintenance"`) {
		t.Errorf("the config came otherwise than by URL:\n%s", r.out)
	}
	if diff := cmp.Diff([]int{1}, powerOns(f)); diff != "" {
		t.Errorf("power-ons after two downloads that broke off (-want +got):\n%s", diff)
	}
	noSessions(t, f)
}

// The token is good for one download, by the node's own address.
func TestTheURLOfAConfigIsGoodForItsNodeOnce(t *testing.T) {
	t.Parallel()
	f := newFetching(t, 3*time.Second, func(m *fleet.Machine) { m.Faults.PullFails = true }) // it stays in its install, so that the run stays
	run := startProcessOn(t, f, "prod")
	run.await("the image", reaches("Booting", "kernel and initramfs were downloaded"))
	m := f.Machines()[0]
	for deadline := time.Now().Add(time.Minute); len(configURLs(m)) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("no kernel was told a URL within a minute")
		}
		time.Sleep(10 * time.Millisecond)
	}
	url := configURLs(m)[0]
	if status, err := getFrom(t, "127.0.0.1", url); status != http.StatusNotFound {
		t.Errorf("from a stranger's address: status %d, %v; want 404", status, err)
	}
	run.await("the stranger's request", func(e store.Event) bool { return strings.Contains(e.Message, "asked for from 127.0.0.1") })
	run.await("the fetch", reaches("Configured", ""))
	if status, err := getFrom(t, m.IP.String(), url); status != http.StatusNotFound {
		t.Errorf("a second time, from the node's address: status %d, %v; want 404", status, err)
	}
	if err := run.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	run.end()
}

// I8: a node that booted with the token of a controller that is gone is booted
// again; one that has fetched its config is not.
func TestI8AKilledDeliveryByURLGoesOn(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		at       func(store.Event) bool
		powerOns int
	}{
		"before the fetch": {reaches("Booting", "kernel and initramfs were downloaded"), 2},
		"after the fetch":  {reaches("Configured", ""), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFetching(t, 2*time.Second, nil)
			edit(t, f, "provision.yaml", "bootTimeout: 2m", "bootTimeout: 12s")
			first := startProcessOn(t, f, "prod")
			first.await(name, tt.at)
			if err := first.cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			first.end()
			second := startProcessOn(t, f, "prod")
			second.await("Ready", reaches("Ready", ""))
			if status := second.end(); status != exitDone {
				t.Errorf("status %d after the restart, want %d", status, exitDone)
			}
			if n := f.Machines()[0].BMC().PowerOns(); n != tt.powerOns {
				t.Errorf("powered on %d times, want %d", n, tt.powerOns)
			}
		})
	}
}

// I9: the one-time token is as secret as the config that it opens.
func TestI9NoTokenAndNoSecretIsLoggedWhenAConfigIsFetched(t *testing.T) {
	t.Parallel()
	f := newFetching(t, 0, nil)
	dir := filepath.Dir(f.ConfigFile())
	r, last := provisionCluster(t, f, "prod", "--log-level", "debug")
	if last["node-01"].State != "Ready" {
		t.Fatalf("status %d, %+v", r.status, last["node-01"])
	}
	urls := configURLs(f.Machines()[0])
	if len(urls) != 1 {
		t.Fatalf("%d boots were told a URL, want 1", len(urls))
	}
	secrets := append(secretsOf(t, filepath.Join(dir, "configs/prod")), urls[0][strings.LastIndex(urls[0], "/")+1:])
	if !strings.Contains(r.err, "handed out a machine config") {
		t.Fatal("the log is not that of the debug level")
	}
	for where, text := range textsOf(t, r, filepath.Join(dir, "state")) {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds the secret %.6s…", where, secret)
			}
		}
	}
}

// textsOf is all that a run left behind: its output, its log, and the files of its state.
func textsOf(t *testing.T, r result, state string) map[string]string {
	t.Helper()
	texts := map[string]string{"output": r.out, "log": r.err}
	err := filepath.WalkDir(state, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		texts[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func TestArgumentsThatFetchAnotherConfigAreRefusedWithDeliveryByURL(t *testing.T) {
	t.Parallel()
	f := newFetching(t, 0, nil)
	edit(t, f, "nodes/_defaults.yaml", "pti=on", "pti=on talos.config=http://127.0.0.1/c.yaml")
	r, last := provisionCluster(t, f, "prod")
	e := last["node-01"]
	if r.status != exitFailed || e.Message != string(provisioner.CauseArguments) || !strings.Contains(e.Error, "talos.config=") {
		t.Errorf("status %d, last event %+v; want %q", r.status, e, provisioner.CauseArguments)
	}
	untouched(t, f.Machines()...)
}

// A medium and a signed image take no argument from us: those nodes get their configs by the API.
func TestNodesThatTakeNoArgumentsGetTheirConfigsByTheAPI(t *testing.T) {
	t.Parallel()
	for name, adjust := range map[string]func(*fleet.Machine){
		"virtual media": func(m *fleet.Machine) { m.BootKind = "virtual-media" },
		"Secure Boot":   func(m *fleet.Machine) { m.SecureBoot = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFetching(t, 0, adjust)
			if f.Machines()[0].SecureBoot {
				edit(t, f, "configs/prod/node-01.yaml", "metal-installer/", "metal-installer-secureboot/")
			}
			r, last := provisionCluster(t, f, "prod", "--until", "configured")
			if r.status != exitDone || last["node-01"].State != "Configured" || !strings.Contains(r.out, "took its machine config") {
				t.Errorf("status %d, last event %+v\n%s", r.status, last["node-01"], r.err)
			}
			if urls := configURLs(f.Machines()[0]); len(urls) > 0 {
				t.Errorf("it was told a URL: %v", urls)
			}
		})
	}
}
