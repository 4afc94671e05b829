package firmware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakeHost serves files from memory and counts what a script asks for.
type fakeHost struct {
	files map[string]string
	// fail is how often the next fetches fail.
	fail    int
	dhcpErr error
	slept   time.Duration
	fetched []string
}

func (h *fakeHost) dhcpAsIPXE(context.Context) error { return h.dhcpErr }

func (h *fakeHost) fetch(_ context.Context, u *url.URL, w io.Writer, limit int64) (Image, error) {
	h.fetched = append(h.fetched, u.String())
	if h.fail > 0 {
		h.fail--
		return Image{}, errors.New("input/output error")
	}
	body, ok := h.files[u.Path]
	if !ok {
		return Image{}, errors.New("404 Not Found")
	}
	if int64(len(body)) > limit {
		return Image{}, errors.New("too large")
	}
	_, err := io.WriteString(w, body)
	return Image{Size: int64(len(body)), SHA256: "sum-of-" + body}, err
}

func (h *fakeHost) sleep(_ context.Context, d time.Duration) error {
	h.slept += d
	return nil
}

var base = &url.URL{Scheme: "http", Host: "10.0.0.1:8080", Path: "/dir/boot.ipxe"}

// result is what a script came to.
type result struct {
	Err    string
	End    ending
	Kernel *Kernel
}

func runScript(t *testing.T, h *fakeHost, platform, script string) (result, *interpreter) {
	t.Helper()
	s := &settings{set: map[string]string{}, look: func(name string) (string, bool) {
		value, ok := map[string]string{
			"serial": "SN 0001/A", "board-serial": "BRD#1", "manufacturer": "Acme & Co", "asset": "",
			"mac": "52:54:00:12:34:56", "platform": platform, "evil": "${serial} ${nothing}",
		}[name]
		return value, ok
	}}
	v := newInterpreter(h, s, platform, func(string, ...any) {})
	err := v.run(t.Context(), script, base)
	r := result{End: v.end}
	if err == nil && v.end == endKernel {
		r.Kernel, err = v.kernel()
	}
	if err != nil {
		r.Err = err.Error()
	}
	return r, v
}

func TestScripts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		platform string
		files    map[string]string
		fail     int
		dhcpErr  error
		script   string
		want     result
	}{
		{name: "nothing but the magic succeeds", script: "#!ipxe\n"},
		{name: "without the magic it is no script", script: "#!/bin/sh\nexit\n",
			want: result{Err: "http://10.0.0.1:8080/dir/boot.ipxe: exec format error: this is not a script, it does not begin with #!ipxe"}},
		{name: "exit 0 is success", script: "#!ipxe\nexit\nexit 1\n"},
		{name: "exit 1 is a failure that || of the same line does not catch", script: "#!ipxe\nexit 1 || exit 0\n", want: result{Err: "exit status 1"}},
		{name: "an unknown command fails", script: "#!ipxe\nfrobnicate\nexit 0\n", want: result{Err: "frobnicate: command not found"}},
		{name: "|| catches a failure", script: "#!ipxe\nfrobnicate || exit 3\n", want: result{Err: "exit status 3"}},
		{name: "a trailing || swallows a failure", script: "#!ipxe\nfrobnicate ||\nexit 4\n", want: result{Err: "exit status 4"}},
		{name: "&& stops at a failure", script: "#!ipxe\niseq a b && exit 5 ||\nexit 6\n", want: result{Err: "exit status 6"}},
		{name: "operators go from left to right", script: "#!ipxe\niseq a b && exit 1 || exit 2\n", want: result{Err: "exit status 2"}},
		{name: "; goes on after a failure", script: "#!ipxe\niseq a b ; exit 7\n", want: result{Err: "exit status 7"}},
		{name: "a comment ends a line", script: "#!ipxe\n# exit 1\n  # exit 1\necho a # || exit 1\nexit 8 # exit 9\n", want: result{Err: "exit status 8"}},
		{name: "a backslash continues a line", script: "#!ipxe\niseq a \\\n b || \\\nexit 9\n", want: result{Err: "exit status 9"}},
		{name: "carriage returns are stripped", script: "#!ipxe\r\ngoto end\r\n:end\r\nexit 10\r\n", want: result{Err: "exit status 10"}},
		{name: "goto finds a label before or after it", script: "#!ipxe\nset n:int32 0\ngoto b\n:a\ninc n\niseq ${n} 3 && exit 11 ||\n:b echo at b\ngoto a\n", want: result{Err: "exit status 11"}},
		{name: "goto without its label fails", script: "#!ipxe\ngoto nowhere\n", want: result{Err: "goto: no such label :nowhere"}},
		{name: "isset tells empty from set", script: "#!ipxe\nisset ${asset} && exit 1 ||\nisset ${serial} || exit 2\nexit 12\n", want: result{Err: "exit status 12"}},
		{name: "a value with a space stays one argument", script: "#!ipxe\nset x a b\niseq ${x} ${x} || exit 1\niseq a b ${x} || exit 13\n", want: result{Err: "exit status 13"}},
		{name: "sanboot boots the disk of a BIOS", platform: PCBIOS, script: "#!ipxe\nsanboot --no-describe --drive 0x80 || exit\n", want: result{End: endLocalBoot}},
		{name: "sanboot fails on UEFI", platform: EFI, script: "#!ipxe\nsanboot --no-describe --drive 0x80 || exit 14\n", want: result{Err: "exit status 14"}},
		{name: "dhcp is tried again", dhcpErr: errors.New("timeout"), script: "#!ipxe\ndhcp || dhcp || exit 15\n", want: result{Err: "exit status 15"}},
		{name: "the status of a chained script comes back", files: map[string]string{"/x": "#!ipxe\nexit 1\n"},
			script: "#!ipxe\nchain --autofree http://10.0.0.1/x ||\nexit 16\n", want: result{Err: "exit status 16"}},
		{name: "chain --replace ends the script that chains", files: map[string]string{"/dir/x": "#!ipxe\nexit\n"},
			script: "#!ipxe\nchain --replace x || exit 1\nexit 1\n"},
		{name: "the status of a replacing script counts", files: map[string]string{"/dir/x": "#!ipxe\nexit 19\n"},
			script: "#!ipxe\nchain --replace --autofree x || exit 1\nexit 1\n", want: result{Err: "exit status 19"}},
		{name: "what is no script replaces nothing", files: map[string]string{"/dir/x": "MZ"},
			script: "#!ipxe\nchain --replace x || exit 20\n", want: result{Err: "exit status 20"}},
		{name: "replacing scripts do not nest", files: map[string]string{"/w": "#!ipxe\ninc n\niseq ${n} 40 && exit 21 ||\nchain --replace --autofree /w || exit 1\n"},
			script: "#!ipxe\nchain /w || exit 22\n", want: result{Err: "exit status 22"}},
		{name: "a missing file is a failure", script: "#!ipxe\nchain /missing || exit 17\n", want: result{Err: "exit status 17"}},
		{name: "kernel, initrd, boot", files: map[string]string{"/k": "K", "/i": "II"},
			script: "#!ipxe\nkernel http://10.0.0.1/k?x=1 initrd=initramfs.xz talos.platform=metal --foo -- bar\ninitrd --name initramfs.xz ../i\nboot || exit 1\n",
			want: result{End: endKernel, Kernel: &Kernel{
				Cmdline: "initrd=initramfs.xz talos.platform=metal --foo -- bar", KernelSize: 1, InitrdSize: 2, KernelSHA256: "sum-of-K", InitrdSHA256: "sum-of-II",
			}}},
		{name: "imgargs replaces the arguments", files: map[string]string{"/k": "K"},
			script: "#!ipxe\nkernel /k a b\nimgargs k c\nboot\n",
			want:   result{End: endKernel, Kernel: &Kernel{Cmdline: "c", KernelSize: 1, KernelSHA256: "sum-of-K"}}},
		{name: "a kernel for UEFI needs initrd=", platform: EFI, files: map[string]string{"/k": "K", "/i": "II"},
			script: "#!ipxe\nkernel /k a\ninitrd --name initramfs.xz /i\nboot\n",
			want:   result{End: endKernel, Err: "the kernel panics: it does not find its initramfs, because the command line lacks initrd=initramfs.xz"}},
		{name: "a kernel for a BIOS does not", platform: PCBIOS, files: map[string]string{"/k": "K", "/i": "II"},
			script: "#!ipxe\nkernel /k a\ninitrd /i\nboot\n",
			want:   result{End: endKernel, Kernel: &Kernel{Cmdline: "a", KernelSize: 1, InitrdSize: 2, KernelSHA256: "sum-of-K", InitrdSHA256: "sum-of-II"}}},
		{name: "a failed download is tried again", fail: 2, files: map[string]string{"/k": "K", "/i": "I"},
			script: "#!ipxe\nset n:int32 0\n:k\nkernel /k initrd=i || goto kfail\ninitrd --name i /i || goto kfail\nboot\n:kfail\nimgfree\nsleep 5\niseq ${n} 10 && exit 1 || inc n && goto k\n",
			want:   result{End: endKernel, Kernel: &Kernel{Cmdline: "initrd=i", KernelSize: 1, InitrdSize: 1, KernelSHA256: "sum-of-K", InitrdSHA256: "sum-of-I"}}},
		{name: "boot without an image fails", script: "#!ipxe\nboot || exit 18\n", want: result{Err: "exit status 18"}},
		{name: "a loop ends", script: "#!ipxe\n:a\ngoto a\n",
			want: result{End: endFatal, Err: "http://10.0.0.1:8080/dir/boot.ipxe: more than 5000 commands were run: look for a loop without a counter"}},
		{name: "a script that chains itself ends", files: map[string]string{"/x": "#!ipxe\nchain /x ||\n"}, script: "#!ipxe\nchain /x || exit 1\n",
			want: result{End: endFatal, Err: "scripts chain each other more than 16 deep: look for a script that chains itself"}},
		{name: "a prompt without a timeout stands still", script: "#!ipxe\nprompt || exit 1\n",
			want: result{End: endFatal, Err: "the script waits at a prompt for ever"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, _ := runScript(t, &fakeHost{files: tt.files, fail: tt.fail, dhcpErr: tt.dhcpErr}, tt.platform, tt.script)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExpansion(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"${serial:uristring}":       "SN%200001%2FA",
		"${board-serial:uristring}": "BRD%231",
		"${manufacturer:uristring}": "Acme%20%26%20Co",
		"${mac}":                    "52:54:00:12:34:56",
		"${mac:hexhyp}":             "52-54-00-12-34-56",
		"${net0/mac:hexraw}":        "525400123456",
		"a${nothing}b":              "ab",
		"${asset:uristring}":        "",
		"${serial:nosuchtype}":      "",
		"${evil}":                   "SN 0001/A ", // what comes of it is expanded again
		"${${which}}":               "SN 0001/A",
		"${unfinished":              "${unfinished",
		"$5 }{ ${}":                 "$5 }{ ",
	}
	_, v := runScript(t, &fakeHost{}, EFI, "#!ipxe\nset which serial\n")
	for token, want := range tests {
		if got := v.settings.expand(token); got != want {
			t.Errorf("%s expands to %q, want %q", token, got, want)
		}
	}
}

func TestExpansionOfItselfEnds(t *testing.T) {
	t.Parallel()
	s := &settings{set: map[string]string{"x": "${x}${x}a"}, look: func(string) (string, bool) { return "", false }}
	if got := s.expand("${x}"); len(got) > 2*maxValue {
		t.Errorf("expanded to %d bytes, want at most %d", len(got), 2*maxValue)
	}
}

func TestSleepIsTakenFromTheScript(t *testing.T) {
	t.Parallel()
	h := &fakeHost{}
	runScript(t, h, EFI, "#!ipxe\nsleep 5\nsleep 4000000\nsleep x ||\n")
	if want := 5*time.Second + maxSleep; h.slept != want {
		t.Errorf("slept %v, want %v", h.slept, want)
	}
}

func TestURLsAreRelativeToTheScriptTheyAreIn(t *testing.T) {
	t.Parallel()
	h := &fakeHost{files: map[string]string{"/a/b.ipxe": "#!ipxe\nkernel k\n"}}
	runScript(t, h, EFI, "#!ipxe\nchain /a/b.ipxe ||\nkernel k ||\nkernel tftp://10.0.0.2/k ||\n")
	want := []string{"http://10.0.0.1:8080/a/b.ipxe", "http://10.0.0.1:8080/a/k", "http://10.0.0.1:8080/dir/k", "tftp://10.0.0.2/k"}
	if diff := cmp.Diff(want, h.fetched); diff != "" {
		t.Errorf("fetched (-want +got):\n%s", diff)
	}
}

// FuzzScript: no script makes the interpreter panic, or run or grow without bounds.
func FuzzScript(f *testing.F) {
	for _, seed := range []string{
		"#!ipxe\n", "#!ipxe\n:a\ngoto a\n", "#!ipxe\nset a ${a}${a}x\n:b\nset a ${a}${a}x\ngoto b\n",
		"#!ipxe\nchain /self || chain --replace --autofree /self\n", "#!ipxe\nkernel --name k /k initrd=i\ninitrd --name i /k\nimgargs k x\nboot k y\n",
		"#!ipxe\ninc n 9223372036854775807\ninc n\n", "#!ipxe\necho \\", "#!ipxe\n${\n}\n: \n:\n", "#!ipxe\nexit 99999999999\nsleep 1 # x\nimgfree a b\n",
		"#!ipxe\nset x:uristring:y a\necho ${x:hexhyp} ${net0/mac:hexhyp}\nsanboot --drive=0x80\n", "#!ipxe\nprompt -t 5 x || -- -\n",
	} {
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, script string, bios bool) {
		if len(script) > maxScript {
			return
		}
		platform := EFI
		if bios {
			platform = PCBIOS
		}
		h := &fakeHost{files: map[string]string{"/self": script, "/k": "kernel"}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		s := &settings{set: map[string]string{}, look: func(name string) (string, bool) { return strings.ToUpper(name), name != "" }}
		v := newInterpreter(h, s, platform, func(format string, args ...any) { _ = fmt.Sprintf(format, args...) })
		_ = v.run(ctx, script, base)
		if v.ran > maxCommands+1 {
			t.Errorf("ran %d commands", v.ran)
		}
		if v.end == endKernel {
			_, _ = v.kernel()
		}
		if ctx.Err() != nil {
			t.Error("the script ran for 10 s")
		}
	})
}
