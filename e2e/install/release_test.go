package install_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/talos-provision/provision/e2e/needs"
)

const workflow = ".github/workflows/release.yml"

func TestTheReleaseRunsOnlyWhatIsPinnedAndThere(t *testing.T) {
	t.Parallel()
	text, makefile := read(t, repository(t), workflow), read(t, repository(t), "Makefile")
	uses := regexp.MustCompile(`uses: (\S+)`).FindAllStringSubmatch(text, -1)
	if len(uses) == 0 {
		t.Error("the workflow uses no action: is this test looking at it?")
	}
	pinned := regexp.MustCompile(`^[a-z0-9-]+/[a-z0-9-]+@[0-9a-f]{40}$`)
	for _, use := range uses {
		if !pinned.MatchString(use[1]) {
			t.Errorf("%s is not pinned by a commit", use[1])
		}
	}
	for _, target := range regexp.MustCompile(`run: make ([a-z-]+)`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(makefile, "\n"+target[1]+":") {
			t.Errorf("the workflow runs make %s, which the Makefile does not have", target[1])
		}
	}
	scripts := regexp.MustCompile(`sh (deploy/\S+\.sh)`).FindAllStringSubmatch(text, -1)
	if len(scripts) == 0 {
		t.Error("the workflow runs no script")
	}
	for _, script := range scripts {
		read(t, repository(t), script[1])
	}
}

func TestActionlintHasNothingToSayAgainstTheRelease(t *testing.T) {
	t.Parallel()
	lint := func(file string) ran {
		return try(t, repository(t), "go", "tool", "-modfile=tools/actionlint/go.mod", "actionlint", "-no-color", file)
	}
	if r := lint(workflow); r.err != nil || r.out != "" {
		t.Errorf("actionlint: %v\n%s%s", r.err, r.out, r.errOut)
	}
	wrong := filepath.Join(t.TempDir(), "wrong.yml")
	write(t, wrong, strings.Replace(read(t, repository(t), workflow), "needs: check", "needs: checks", 1))
	if r := lint(wrong); r.err == nil || !strings.Contains(r.out, "checks") {
		t.Errorf("a job that waits for one that is not there passes: %s%s", r.out, r.errOut)
	}
}

func TestReleaseNotesAreOfTheVersionOrThereAreNone(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	script := filepath.Join(folder, "deploy/release/notes.sh")
	write(t, script, read(t, repository(t), "deploy/release/notes.sh"))
	write(t, filepath.Join(folder, "CHANGELOG.md"), "# Changelog\n\n## [Unreleased]\n\nsoon\n\n## [1.2.3] - 2026-11-30\n\n### Added\n\n- this\n\n## 1.2.2\n\nthat\n\n[1.2.3]: https://example.com\n")
	for version, want := range map[string]string{
		"v1.2.3":     "### Added\n\n- this\n",
		"1.2.3":      "### Added\n\n- this\n",
		"v1.2.2":     "that\n",
		"Unreleased": "soon\n",
	} {
		if got := output(t, folder, "sh", script, version); strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("notes of %s are %q, want %q", version, got, want)
		}
	}
	for _, version := range []string{"v1.2.4", "v1.2", "v1x2.3"} {
		if r := try(t, folder, "sh", script, version); r.err == nil || !strings.Contains(r.errOut, "CHANGELOG.md has no section") {
			t.Errorf("%s, which nobody wrote of, gives %v %s%s", version, r.err, r.out, r.errOut)
		}
	}
}

// The order is dpkg's own: each version is older than the next.
func TestDebianVersionsAreInTheOrderOfTheReleases(t *testing.T) {
	t.Parallel()
	needs.Program(t, "dpkg")
	script := filepath.Join(repository(t), "deploy/deb/version.sh")
	before := ""
	for _, step := range []struct{ version, want string }{
		{"dev", "0.0.0~dev-1"},
		{"f42ea15-dirty", "0.0.0~f42ea15.dirty-1"},
		{"v0.9.0", "0.9.0-1"},
		{"v1.0.0-rc.1", "1.0.0~rc.1-1"},
		{"v1.0.0-rc.2", "1.0.0~rc.2-1"},
		{"v1.0.0", "1.0.0-1"},
		{"v1.0.0-5-gabc1234", "1.0.0+5.gabc1234-1"},
		{"v1.0.0-5-gabc1234-dirty", "1.0.0+5.gabc1234.dirty-1"},
		{"v1.0.1", "1.0.1-1"},
		{"v1.10.0", "1.10.0-1"},
	} {
		got := strings.TrimSpace(output(t, "", "sh", script, step.version))
		if got != step.want {
			t.Errorf("%s becomes %s, want %s", step.version, got, step.want)
		}
		if before != "" && try(t, "", "dpkg", "--compare-versions", before, "lt", got).err != nil {
			t.Errorf("%s is not older than %s", before, got)
		}
		before = got
	}
}
