package upgrade_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/provisioner/upgrade"
)

func TestImagesAreReadAndWritten(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + schematicB
	for name, want := range map[string]upgrade.Image{
		"factory.talos.dev/metal-installer/" + schematicA + ":v1.13.9":               {Registry: "factory.talos.dev", Platform: "metal", Schematic: schematicA, Tag: "v1.13.9"},
		"factory.talos.dev/metal-installer-secureboot/" + schematicA + ":v1.13.9":    {Registry: "factory.talos.dev", Platform: "metal", SecureBoot: true, Schematic: schematicA, Tag: "v1.13.9"},
		"mirror:5000/talos/installer-secureboot/" + schematicA + ":v1.9.5@" + digest: {Registry: "mirror:5000/talos", SecureBoot: true, Schematic: schematicA, Tag: "v1.9.5", Digest: digest},
		"ghcr.io/siderolabs/installer:v1.13.9":                                       {Registry: "ghcr.io/siderolabs", Tag: "v1.13.9"},
		"[::1]:5000/aws-installer/" + schematicA + "@" + digest:                      {Registry: "[::1]:5000", Platform: "aws", Schematic: schematicA, Digest: digest},
	} {
		got, err := upgrade.ParseImage(name)
		if diff := cmp.Diff(want, got); diff != "" || err != nil || got.String() != name {
			t.Errorf("%s: %v %s %s", name, err, got, diff)
		}
	}
	for _, name := range []string{"", "installer:v1.13.9", "x/busybox:v1", "x/installer@sha256:12", "/", schematicA, ":v1", "@"} {
		if got, err := upgrade.ParseImage(name); err == nil {
			t.Errorf("%q is read as %+v", name, got)
		}
	}
}

func FuzzParseImage(f *testing.F) {
	for _, s := range []string{"factory.talos.dev/metal-installer/" + schematicA + ":v1.13.9", "a/installer@sha256:" + schematicA, "/:@", schematicA + "/" + schematicA} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		image, err := upgrade.ParseImage(name)
		if err != nil {
			return
		}
		again, err := upgrade.ParseImage(image.String())
		if err != nil || again != image {
			t.Errorf("%q: %+v and %+v, %v", name, image, again, err)
		}
	})
}

// budimanjojo/talhelper#982
func TestPlansNameTheImage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		running, target, registry string
		secureBoot                bool
		want                      string
	}{
		{"v1.13.4", "v1.13.9", "", false, "factory.talos.dev/metal-installer/" + schematicA + ":v1.13.9"},
		{"v1.13.4", "v1.13.9", "", true, "factory.talos.dev/metal-installer-secureboot/" + schematicA + ":v1.13.9"},
		{"v1.9.1", "v1.9.5", "mirror:5000", false, "mirror:5000/installer/" + schematicA + ":v1.9.5"},
		{"v1.9.5", "v1.10.9", "", true, "factory.talos.dev/metal-installer-secureboot/" + schematicA + ":v1.10.9"},
	} {
		s := goodSurvey(3, 1, c.running)
		s.Machines[3].SecureBoot, s.Machines[3].Details.SecureBoot = c.secureBoot, c.secureBoot
		plan := upgrade.MakePlan(upgrade.Options{Target: version(t, c.target), Registry: c.registry}, s)
		if got := plan.Nodes[3].Image; got != c.want {
			t.Errorf("%s: %s", c.want, got)
		}
	}
}

func TestImagesThatAreRefused(t *testing.T) {
	t.Parallel()
	factory := "factory.talos.dev/metal-installer/"
	for _, c := range []struct {
		image, target string
		want          upgrade.Code
	}{
		{factory + schematicA + ":v1.13.9", "v1.13.9", ""},
		{factory + schematicA + ":v1.13.9@sha256:" + schematicB, "v1.13.9", ""},
		{"mirror/installer/" + schematicA + ":v1.13.9", "v1.13.9", ""},
		{factory + schematicA + ":latest", "v1.13.9", upgrade.CodeImageLatest},
		{factory + schematicA, "v1.13.9", upgrade.CodeImageLatest},
		{factory + schematicA + "@sha256:" + schematicB, "v1.13.9", upgrade.CodeImageLatest},
		{factory + schematicA + ":v1.13.8", "v1.13.9", upgrade.CodeImageVersion},
		{factory + schematicA + ":v1.13.8@sha256:" + schematicB, "v1.13.9", upgrade.CodeImageVersion},
		{factory + schematicA + ":stable", "v1.13.9", upgrade.CodeImageVersion},
		{factory + schematicB + ":v1.13.9", "v1.13.9", upgrade.CodeImageSchematic},
		{"ghcr.io/siderolabs/installer:v1.13.9", "v1.13.9", upgrade.CodeImageSchematic}, // home-operations/tuppr#478
		{"ghcr.io/siderolabs/installer:v1.14.1", "v1.14.1", upgrade.CodeImageUnpublished},
		{"factory.talos.dev/metal-installer-secureboot/" + schematicA + ":v1.13.9", "v1.13.9", upgrade.CodeSecureBootSwitch}, // siderolabs/talos#9245
		{"factory.talos.dev/aws-installer/" + schematicA + ":v1.13.9", "v1.13.9", upgrade.CodeImagePlatform},
		{"docker.io/library/busybox:v1.13.9", "v1.13.9", upgrade.CodeImageUnreadable},
	} {
		s := goodSurvey(3, 1, "v1.13.4")
		s.Machines[3].Image = c.image
		plan := upgrade.MakePlan(upgrade.Options{Target: version(t, c.target)}, s)
		n := plan.Nodes[3]
		switch {
		case c.want == "" && (n.Action != upgrade.ActionUpgrade || n.Image != c.image || len(n.Findings) > 0):
			t.Errorf("%s: %+v", c.image, n)
		case c.want != "" && (n.Action != upgrade.ActionHold || len(n.Findings) != 1 || n.Findings[0].Code != c.want):
			t.Errorf("%s: want %s: %s %+v", c.image, c.want, n.Action, n.Findings)
		}
	}
	s := goodSurvey(3, 1, "v1.12.12")
	s.Machines[3].Image = factory + schematicA + ":v1.14.1"
	plan := upgrade.MakePlan(upgrade.Options{Target: version(t, "v1.14.1"), Stops: true}, s)
	if n := plan.Nodes[3]; len(n.Findings) != 1 || n.Findings[0].Code != upgrade.CodeImageStops || !strings.Contains(n.Findings[0].Text, "has 2") {
		t.Errorf("%+v", n)
	}
}
