package tftp

import (
	"bytes"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/talos-provision/provision/e2e/needs"
)

// P9: EDK2 asks for the size, aborts, and asks again from a new port.
func TestP9SizeProbeThenDownload(t *testing.T) {
	t.Parallel()
	b := serve(t)
	probe := b.client(t)
	probe.read("snponly.efi", "tsize", "0", "blksize", "1468")
	if diff := cmp.Diff(map[string]string{"tsize": "284672", "blksize": "1468"}, probe.options()); diff != "" {
		t.Errorf("OACK (-want +got):\n%s", diff)
	}
	probe.reply(opError, 8, "User aborted the transfer\x00")
	// The outcome is observed after the server is done with the client.
	got := b.transfer(t)
	want := Transfer{
		Requested: "snponly.efi", Name: "snponly.efi", Client: probe.conn.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort(),
		Local: netip.MustParseAddr("127.0.0.1"), Size: sizeSNP, Outcome: Probed,
		Error: "the client ended the transfer: error 8: User aborted the transfer",
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Transfer{}, "Started", "Duration"), cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{})); diff != "" {
		t.Errorf("transfer (-want +got):\n%s", diff)
	}
	second := b.client(t)
	if content := second.fetch("snponly.efi", 1468); !bytes.Equal(content, pattern(sizeSNP)) {
		t.Errorf("%d bytes differ from the file", len(content))
	}
	if got := b.transfer(t); got.Outcome != Done || got.Sent != sizeSNP {
		t.Errorf("transfer %+v, want done", got)
	}
	probe.wantSilence(3 * time.Second)
}

// P9, Intel BIOS: the probe ends with ERROR 0.
func TestP9IntelSizeProbe(t *testing.T) {
	t.Parallel()
	b := serve(t)
	c := b.client(t)
	c.read("undionly.kpxe", "tsize", "0")
	if diff := cmp.Diff(map[string]string{"tsize": "108847"}, c.options()); diff != "" {
		t.Errorf("OACK (-want +got):\n%s", diff)
	}
	c.reply(opError, 0, "TFTP Aborted\x00")
	if got := b.transfer(t); got.Outcome != Probed {
		t.Errorf("outcome %s, want probed", got.Outcome)
	}
}

// P9: an answer to what was not asked makes UEFI refuse (node-tftp#13).
func TestP9OnlyAskedOptionsAreAnswered(t *testing.T) {
	t.Parallel()
	b := serve(t)
	cases := map[string]struct {
		options []string
		want    map[string]string // nil: data at once
	}{
		"blksize only":           {[]string{"blksize", "1432"}, map[string]string{"blksize": "1432"}},
		"tsize only":             {[]string{"tsize", "0"}, map[string]string{"tsize": "284672"}},
		"newer EDK2: windowsize": {[]string{"blksize", "1468", "windowsize", "4"}, map[string]string{"blksize": "1468", "windowsize": "4"}},
		"nothing":                {nil, nil},
		"blksize too small":      {[]string{"blksize", "7"}, nil},
		"blksize no number":      {[]string{"blksize", "many"}, nil},
		"blksize above a frame":  {[]string{"blksize", "8192"}, map[string]string{"blksize": "1468"}},
		"unknown option":         {[]string{"multicast", ""}, nil},
		"upper case":             {[]string{"BLKSIZE", "1468"}, map[string]string{"BLKSIZE": "1468"}},
		"smallest block":         {[]string{"blksize", "8"}, map[string]string{"blksize": "8"}},
		"odd block":              {[]string{"blksize", "511"}, map[string]string{"blksize": "511"}},
		"more than RFC 2348 has": {[]string{"blksize", "65535"}, map[string]string{"blksize": "1468"}},
		"u-root: great window":   {[]string{"windowsize", "65535"}, map[string]string{"windowsize": "32"}},
		"timeout":                {[]string{"timeout", "3"}, map[string]string{"timeout": "3"}},
		"timeout of 0":           {[]string{"timeout", "0"}, nil},
		"named twice":            {[]string{"blksize", "600", "BlkSize", "700"}, map[string]string{"blksize": "600"}},
		"value missing":          {[]string{"blksize", "600", "tsize"}, map[string]string{"blksize": "600"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := b.client(t)
			client.read("snponly.efi", c.options...)
			if c.want != nil {
				if diff := cmp.Diff(c.want, client.options()); diff != "" {
					t.Errorf("OACK (-want +got):\n%s", diff)
				}
			} else if data := client.want(opData); len(data) != 2+512 {
				t.Errorf("first block of %d bytes, want 512", len(data)-2)
			}
			client.reply(opError, 0, "enough\x00")
		})
	}
}

func TestAbortInTheMiddleIsNotAProbe(t *testing.T) {
	t.Parallel()
	b := serve(t)
	c := b.client(t)
	c.read("snponly.efi", "tsize", "0", "blksize", "1468")
	c.options()
	c.ack(0)
	c.want(opData)
	c.reply(opError, 0, "User aborted the transfer\x00")
	if got := b.transfer(t); got.Outcome != Aborted || got.Sent == 0 {
		t.Errorf("transfer %+v, want aborted with bytes sent", got)
	}
	c.wantSilence(300 * time.Millisecond)
}

// P10: the script in any folder, with the address that the request reached;
// what is missing is refused at once, because iPXE waits 30 s for a silent server.
func TestP10AutoexecAndMissingFiles(t *testing.T) {
	t.Parallel()
	b := serve(t, func(o *Options) { o.Listen = "0.0.0.0:0" })
	to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.77"), b.Addr().Port())
	for _, name := range []string{"autoexec.ipxe", "/autoexec.ipxe", "x/y/autoexec.ipxe", `\x\autoexec.ipxe`, "52:54:00:12:34:56/autoexec.ipxe"} {
		c := newClient(t, to, "127.0.0.1")
		if got := string(c.fetch(name, 1432)); got != "#!ipxe\nchain http://127.0.0.77/\n" {
			t.Errorf("%s is %q", name, got)
		}
		if c.tid.Addr() != to.Addr() {
			t.Errorf("the answer came from %s, want the address asked, %s", c.tid, to.Addr())
		}
	}
	for _, name := range []string{"ipxe.pxe", "nosuch", "../etc/passwd", b.folder + "/snponly.efi", "", strings.Repeat("x", 400)} {
		c := newClient(t, to, "127.0.0.1")
		start := time.Now()
		c.read(name, "tsize", "0", "blksize", "1432")
		c.wantError(refuseMissing)
		if took := time.Since(start); took > time.Second {
			t.Errorf("refusing %q took %s", name, took)
		}
	}
}

func TestMissingAutoexec(t *testing.T) {
	t.Parallel()
	b := serve(t, func(o *Options) { o.Autoexec = nil })
	c := b.client(t)
	c.read("autoexec.ipxe")
	c.wantError(refuseMissing)
	if got := b.transfer(t); got.Outcome != Missing {
		t.Errorf("outcome %s, want missing", got.Outcome)
	}
}

func TestAliasesServeTheFileThatIsThere(t *testing.T) {
	t.Parallel()
	b := serve(t)
	for name, size := range map[string]int{"snp.efi": sizeSNP, "ipxe.efi": 996_864, "IPXE-AMD64.EFI": 996_864, "ipxe-arm64.efi\xff": 1024} {
		if got := b.client(t).fetch(name, 1468); !bytes.Equal(got, pattern(size)) {
			t.Errorf("%s: %d bytes, want %d", name, len(got), size)
		}
	}
}

func TestReplacedBinaryIsServedAnew(t *testing.T) {
	t.Parallel()
	b := serve(t)
	b.client(t).fetch("ipxe-arm64.efi", 1468)
	if err := os.WriteFile(filepath.Join(b.folder, "ipxe-arm64.efi"), []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := b.client(t).fetch("ipxe-arm64.efi", 1468); string(got) != "new" {
		t.Errorf("%d bytes, want the new content", len(got))
	}
}

func TestWritesAreRefused(t *testing.T) {
	t.Parallel()
	b := serve(t)
	c := b.client(t)
	c.sendTo(requestPacket(opWrite, "snponly.efi", "octet"), c.to)
	c.wantError(refuseWrite)
	if content, err := os.ReadFile(filepath.Join(b.folder, "snponly.efi")); err != nil || len(content) != sizeSNP {
		t.Errorf("the file was touched: %d bytes, %v", len(content), err)
	}
}

func TestPortInUseSaysWhoToLookFor(t *testing.T) {
	t.Parallel()
	b := serve(t)
	second, err := New(Options{Listen: b.Addr().String(), IPXEDir: b.folder})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Listen(); err == nil || !strings.Contains(err.Error(), "is in use by another program: find it with `ss -ulpn 'sport = :") {
		t.Errorf("error %v, want one that names the port and ss", err)
	}
}

func TestBadOptionsAreExplained(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]Options{
		"ADDRESS:PORT":        {Listen: "localhost", IPXEDir: t.TempDir()},
		"no folder":           {},
		"install the package": {IPXEDir: "/nonexistent/ipxe"},
		"not a folder":        {IPXEDir: file},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %q", err, want)
		}
	}
}

// Clients that nobody here wrote.
func TestForeignClientsDownload(t *testing.T) {
	t.Parallel()
	b := serve(t)
	host, port := b.Addr().Addr().String(), strconv.Itoa(int(b.Addr().Port()))
	clients := map[string][]string{ // OUT is where the file goes
		"curl, 512 bytes":    {"curl", "--silent", "--show-error", "--max-time", "60", "--tftp-blksize", "512", "--output", "OUT", "tftp://" + b.Addr().String() + "/snponly.efi"},
		"curl, a frame":      {"curl", "--silent", "--show-error", "--max-time", "60", "--tftp-blksize", "1468", "--output", "OUT", "tftp://" + b.Addr().String() + "/snponly.efi"},
		"curl, fragments":    {"curl", "--silent", "--show-error", "--max-time", "60", "--tftp-blksize", "8192", "--output", "OUT", "tftp://" + b.Addr().String() + "/snponly.efi"},
		"curl, no options":   {"curl", "--silent", "--show-error", "--max-time", "60", "--tftp-no-options", "--output", "OUT", "tftp://" + b.Addr().String() + "/snponly.efi"},
		"tftp-hpa":           {"tftp", "-m", "binary", host, port, "-c", "get", "snponly.efi", "OUT"},
		"busybox, 512 bytes": {"busybox", "tftp", "-g", "-r", "snponly.efi", "-l", "OUT", host, port},
		"busybox, a frame":   {"busybox", "tftp", "-b", "1468", "-g", "-r", "snponly.efi", "-l", "OUT", host, port},
	}
	for name, args := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needs.Program(t, args[0])
			out := filepath.Join(t.TempDir(), "out")
			for i, a := range args {
				if a == "OUT" {
					args[i] = out
				}
			}
			if message, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
				if strings.Contains(string(message), "not supported") || strings.Contains(string(message), "applet not found") {
					needs.Lacking(t, "this build of %s has no TFTP", args[0])
				}
				t.Fatalf("%v\n%s", err, message)
			}
			if content, err := os.ReadFile(out); err != nil || !bytes.Equal(content, pattern(sizeSNP)) {
				t.Errorf("%d bytes differ from the file (%v)", len(content), err)
			}
		})
	}
}
