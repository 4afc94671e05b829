package inventory_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRecognitions(t *testing.T) {
	t.Parallel()
	loaded, _ := load(t, tree(t, map[string]string{
		"_defaults.yaml": "bmc: {passwordEnv: P}\n",
		"a/n1.yaml":      "serial: S1\nboardSerial: B1\n",
		"a/n2.yaml":      "serial: S1\nbmc: {address: 10.0.0.2}\n",
		"a/n3.yaml":      "bmc: {address: 10.0.0.3}\n",
		"a/n4.yaml":      "serial: S4\nmac: 0c:c4:7a:00:00:04\n",
		"a/n5.yaml":      "",
		"b/n6.yaml":      "serial: S6\n", "b/n7.yaml": "serial: S6\n",
		"b/n8.yaml": "boardSerial: B8\nuuid: 00000000-0000-0000-0000-0cc47a000008\n", "b/n9.yaml": "boardSerial: B8\n",
	}))
	recognitions := loaded.Recognitions()
	got := make([]string, 0, len(recognitions))
	for i, r := range recognitions {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", loaded.Nodes[i].ID(), r.Certainty, r.Key, r.Value, r.Reason)))
	}
	want := []string{
		"a/n1 unique board serial B1",
		"a/n2 bmc   serial S1 is also that of a/n1, but BMC 10.0.0.2 is asked for more",
		"a/n3 bmc   BMC 10.0.0.3 is asked for serials, UUID and MACs",
		"a/n4 unique MAC 0c:c4:7a:00:00:04",
		"a/n5 unknown   give it a bmc.address, serial, boardSerial, uuid or mac",
		"b/n6 ambiguous   serial S6 is shared by b/n6 and b/n7 and nothing else tells them apart: give each node its boardSerial, uuid or mac, or a bmc.address to learn them from",
		"b/n7 ambiguous   serial S6 is shared by b/n6 and b/n7 and nothing else tells them apart: give each node its boardSerial, uuid or mac, or a bmc.address to learn them from",
		"b/n8 ambiguous   board serial B8 is claimed by b/n8 and b/n9: a board is one machine, so none of them is touched until one boardSerial, serial or bmc.address is corrected",
		"b/n9 ambiguous   board serial B8 is claimed by b/n8 and b/n9: a board is one machine, so none of them is touched until one boardSerial, serial or bmc.address is corrected",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("recognitions (-want +got):\n%s", diff)
	}
}
