package install_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/talos-provision/provision/e2e/needs"
)

// built is the package that `make release-check` built for this machine.
func built(t testing.TB) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository(t), "dist", "provision_*_"+runtime.GOARCH+".deb"))
	must(t, err)
	if len(files) != 1 {
		t.Fatalf("dist/ holds %q: run make release-check, which builds one package", files)
	}
	return files[0]
}

// share is a folder for a copy of this machine, with files that its script sees in /share.
func share(t testing.TB, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for _, f := range []string{"copy", "share"} {
		must(t, os.Mkdir(filepath.Join(folder, f), 0o755))
	}
	for name, file := range files {
		output(t, "", "cp", "-r", file, filepath.Join(folder, "share", name))
	}
	return folder
}

func script(t testing.TB, name string) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("testdata", name))
	must(t, err)
	return file
}

func TestThePackageInstallsUpdatesAndGoes(t *testing.T) {
	installs(t)
	needs.Program(t, "unshare")
	folder := share(t, map[string]string{"provision.deb": built(t)})
	text := output(t, folder, "unshare", "-m", "-n", "--propagation", "private", "bash", script(t, "root.sh"), script(t, "package.sh"), folder, "/share/provision.deb")
	found := facts(text)
	compare(t, found, map[string]string{
		"install": "0", "version": "provision " + os.Getenv("VERSION"), "user": "provision:/var/lib/provision:/usr/sbin/nologin",
		// It answers DHCP: nobody but the administrator starts it.
		"enabled": "disabled",
		// systemd gives them; any user of the host could open raw sockets otherwise.
		"caps":   "",
		"manual": "2", "completion": "yes", "unit": "0", "notices": "1",
		"update": "0", "kept": "yes", "sameuser": "yes",
		"remove": "0", "gone": "yes", "confkept": "yes", "statekept": "yes",
		"purge": "0", "stategone": "yes", "confgone": "yes", "secretkept": "yes", "userkept": "yes", "left": "0",
	})
	if t.Failed() {
		t.Log(text)
	}
}

func TestLintianHasNothingToSayAgainstThePackage(t *testing.T) {
	installs(t)
	needs.Program(t, "lintian")
	if got := try(t, "", "lintian", "--allow-root", "--tag-display-limit", "0", built(t)); strings.TrimSpace(got.out) != "" || got.err != nil {
		t.Errorf("lintian: %v\n%s%s", got.err, got.out, got.errOut)
	}
}

func TestThePackageHoldsTheFilesOfTheRepository(t *testing.T) {
	installs(t)
	folder := t.TempDir()
	output(t, "", "dpkg-deb", "-x", built(t), folder)
	for inside, outside := range map[string]string{
		"lib/systemd/system/provision.service": unit,
		"usr/lib/sysusers.d/provision.conf":    "deploy/systemd/provision.sysusers",
		"etc/provision/provision.yaml":         "docs/examples/provision.yaml",
	} {
		if read(t, folder, inside) != read(t, repository(t), outside) {
			t.Errorf("%s is not %s", inside, outside)
		}
	}
}

// The real systemd starts the real unit, in a container that is a copy of this machine.
func TestTheServiceWorksUnderItsRestrictions(t *testing.T) {
	installs(t)
	needs.Program(t, "systemd-nspawn")
	folder := share(t, map[string]string{
		"provision.deb": built(t), "ipxe": filepath.Join(cache(t), "ipxe"), "service.sh": script(t, "service.sh"),
	})
	r := try(t, folder, "unshare", "-m", "-n", "--propagation", "private", "bash", script(t, "boot.sh"), folder)
	raw, err := os.ReadFile(filepath.Join(folder, "share/facts"))
	if err != nil {
		t.Fatalf("it did not boot: %v %v\n%s%s", r.err, err, r.out, r.errOut)
	}
	wanted := map[string]string{
		"start": "0", "active": "active", "user": "provision",
		// NET_BIND_SERVICE is bit 10, NET_RAW bit 13.
		"permitted": "0000000000002400", "bounding": "0000000000002400", "nonewprivs": "1", "seccomp": "2",
		"files": "many", "secret": "1",
		"mount:/": "ro", "mount:/usr": "ro", "mount:/etc/provision": "ro", "mount:/home": "ro",
		"mount:/var/lib/provision": "rw", "mount:/var/cache/provision": "rw",
		"dhcp": "1", "tftp": "1", "script": "#!ipxe",
		"file":  sum(t, filepath.Join(cache(t), "ipxe/snponly.efi")),
		"state": "provision 750", "healthz": "0", "healthzbyuser": "0",
		"reload": "0", "reloaded": "1", "restart": "0", "watchdog": "started again", "stop": "0", "result": "success", "denied": "0",
	}
	found := facts(string(raw))
	compare(t, found, wanted)
	if found["packet"] == "0" {
		t.Error("it has no raw socket, although dhcp.unicast asks for one")
	}
	if t.Failed() {
		journal, _ := os.ReadFile(filepath.Join(folder, "share/journal"))
		t.Logf("%s\n%s", raw, journal)
	}
}

// cache is the folder that e2e/deps.sh fills.
func cache(t testing.TB) string {
	t.Helper()
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		must(t, err)
		base = filepath.Join(home, ".cache")
	}
	folder := filepath.Join(base, "talos-provision")
	if _, err := os.Stat(filepath.Join(folder, "ipxe/snponly.efi")); err != nil {
		needs.Lacking(t, "there are no iPXE binaries: run e2e/deps.sh")
	}
	return folder
}

func sum(t testing.TB, file string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sha256sum", file).Output()
	must(t, err)
	return strings.Fields(string(out))[0]
}
