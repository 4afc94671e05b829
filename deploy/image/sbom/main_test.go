package main

import (
	"debug/buildinfo"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const status = `Package: ipxe
Status: install ok installed
Version: 1.21.1+git20250501.dad20602+dfsg-1
Architecture: all
Description: PXE boot firmware
 Package: this-is-text

Package: gone
Status: deinstall ok config-files
Version: 1
Architecture: amd64

Package: libc6
Architecture: amd64
Status: install ok installed
Version: 2.41-12
`

func TestOnlyInstalledPackagesAreListed(t *testing.T) {
	t.Parallel()
	packages := debian(status, "trixie")
	got := make([]string, 0, len(packages))
	for _, c := range packages {
		got = append(got, c.PURL)
	}
	want := []string{
		"pkg:deb/debian/ipxe@1.21.1+git20250501.dad20602+dfsg-1?arch=all&distro=trixie",
		"pkg:deb/debian/libc6@2.41-12?arch=amd64&distro=trixie",
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed are %q, want %q", got, want)
	}
}

func TestWhatIsBuiltFromSourceNamesItsCommit(t *testing.T) {
	t.Parallel()
	c, err := fromSource("ipxe@abc123=https://example.com/ipxe.git")
	if err != nil || c.Name != "ipxe" || c.Version != "abc123" || !strings.HasPrefix(c.PURL, "pkg:generic/ipxe@abc123?vcs_url=git%2Bhttps") {
		t.Errorf("%+v, %v", c, err)
	}
	for _, wrong := range []string{"", "ipxe", "ipxe=https://x", "ipxe@=https://x", "@abc=https://x", "ipxe@abc="} {
		if c, err := fromSource(wrong); err == nil {
			t.Errorf("%q is read as %+v", wrong, c)
		}
	}
}

// The program under test is a binary with modules, too.
func TestTheSameInputGivesTheSameListOfEveryModule(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	dpkg, release := filepath.Join(folder, "status"), filepath.Join(folder, "os-release")
	for file, text := range map[string]string{dpkg: status, release: "ID=debian\nVERSION_CODENAME=trixie\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	texts := make([]string, 0, 2)
	for _, name := range []string{"one", "two"} {
		out := filepath.Join(folder, name)
		if err := run([]string{"-binary", program, "-version", "v1.2.3", "-epoch", "1700000000", "-dpkg", dpkg, "-os-release", release, "-out", out}, os.Stderr); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(raw))
	}
	if texts[0] != texts[1] {
		t.Error("twice the same, and the lists differ")
	}
	var d document
	if err := json.Unmarshal([]byte(texts[0]), &d); err != nil {
		t.Fatal(err)
	}
	if d.Metadata.Component.Version != "v1.2.3" || d.Metadata.Timestamp != "2023-11-14T22:13:20Z" || !strings.HasPrefix(d.Serial, "urn:uuid:") {
		t.Errorf("%+v %s", d.Metadata, d.Serial)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(d.Components), len(info.Deps)+2+1; got != want {
		t.Errorf("%d components, want %d: modules, two packages, and Go's own library", got, want)
	}
	if !slices.ContainsFunc(d.Components, func(c component) bool { return c.Name == "stdlib" && c.Version != "" }) {
		t.Error("Go's own library is not listed")
	}
	if !slices.Equal(d.Dependencies[0].DependsOn, refs(d.Components)) {
		t.Error("the program does not depend on all of them")
	}
}

func refs(components []component) []string {
	names := make([]string, 0, len(components))
	for _, c := range components {
		names = append(names, c.Ref)
	}
	return names
}

func TestAnotherContentHasAnotherSerialNumber(t *testing.T) {
	t.Parallel()
	serialOf := func(parts ...component) string {
		raw, err := encode(component{Ref: "a"}, parts, time.Unix(0, 0).UTC())
		if err != nil {
			t.Fatal(err)
		}
		var d document
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatal(err)
		}
		return d.Serial
	}
	if serialOf() == serialOf(component{Ref: "b"}) {
		t.Error("two lists have one number")
	}
}

func TestAFileThatGoDidNotBuildIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := run([]string{"-binary", file, "-out", file + ".json"}, os.Stderr)
	if err == nil || !strings.Contains(err.Error(), "name a program that Go built") {
		t.Errorf("it says %v", err)
	}
}
