package provisioner

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/inventory/schematic"
	"github.com/talos-provision/provision/pxe/assets"
	"github.com/talos-provision/provision/pxe/httpboot"
)

// signedAtWork is atWork with Secure Boot on node-1.
func signedAtWork(t *testing.T, state State, at step) (*Controller, *node) {
	t.Helper()
	c := atWork(t, state, at)
	n := c.nodes["a/node-1"]
	n.SecureBoot, n.UUID, n.MACs = true, board1.UUID, board1.MACs
	return c, n
}

// I3: DHCP hands the path of a signed image to an armed node with Secure Boot,
// and to nobody else.
func TestI3OnlyAnArmedSecureBootNodeIsToldItsSignedImage(t *testing.T) {
	t.Parallel()
	own, neighbour, stranger := board1.MACs[0], board2.MACs[0], "02:00:00:00:00:09"
	for _, state := range []struct {
		State
		step
		armed bool
	}{
		{Pending, stepNone, false}, {Identified, stepNone, false}, {Armed, stepNone, false}, {Armed, stepPoweringOff, false}, {Armed, stepOff, false},
		{Armed, stepPoweringOn, true}, {PowerCycled, stepNone, true}, {Booting, step(stageDHCP), true}, {Booting, step(stageUKI), true},
		{Maintenance, stepNone, false}, {Failed, stepNone, false}, {Held, stepNone, false}, {State("?"), stepNone, false},
	} {
		c, n := signedAtWork(t, state.State, state.step)
		want := ""
		if state.armed {
			want = "/uki/0c-c4-7a-00-00-01/amd64.efi"
		}
		if got := c.HTTPPath(own, "amd64"); got != want {
			t.Errorf("%s %s: told %q, want %q", state.State, state.step, got, want)
		}
		for who, mac := range map[string]string{"a node without Secure Boot": neighbour, "a node of no run": board3.MACs[0], "a stranger": stranger, "nobody": ""} {
			if got := c.HTTPPath(mac, "amd64"); got != "" {
				t.Errorf("%s %s: %s is told %q", state.State, state.step, who, got)
			}
		}
		n.SecureBoot = false
		if got := c.HTTPPath(own, "amd64"); got != "" {
			t.Errorf("%s %s: told %q without secureBoot", state.State, state.step, got)
		}
	}
	c, _ := signedAtWork(t, PowerCycled, stepNone)
	if got := c.HTTPPath(own, "riscv64"); got != "" {
		t.Errorf("an architecture without an image is told %q", got)
	}
}

// What firmware asks for counts as the node's own request (I4), and is answered
// with the signed image.
func TestTheFirmwareOfASecureBootNodeIsGivenTheSignedImage(t *testing.T) {
	t.Parallel()
	c, n := signedAtWork(t, PowerCycled, stepNone)
	source := netip.MustParseAddr("10.0.0.77")
	byMAC := httpboot.Request{Facts: identity.Facts{MACs: board1.MACs}, Arch: "amd64", Platform: "efi", Firmware: true, Head: true, Source: source}
	if a := c.Direct(t.Context(), byMAC); a.Kind != httpboot.Install || !a.SecureBoot || n.sighted().stage != stageNone {
		t.Errorf("a HEAD: %+v, stage %q", a, n.sighted().stage)
	}
	byMAC.Head = false
	byUUID := byMAC
	byUUID.Facts = identity.Facts{UUID: board1.UUID}
	for _, r := range []httpboot.Request{byMAC, byUUID} {
		if a := c.Direct(t.Context(), r); a.Kind != httpboot.Install || !a.SecureBoot || a.Node != "a/node-1" || n.sighted().stage != stageUKI {
			t.Errorf("%+v: %+v, stage %q", r.Facts, a, n.sighted().stage)
		}
	}
	c.ObserveHTTP(httpboot.Transfer{Source: source, Name: "s/v1.13.9/metal-amd64-secureboot-uki.efi", Method: "GET", Bytes: 5, Size: 5})
	if stage := n.sighted().stage; stage != stageImage {
		t.Errorf("stage %q after the whole image", stage)
	}
	if cause, reason := n.stuck(); cause != CauseSignedNeverCameUp || !strings.Contains(hints[cause], "keys") {
		t.Errorf("stuck after it: %s, %s", cause, reason)
	}
	n.forget()
	n.see(stageDHCP, source)
	if cause, reason := n.stuck(); cause != CauseSignedUnasked || !strings.Contains(hints[cause], "HTTP boot") {
		t.Errorf("stuck after DHCP: %s, %s", cause, reason)
	}
	// Another one that has no Secure Boot is not given the image of one that has.
	plain := byMAC
	plain.Facts = identity.Facts{MACs: board2.MACs}
	if a := c.Direct(t.Context(), plain); a.SecureBoot {
		t.Errorf("node-2: %+v", a)
	}
}

func TestWhatANodeBootsFrom(t *testing.T) {
	t.Parallel()
	node := func(secure bool, boot string) inventory.Node {
		return inventory.Node{SchematicID: "s", TalosVersion: "v", Arch: "amd64", SecureBoot: secure, BMC: inventory.BMC{Boot: boot}}
	}
	for _, tc := range []struct {
		node inventory.Node
		kind bmc.BootKind
		want []assets.Ref
	}{
		{node(false, ""), bmc.BootPXE, []assets.Ref{assets.Kernel("s", "v", "amd64"), assets.Initramfs("s", "v", "amd64")}},
		{node(false, "uefi-http"), bmc.BootHTTP, []assets.Ref{assets.Kernel("s", "v", "amd64"), assets.Initramfs("s", "v", "amd64")}},
		{node(false, "virtual-media"), bmc.BootMedia, []assets.Ref{assets.ISO("s", "v", "amd64", false)}},
		{node(true, ""), bmc.BootHTTP, []assets.Ref{assets.UKI("s", "v", "amd64", true)}},
		{node(true, "uefi-http"), bmc.BootHTTP, []assets.Ref{assets.UKI("s", "v", "amd64", true)}},
		{node(true, "pxe"), bmc.BootPXE, []assets.Ref{assets.UKI("s", "v", "amd64", true)}},
		{node(true, "virtual-media"), bmc.BootMedia, []assets.Ref{assets.ISO("s", "v", "amd64", true)}},
	} {
		if kind := bootKind(tc.node); kind != tc.kind {
			t.Errorf("%v %q: %s, want %s", tc.node.SecureBoot, tc.node.BMC.Boot, kind, tc.kind)
		}
		if diff := cmp.Diff(tc.want, ImagesOf(tc.node)); diff != "" {
			t.Errorf("%v %q: images (-want +got):\n%s", tc.node.SecureBoot, tc.node.BMC.Boot, diff)
		}
	}
}

// armedBy is a BMC that takes some kinds of boot and notes what it was asked for.
type armedBy struct {
	BMC
	refuses map[bmc.BootKind]error
	asked   []bmc.BootRequest
}

func (b *armedBy) Arm(_ context.Context, r bmc.BootRequest) (bmc.BootOverride, error) {
	b.asked = append(b.asked, r)
	return bmc.BootOverride{Target: string(r.Kind)}, b.refuses[r.Kind]
}

func TestHowABMCIsAskedToBootASignedImage(t *testing.T) {
	t.Parallel()
	byUUID := bmc.BootRequest{Kind: bmc.BootHTTP, HTTPBootURI: "http://10.0.0.1:8080/uki/" + identity.NormalizeUUID(board1.UUID) + "/amd64.efi"}
	byMAC := bmc.BootRequest{Kind: bmc.BootHTTP, HTTPBootURI: "http://10.0.0.1:8080/uki/0c-c4-7a-00-00-01/amd64.efi"}
	byDHCP := bmc.BootRequest{Kind: bmc.BootHTTP}
	network := bmc.BootRequest{Kind: bmc.BootPXE}
	noHTTP := map[bmc.BootKind]error{bmc.BootHTTP: bmc.ErrOverrideRefused}
	for name, tc := range map[string]struct {
		change  func(*node)
		refuses map[bmc.BootKind]error
		want    []bmc.BootRequest
		err     error
	}{
		"by UUID":                  {nil, nil, []bmc.BootRequest{byUUID}, nil},
		"by MAC":                   {func(n *node) { n.UUID = "" }, nil, []bmc.BootRequest{byMAC}, nil},
		"no address of ours":       {func(n *node) { n.c.opts.BootURL = "" }, nil, []bmc.BootRequest{byDHCP}, nil},
		"an address that is long":  {func(n *node) { n.c.opts.BootURL = "http://" + strings.Repeat("a", 120) }, nil, []bmc.BootRequest{byDHCP}, nil},
		"refused":                  {nil, noHTTP, []bmc.BootRequest{byUUID, network}, nil},
		"not kept":                 {nil, map[bmc.BootKind]error{bmc.BootHTTP: bmc.ErrOverrideNotKept}, []bmc.BootRequest{byUUID, network}, nil},
		"both refused":             {nil, map[bmc.BootKind]error{bmc.BootHTTP: bmc.ErrOverrideRefused, bmc.BootPXE: bmc.ErrOverrideNotKept}, []bmc.BootRequest{byUUID, network}, bmc.ErrOverrideNotKept},
		"unreachable":              {nil, map[bmc.BootKind]error{bmc.BootHTTP: bmc.ErrUnreachable}, []bmc.BootRequest{byUUID}, bmc.ErrUnreachable},
		"refused, but it was said": {func(n *node) { n.BMC.Boot = "uefi-http" }, noHTTP, []bmc.BootRequest{byUUID}, bmc.ErrOverrideRefused},
		"without Secure Boot":      {func(n *node) { n.SecureBoot = false; n.BMC.Boot = "uefi-http" }, noHTTP, []bmc.BootRequest{{Kind: bmc.BootHTTP, HTTPBootURI: "http://10.0.0.1:8080/ipxe/snponly.efi"}}, bmc.ErrOverrideRefused},
	} {
		c, n := signedAtWork(t, Identified, stepNone)
		c.opts.BootURL = "http://10.0.0.1:8080"
		if tc.change != nil {
			tc.change(n)
		}
		client := &armedBy{refuses: tc.refuses}
		n.client = client
		_, err := n.armBoot(t.Context())
		if !errors.Is(err, tc.err) {
			t.Errorf("%s: error %v, want %v", name, err, tc.err)
		}
		if diff := cmp.Diff(tc.want, client.asked); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", name, diff)
		}
	}
}

// I2: a wipe that the image would not do is not begun.
func TestI2ASignedImageThatWipesNothingIsNotBootedToReinstall(t *testing.T) {
	t.Parallel()
	wiping := &schematic.Schematic{Customization: schematic.Customization{ExtraKernelArgs: []string{wipeArg}}}
	for name, tc := range map[string]struct {
		node inventory.Node
		held bool
	}{
		"without Secure Boot":           {inventory.Node{}, false},
		"an unknown schematic":          {inventory.Node{SecureBoot: true}, true},
		"a schematic without it":        {inventory.Node{SecureBoot: true, Schematic: &schematic.Schematic{}}, true},
		"a schematic with the argument": {inventory.Node{SecureBoot: true, Schematic: wiping}, false},
	} {
		f := wipeIsSigned(tc.node)
		if (f != nil) != tc.held || f != nil && (!f.Hold || !strings.Contains(f.Error(), wipeArg) || !strings.Contains(f.Advice(), "talosctl reset")) {
			t.Errorf("%s: %v", name, f)
		}
	}
}
