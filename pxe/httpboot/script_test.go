package httpboot

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	base      = "http://127.0.0.1:8080"
	schematic = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"
	image     = base + "/image/" + schematic + "/v1.13.9"
	node01    = "ip=10.1.0.11::10.1.0.1:255.255.255.0:node-01:eth0.7::10.1.0.2:10.1.0.3:10.1.0.4 vlan=eth0.7:eth0 talos.platform=metal slab_nomerge pti=on"
)

func installed(args string) Answer {
	return Answer{Kind: Install, Node: "node-01", Schematic: schematic, Version: "v1.13.9", Args: args}
}

func TestAutoexecIsTheScriptObservedToWork(t *testing.T) {
	t.Parallel()
	want := `#!ipxe
dhcp || dhcp || exit 1
chain --autofree http://127.0.0.1:8080/boot.ipxe?serial=${serial:uristring}&board-serial=${board-serial:uristring}&uuid=${uuid}&mac=${mac:hexhyp}&arch=${buildarch}&platform=${platform}&manufacturer=${manufacturer:uristring}&product=${product:uristring}&asset=${asset:uristring}&nic=${net0/mac:hexhyp}&nic=${net1/mac:hexhyp}&nic=${net2/mac:hexhyp}&nic=${net3/mac:hexhyp} || exit 1
exit 0
`
	if diff := cmp.Diff(want, Autoexec(base)); diff != "" {
		t.Error(diff)
	}
}

func TestScripts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		answer  Answer
		request Request
		want    string
	}{
		{"P11 local boot on UEFI fails on purpose", Answer{Node: "node-01", Reason: "not armed"}, Request{Platform: "efi"}, `#!ipxe
echo provision: node-01 not armed
exit 1
`},
		{"P11 local boot on BIOS", Answer{}, Request{Platform: "pcbios"}, `#!ipxe
sanboot --no-describe --drive 0x80 || exit
`},
		{"local boot on a platform that was not told", Answer{}, Request{}, `#!ipxe
iseq ${platform} pcbios && sanboot --no-describe --drive 0x80 ||
exit 1
`},
		{"P12 install", installed(node01), Request{Arch: "amd64", Platform: "pcbios"}, `#!ipxe
echo provision: node-01 boots Talos v1.13.9
set attempt:int32 0
:fetch
imgfree
kernel ` + image + `/kernel-amd64 initrd=initramfs.xz ` + node01 + ` || goto failed
initrd --name initramfs.xz ` + image + `/initramfs-amd64.xz || goto failed
boot || goto failed
:failed
iseq ${attempt} 10 && exit 1 ||
inc attempt
echo provision: failed, retry ${attempt} of 10
sleep 5
goto fetch
`},
		{"install with Secure Boot", Answer{Kind: Install, SecureBoot: true, Node: "node-01", Schematic: schematic, Version: "v1.13.9", Args: "not || used"}, Request{Arch: "arm64", Platform: "efi"}, `#!ipxe
echo provision: node-01 boots Talos v1.13.9
set attempt:int32 0
:fetch
imgfree
kernel ` + image + `/metal-arm64-secureboot-uki.efi || goto failed
boot || goto failed
:failed
iseq ${attempt} 10 && exit 1 ||
inc attempt
echo provision: failed, retry ${attempt} of 10
sleep 5
goto fetch
`},
		{"wait", Answer{Kind: Wait, Node: "node-01", Reason: "the kernel is being fetched"}, Request{Arch: "amd64", Platform: "efi", Waits: 4}, `#!ipxe
echo provision: node-01 the kernel is being fetched
set attempt:int32 0
:ask
sleep 5
chain --autofree --replace http://127.0.0.1:8080/boot.ipxe?` + factsQuery + `&wait=5 ||
iseq ${attempt} 10 && exit 1 ||
inc attempt
echo provision: failed, retry ${attempt} of 10
sleep 5
goto ask
`},
	} {
		checked := tc.answer.check(tc.request)
		if checked.Kind != tc.answer.Kind {
			t.Errorf("%s: %s", tc.name, checked.Reason)
		}
		if diff := cmp.Diff(tc.want, script(checked, tc.request, base)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestScriptsUseOldCommandsOnly: a command that an old or reduced iPXE lacks ends
// the script there (smee#78, sidero#1123).
func TestScriptsUseOldCommandsOnly(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, c := range strings.Fields("echo set isset iseq goto chain kernel initrd imgargs imgfree boot exit sanboot dhcp ifopen ifstat sleep reboot prompt inc") {
		known[c] = true
	}
	r := Request{Arch: "amd64"}
	for _, text := range []string{
		Autoexec(base), script(Answer{}, r, base), script(Answer{}, Request{Platform: "efi"}, base), script(Answer{}, Request{Platform: "pcbios"}, base),
		script(installed(node01), r, base), script(Answer{Kind: Wait}, r, base),
	} {
		lines := strings.Split(text, "\n")
		if lines[0] != "#!ipxe" || !strings.HasSuffix(text, "\n") {
			t.Errorf("not a script:\n%s", text)
		}
		for _, line := range lines[1:] {
			expectCommand := true
			for _, word := range strings.Fields(line) {
				switch {
				case strings.HasPrefix(word, ":"):
				case operators[word]:
					expectCommand = true
				case expectCommand && !known[word]:
					t.Errorf("command %q in %q", word, line)
				default:
					expectCommand = false
				}
			}
		}
	}
}

func TestAnInstallThatCannotBeCarriedOutBootsTheDiskAndSaysWhy(t *testing.T) {
	t.Parallel()
	amd64 := Request{Arch: "amd64", Platform: "efi"}
	for _, tc := range []struct {
		name    string
		answer  Answer
		request Request
		want    string
	}{
		{"no architecture", installed(node01), Request{Platform: "efi"}, "no Talos image"},
		{"Secure Boot on BIOS", Answer{Kind: Install, SecureBoot: true, Schematic: schematic, Version: "v1.13.9"}, Request{Arch: "amd64", Platform: "pcbios"}, "needs UEFI"},
		{"bad schematic", Answer{Kind: Install, Schematic: "../x", Version: "v1.13.9"}, amd64, "64 lower-case hex"},
		{"bad version", Answer{Kind: Install, Schematic: schematic, Version: "v1.13.9 || exit"}, amd64, "form v1.13.9"},
		{"newline", installed("a=1\nexit"), amd64, "0x0a"},
		{"carriage return", installed("a=1\rb"), amd64, "0x0d"},
		{"or", installed("a=1 || exit"), amd64, `"||" would end`},
		{"and", installed("a=1 && exit"), amd64, `"&&" would end`},
		{"semicolon", installed("a=1 ; exit"), amd64, `";" would end`},
		{"comment", installed("a=1 #b"), amd64, "comment"},
		{"expansion", installed("a=${serial}"), amd64, "contains ${"},
		{"expansion in the path of talos.config", installed("talos.config=http://c/${serial}.yaml?a=${uuid}"), amd64, "contains ${"},
		{"too long", installed(strings.Repeat("a ", 2100)), amd64, "the kernel reads"},
		{"waited too long", Answer{Kind: Wait}, Request{Waits: maxWaits}, "waited 120 times"},
		{"unknown kind", Answer{Kind: 99}, amd64, "kind 99 is unknown"},
	} {
		got := tc.answer.check(tc.request)
		if tc.answer.LocalBoot = LocalBootExit0; tc.answer.check(tc.request).LocalBoot != LocalBootExit0 {
			t.Errorf("%s: the node's way to its disk is forgotten", tc.name)
		}
		if got.Kind != LocalBoot || !strings.Contains(got.Reason, tc.want) {
			t.Errorf("%s: %+v, want a local boot with %q", tc.name, got, tc.want)
		}
		if text := script(got, tc.request, base); strings.Contains(text, "kernel ") && strings.Contains(text, "\nkernel ") {
			t.Errorf("%s: the script loads a kernel:\n%s", tc.name, text)
		}
	}
}

func TestTalosVariablesReachTalosAndNotIPXE(t *testing.T) {
	t.Parallel()
	got, err := kernelArgs("quiet  talos.config=https://c.example/m?u=${uuid}&m=${mac}\tfoo|bar a#b c;d")
	if err != nil {
		t.Fatal(err)
	}
	want := "quiet talos.config=https://c.example/m?u=%24%7Buuid%7D&m=%24%7Bmac%7D foo|bar a#b c;d"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// FuzzInstallScript: no argument, name or reason breaks out of its line.
func FuzzInstallScript(f *testing.F) {
	f.Add("node-01", "ready", node01)
	f.Add("a\nboot", "x || reboot", "a=1 || exit")
	f.Add("${serial}", "\\", "talos.config=http://c/?a=${uuid}} b")
	f.Add("é", "; exit", "a\\ b #c")
	r := Request{Arch: "amd64", Platform: "efi"}
	plain := strings.Count(script(installed(""), r, base), "\n")
	f.Fuzz(func(t *testing.T, node, reason, args string) {
		a := installed(args)
		a.Node, a.Reason = node, reason
		checked := a.check(r)
		text := script(checked, r, base)
		if checked.Kind == LocalBoot {
			if !strings.HasSuffix(text, "\nexit 1\n") || strings.Count(text, "\n") != 3 {
				t.Errorf("local boot is:\n%s", text)
			}
			return
		}
		if n := strings.Count(text, "\n"); n != plain && n != plain-1 {
			t.Errorf("%d lines, want %d:\n%s", n, plain, text)
		}
		for _, line := range strings.Split(text, "\n") {
			switch {
			case strings.HasPrefix(line, "echo provision: failed"):
			case strings.HasPrefix(line, "echo "):
				if strings.ContainsAny(line, "$|&;#\\") {
					t.Errorf("echo line %q", line)
				}
			case strings.HasPrefix(line, "kernel "):
				body, ok := strings.CutSuffix(line, " || goto failed")
				if !ok || strings.Contains(body, "${") {
					t.Errorf("kernel line %q", line)
				}
				for _, word := range strings.Fields(body) {
					if operators[word] || strings.HasPrefix(word, "#") {
						t.Errorf("word %q in kernel line", word)
					}
				}
			}
		}
	})
}
