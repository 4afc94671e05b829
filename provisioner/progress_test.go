package provisioner

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/pxe/httpboot"
)

// Each report of a download is an event only when it is worth one.
func TestProgressIsToldNowAndThen(t *testing.T) {
	t.Parallel()
	c := atWork(t, Booting, "script")
	n, start := c.nodes["a/node-1"], time.Unix(1700000000, 0)
	for _, s := range []struct {
		what  string
		after time.Duration
		file  string
		bytes int64
		told  bool
	}{
		{"the first", 0, "kernel-amd64", 10, true},
		{"too soon", 2 * time.Second, "kernel-amd64", 60, false},
		{"too little more", 4 * time.Second, "kernel-amd64", 19, false},
		{"enough of both", 5 * time.Second, "kernel-amd64", 20, true},
		{"another file, too soon", 6 * time.Second, "initramfs-amd64.xz", 1, false},
		{"another file", 9 * time.Second, "initramfs-amd64.xz", 21, true},
		{"the same file anew", 13 * time.Second, "initramfs-amd64.xz", 3, true},
	} {
		n.advance(store.Progress{File: s.file, Bytes: s.bytes, Total: 100}, start.Add(s.after))
		if _, told := n.followProgress(); told != s.told {
			t.Errorf("%s: told %v, want %v", s.what, told, s.told)
		}
	}
}

// A download names nobody: it is the node's that asked from that address, while
// that is being installed.
func TestProgressIsTheNodesThatAskedFromThere(t *testing.T) {
	t.Parallel()
	const name = "s/v1.13.9/initramfs-amd64.xz"
	report := func(source string) httpboot.Progress {
		return httpboot.Progress{Source: netip.MustParseAddr(source), Name: name, Bytes: 32_800_000, Size: 82_000_000}
	}
	for what, tc := range map[string]struct {
		state  State
		report httpboot.Progress
		want   transition
	}{
		"its own": {Booting, report("10.0.0.77"), transition{
			state: Booting, step: step(stageKernel), message: "initramfs 40 % of 82 MB",
			progress: &store.Progress{File: "initramfs-amd64.xz", Bytes: 32_800_000, Total: 82_000_000},
		}},
		"a stranger's":             {Booting, report("10.0.0.78"), transition{}},
		"it is no longer armed":    {Maintenance, report("10.0.0.77"), transition{}},
		"an iPXE binary":           {Booting, httpboot.Progress{Source: netip.MustParseAddr("10.0.0.77"), Name: "snponly.efi", Bytes: 1, Size: 9}, transition{}},
		"of a file without a size": {Booting, httpboot.Progress{Source: netip.MustParseAddr("10.0.0.77"), Name: name, Bytes: 1}, transition{}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := atWork(t, Booting, step(stageKernel))
			n := c.nodes["a/node-1"]
			c.Direct(t.Context(), ask(board1))
			n.record.State = string(tc.state)
			c.ObserveProgress(tc.report)
			got, _ := n.followProgress()
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(transition{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A signed image is kernel and initramfs in one.
func TestAWholeImageIsTheLastStageBeforeTalos(t *testing.T) {
	t.Parallel()
	c := atWork(t, PowerCycled, stepNone)
	n := c.nodes["a/node-1"]
	c.Direct(t.Context(), ask(board1))
	c.ObserveHTTP(httpboot.Transfer{Source: netip.MustParseAddr("10.0.0.77"), Name: "s/v/metal-amd64-secureboot-uki.efi", Method: "GET", Bytes: 100, Size: 100})
	if got := n.sighted().stage; got != stageImage {
		t.Errorf("stage %q, want %q", got, stageImage)
	}
	if cause, reason := n.stuck(); cause != CauseMedium || reason != "the last thing seen was that its image was downloaded" {
		t.Errorf("stuck: %s: %s", cause, reason)
	}
}
