package install_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/talos-provision/provision/e2e/needs"
)

// image is what `make release-check` built, unpacked.
type image struct {
	root   string // its file system
	config struct {
		User         string
		Entrypoint   []string
		Cmd          []string
		WorkingDir   string
		Env          []string
		Labels       map[string]string
		Volumes      map[string]struct{}
		ExposedPorts map[string]struct{}
		Healthcheck  struct{ Test []string }
	}
}

func builtImage(t testing.TB) *image {
	t.Helper()
	installs(t)
	needs.Program(t, "buildah")
	name := "localhost/talos-provision:" + os.Getenv("VERSION")
	var inspected struct {
		Docker struct {
			Config json.RawMessage `json:"config"`
		} `json:"Docker"`
	}
	must(t, json.Unmarshal([]byte(output(t, "", "buildah", "inspect", "--type", "image", name)), &inspected))
	i := &image{}
	must(t, json.Unmarshal(inspected.Docker.Config, &i.config))
	container := strings.TrimSpace(output(t, "", "buildah", "from", name))
	t.Cleanup(func() {
		if r := tryAnyway(t, "buildah", "rm", container); r.err != nil {
			t.Errorf("buildah rm: %s", r.errOut)
		}
	})
	i.root = strings.TrimSpace(output(t, "", "buildah", "mount", container))
	return i
}

func TestTheImageRunsAsNobodyAndSaysSo(t *testing.T) {
	i := builtImage(t)
	c := i.config
	if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/usr/bin/provision"}) || !slices.Equal(c.Cmd, []string{"serve"}) {
		t.Errorf("user %s, entry point %q, command %q", c.User, c.Entrypoint, c.Cmd)
	}
	if !slices.Equal(c.Healthcheck.Test, []string{"CMD", "/usr/bin/provision", "healthz"}) {
		t.Errorf("health check: %q", c.Healthcheck.Test)
	}
	if got := slices.Sorted(maps.Keys(c.Volumes)); !slices.Equal(got, []string{"/var/cache/provision", "/var/lib/provision"}) {
		t.Errorf("volumes: %q", got)
	}
	if got := slices.Sorted(maps.Keys(c.ExposedPorts)); !slices.Equal(got, []string{"4011/udp", "67/udp", "69/udp", "8080/tcp", "9090/tcp"}) {
		t.Errorf("ports: %q", got)
	}
	if got := c.Labels["org.opencontainers.image.version"]; got != os.Getenv("VERSION") {
		t.Errorf("its version label is %q", got)
	}
	for _, label := range []string{"title", "revision", "created", "source", "licenses", "base.name"} {
		if value := c.Labels["org.opencontainers.image."+label]; value == "" || value == "unknown" {
			t.Errorf("the label %s is %q", label, value)
		}
	}
	if got := strings.TrimSpace(output(t, "", "find", i.root, "-xdev", "-type", "f", "-perm", "/6000")); got != "" {
		t.Errorf("programs that change the user: %s", got)
	}
	caps := strings.TrimSpace(output(t, "", "getcap", "-r", i.root))
	if want := i.root + "/usr/bin/provision cap_net_bind_service,cap_net_raw=ep"; caps != want {
		t.Errorf("capabilities of files:\n%s\nwant\n%s", caps, want)
	}
}

// Two ways to build it, in two folders, give the same bytes.
func TestTheImageHoldsTheProgramThatIsBuiltHere(t *testing.T) {
	i := builtImage(t)
	here := filepath.Join(t.TempDir(), "provision")
	t.Setenv("CGO_ENABLED", "0")
	output(t, repository(t), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version="+os.Getenv("VERSION"), "-o", here, "./cmd/provision")
	packaged := t.TempDir()
	output(t, "", "dpkg-deb", "-x", built(t), packaged)
	want := sum(t, here)
	for name, file := range map[string]string{"image": i.root, "package": packaged} {
		if got := sum(t, filepath.Join(file, "usr/bin/provision")); got != want {
			t.Errorf("the program of the %s is %s, built here it is %s", name, got, want)
		}
	}
}

func TestTheImageListsWhatIsInIt(t *testing.T) {
	i := builtImage(t)
	var list struct {
		Format     string `json:"bomFormat"`
		Components []struct{ Name, Version string }
	}
	must(t, json.Unmarshal([]byte(read(t, i.root, i.config.Labels["org.talos-provision.sbom"])), &list))
	if list.Format != "CycloneDX" {
		t.Errorf("its format is %q", list.Format)
	}
	listed := map[string]string{}
	for _, c := range list.Components {
		listed[c.Name] = c.Version
	}
	modules := regexp.MustCompile(`(?m)^\s+(?:dep|=>)\s+(\S+)\s+(\S+)`).FindAllStringSubmatch(output(t, "", "go", "version", "-m", filepath.Join(i.root, "usr/bin/provision")), -1)
	packages := strings.Fields(output(t, "", "dpkg-query", "--admindir="+filepath.Join(i.root, "var/lib/dpkg"), "-W", "-f", "${Package}=${Version}\n"))
	if len(modules) < 50 || len(packages) < 20 {
		t.Fatalf("only %d modules and %d packages: is this the image?", len(modules), len(packages))
	}
	for _, m := range modules {
		if listed[m[1]] != m[2] {
			t.Errorf("module %s %s is listed as %q", m[1], m[2], listed[m[1]])
		}
	}
	for _, p := range packages {
		name, version, _ := strings.Cut(p, "=")
		if listed[name] != version {
			t.Errorf("package %s %s is listed as %q", name, version, listed[name])
		}
	}
	if listed["ipxe"] == "" {
		t.Error("iPXE is not listed")
	}
	if got, want := len(list.Components), len(modules)+len(packages)+1; got != want {
		t.Errorf("it lists %d parts, want %d: modules, packages and Go's own library", got, want)
	}
}

// A container runtime starts it as compose.yaml asks: read-only, nobody's, with two
// capabilities that it may have, in a network of its own.
func TestTheImageWorksWithTwoCapabilitiesAndAReadOnlyRoot(t *testing.T) {
	i := builtImage(t)
	needs.Program(t, "crun")
	folder := share(t, nil)
	bundle := func(name string, capabilities []string, args ...string) {
		spec, err := json.Marshal(i.spec(folder, capabilities, args))
		must(t, err)
		write(t, filepath.Join(folder, name, "config.json"), string(spec))
	}
	two := []string{"CAP_NET_BIND_SERVICE", "CAP_NET_RAW"}
	bundle("version", two, "version")
	bundle("none", nil, "version")
	bundle("serve", two, i.config.Cmd...)
	r := try(t, folder, "unshare", "-m", "-n", "--propagation", "private", "bash", script(t, "container.sh"), folder)
	found := facts(r.out)
	compare(t, found, map[string]string{
		"version": "provision " + os.Getenv("VERSION"), "none": "refused",
		"ready": "0", "user": "65532", "permitted": "0000000000002400", "bounding": "0000000000002400",
		"dhcp": "65532", "tftp": "65532", "packet": "65532", "script": "#!ipxe",
		"file":  sum(t, filepath.Join(i.root, "usr/lib/ipxe/snponly.efi")),
		"write": "Read-only file system", "stop": "0", "state": "65532",
	})
	if t.Failed() {
		t.Logf("%v\n%s\n%s", r.err, r.out, r.errOut)
	}
}

// spec is what an engine would hand to its runtime.
func (i *image) spec(folder string, capabilities, args []string) map[string]any {
	mount := func(target, kind, source string, options ...string) map[string]any {
		return map[string]any{"destination": target, "type": kind, "source": source, "options": options}
	}
	// Not the network: that of its starter.
	kinds := []map[string]string{{"type": "mount"}, {"type": "pid"}, {"type": "ipc"}, {"type": "uts"}}
	return map[string]any{
		"ociVersion": "1.0.2",
		"root":       map[string]any{"path": i.root, "readonly": true},
		"process": map[string]any{
			"user": map[string]int{"uid": 65532, "gid": 65532}, "cwd": i.config.WorkingDir, "env": i.config.Env,
			"args":         append(slices.Clone(i.config.Entrypoint), args...),
			"capabilities": map[string][]string{"bounding": capabilities}, "noNewPrivileges": false,
		},
		"mounts": []map[string]any{
			mount("/proc", "proc", "proc"), mount("/dev", "tmpfs", "tmpfs", "mode=755"), mount("/tmp", "tmpfs", "tmpfs", "mode=1777"),
			mount("/etc/provision", "bind", filepath.Join(folder, "config"), "bind", "ro"),
			mount("/var/lib/provision", "bind", filepath.Join(folder, "state"), "bind"),
			mount("/var/cache/provision", "bind", filepath.Join(folder, "cache"), "bind"),
		},
		"linux": map[string]any{"namespaces": kinds},
	}
}
