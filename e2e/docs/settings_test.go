package docs

import "github.com/talos-provision/provision/e2e/fleet"

// setting is what a page takes for given.
type setting struct {
	fleet  fleet.Config
	before string // shell: what was done before the page begins
}

const (
	install = "provision --cluster k8s-prod"
	backup  = install + " && provision state backup provision.backup && mkdir -p etc"
)

var (
	fresh     = fleet.Config{PerChassis: 1, Clusters: []fleet.Cluster{{Name: "k8s-prod", ControlPlanes: 3, Workers: 1}}}
	withFiles = configured(fresh)
	running   = installed(withFiles, "v1.13.9")
	outdated  = installed(withFiles, "v1.11.6")
)

// settings are those of pages that do not begin with machines that are off.
var settings = map[string]setting{
	"docs/clusters.md":                     {fleet: withFiles},
	"docs/upgrades.md":                     {fleet: outdated},
	"docs/install.md":                      {fleet: fresh, before: install},
	"docs/operations.md":                   {fleet: fresh, before: install},
	"docs/troubleshooting.md":              {fleet: fresh, before: install},
	"docs/howto/move-to-another-subnet.md": {fleet: running},
	"docs/howto/reinstall-a-node.md":       {fleet: running},
	"docs/howto/restore-the-controller.md": {fleet: fresh, before: install},
	"docs/howto/two-controllers.md":        {fleet: fresh, before: backup},
	"docs/howto/upgrade-talos.md":          {fleet: outdated, before: "sed -i s/v1.11.6/v1.13.9/ nodes/_defaults.yaml"},
	"docs/howto/air-gapped.md":             {fleet: fresh, before: "provision assets list --cluster k8s-prod --urls >urls.txt && mkdir carry && cd carry && wget -q -x -nH --cut-dirs=1 -i ../urls.txt"},
}

// settingOf is the setting of a page.
func settingOf(page string) setting {
	if s, ok := settings[page]; ok {
		return s
	}
	return setting{fleet: fresh}
}

func configured(c fleet.Config) fleet.Config {
	c.MachineConfigs = true
	return c
}

func installed(c fleet.Config, version string) fleet.Config {
	c.Installed, c.TalosVersion, c.Releases = true, version, []string{"v1.11.6", "v1.12.12", "v1.13.9"}
	return c
}
