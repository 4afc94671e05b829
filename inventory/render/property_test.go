package render_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
)

// In fleets whose inventory says only what is true, the script never boots a
// machine as a node that the identity package would not see in it.
func TestTheScriptIsNeverMoreLiberalThanTheController(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // reproducible fleets, not secrets
	booted := 0
	for round := range 60 {
		machines, nodes := fleet(random, round)
		candidates := make([]identity.Candidate, len(nodes))
		for i, n := range nodes {
			candidates[i] = identity.Candidate{Name: "node_metal_" + n.Name, Facts: []identity.Facts{n.Facts()}}
		}
		index := identity.NewIndex(candidates)
		text, _ := script(t, nodes...)
		for i, m := range machines {
			got := follow(t, text, m, always).node()
			if got == "" {
				continue
			}
			booted++
			verdict := index.Match(identity.Facts{Serial: m.serial, BoardSerial: m.board, UUID: m.uuid, MACs: []string{m.mac}})
			if verdict.Name != got && (verdict.Outcome != identity.Conflict || !slices.Contains(verdict.Names, got)) {
				t.Fatalf("machine %d %+v boots as %s, the verdict is %+v", i, m, got, verdict)
			}
			// A machine of which the inventory says nothing may show the only mention of its chassis' serial.
			if i >= len(nodes) || cmp.Equal(nodes[i].Facts(), identity.Facts{}) {
				continue
			}
			if own := fmt.Sprintf("node_metal_n%d", i); got != own {
				t.Fatalf("machine %d %+v boots as %s", i, m, got)
			}
		}
	}
	if booted < 100 {
		t.Errorf("only %d machines booted: the fleets prove nothing", booted)
	}
}

// fleet makes machines in chassis, and an inventory that knows some values of
// most of them, in the machines' order.
func fleet(random *rand.Rand, round int) ([]machine, []inventory.Node) {
	const size, known = 16, 12
	perChassis := 1 + random.IntN(4)
	machines := make([]machine, size)
	for i := range machines {
		machines[i] = machine{
			serial: fmt.Sprintf("S%03d%05d", round, i/perChassis), board: fmt.Sprintf("ZM%03d%05d", round, i), platform: "efi",
			uuid: fmt.Sprintf("7a1e0000-0000-4000-8000-%06x%06x", round, i), mac: fmt.Sprintf("0c:c4:7a:00:%02x:%02x", round, i),
		}
	}
	nodes := make([]inventory.Node, known)
	for i := range nodes {
		m := machines[i]
		nodes[i] = node(fmt.Sprintf("n%d", i), func(n *inventory.Node) {
			if random.IntN(2) == 0 {
				n.Serial = m.serial
			}
			if random.IntN(2) == 0 {
				n.BoardSerial = m.board
			}
			if random.IntN(3) == 0 {
				n.UUID = m.uuid
			}
			if random.IntN(3) == 0 {
				n.MACs = []string{m.mac}
			}
		})
	}
	return machines, nodes
}

// FuzzIPXE: nothing in a node breaks out of its line, and no machine but the
// node's own boots it.
func FuzzIPXE(f *testing.F) {
	f.Add("metal", "node-01", "SERIAL01", "", "talos.platform=metal", "v1.13.9")
	f.Add("a b\n", "n\nboot", "S\nboot", "B\rboot", "x\ny || exit", "v1 exit")
	f.Add("${x}", "${y}", "${serial}", "||", "talos.config=http://c/?a=${uuid}", "../..")
	f.Add("", "", "\x00", "\xff", "#", "")
	f.Fuzz(func(t *testing.T, cluster, name, serial, board, args, version string) {
		n := node(name, func(n *inventory.Node) {
			n.Cluster, n.File, n.Serial, n.BoardSerial, n.KernelArgs, n.TalosVersion = cluster, name+".yaml", serial, board, args, version
		})
		text, problems := script(t, n)
		stranger := follow(t, text, machine{serial: "STRANGER-1", board: "STRANGER-2", platform: "efi"}, always)
		if stranger.kernel != "" && !strings.Contains(strings.ToUpper(serial+board), "STRANGER") {
			t.Errorf("a stranger boots:\n%s", text)
		}
		if strings.Contains(serial+board, "${") {
			return // iPXE would expand what the firmware says, too
		}
		own := follow(t, text, machine{serial: strings.TrimSpace(serial), board: strings.TrimSpace(board), platform: "efi"}, always)
		if len(problems) == 0 && own.kernel == "" {
			t.Errorf("the node's own machine does not boot: %s\n%s", own, text)
		}
		if len(problems) > 0 && own.kernel != "" {
			t.Errorf("boots in spite of %v", problems)
		}
	})
}
