package doctor

import (
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// results are the words of findings, for comparing.
func results(found []Finding) []Result {
	all := make([]Result, 0, len(found))
	for _, f := range found {
		all = append(all, f.Result)
	}
	return all
}

// Whatever is not ok must say what to do.
func sound(t *testing.T, found []Finding) {
	t.Helper()
	for _, f := range found {
		if f.Message == "" || (f.Result == OK) != (f.Hint == "") {
			t.Errorf("finding %+v", f)
		}
	}
}

func TestTheWorstResultCounts(t *testing.T) {
	t.Parallel()
	for want, found := range map[Result][]Finding{
		OK:   {{Result: OK}},
		Warn: {{Result: OK}, {Result: Warn}, {Result: OK}},
		Fail: {{Result: Warn}, {Result: Fail}, {Result: Warn}},
	} {
		if got := Worst(found); got != want {
			t.Errorf("worst of %v is %s, want %s", results(found), got, want)
		}
	}
	if got := Worst(nil); got != OK {
		t.Errorf("worst of nothing is %s", got)
	}
}

func TestAddressesOfProcAreRead(t *testing.T) {
	t.Parallel()
	native := hex.EncodeToString([]byte{127, 0, 0, 1})
	for text, want := range map[string]string{
		"00000000:0043":                         "0.0.0.0:67",
		"00000000000000000000000000000000:0045": "[::]:69",
		"0100007F:0FAB":                         "127.0.0.1:4011",
		"0000000000000000FFFF00000100007F:1F90": "[::ffff:127.0.0.1]:8080",
		"xyz:0043":                              "", "0100007F:xyz": "", "010000:0043": "", "": "", "0100007F": "", native: "",
	} {
		got, ok := parseAddress(text)
		if ok != (want != "") || (ok && got.String() != want) {
			t.Errorf("%q is read as %s (%t), want %q", text, got, ok, want)
		}
	}
}

// procWith makes a /proc of one process that holds one socket.
func procWith(t *testing.T, table, address, state, name string) string {
	t.Helper()
	proc := t.TempDir()
	for _, dir := range []string{"net", "4711/fd"} {
		if err := os.MkdirAll(filepath.Join(proc, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	line := "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
		"   0: " + address + " 00000000:0000 " + state + " 00000000:00000000 00:00000000 00000000     0        0 987654 2 0000000000000000 0\n"
	for file, text := range map[string]string{"net/" + table: line, "4711/comm": name + "\n"} {
		if err := os.WriteFile(filepath.Join(proc, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"4711/fd/3": "socket:[111]", "4711/fd/4": "socket:[987654]", "4711/exe": "/usr/sbin/" + name} {
		if err := os.Symlink(target, filepath.Join(proc, link)); err != nil {
			t.Fatal(err)
		}
	}
	return proc
}

func TestTheHolderOfAPortIsNamed(t *testing.T) {
	t.Parallel()
	// Ports of a running machine: any free one will do for those that are tried.
	wanted := Port{Service: "DHCP", Network: "udp", Listen: netip.MustParseAddrPort("127.0.0.1:0")}
	at := func(p Port, listen string) Port { p.Listen = netip.MustParseAddrPort(listen); return p }
	http := Port{Service: "HTTP", Network: "tcp", Listen: netip.MustParseAddrPort("0.0.0.0:8080")}
	for name, tc := range map[string]struct {
		proc string
		port Port
		want Result
		says string
	}{
		"another program":          {procWith(t, "udp", "00000000:0043", "07", "dnsmasq"), at(wanted, "0.0.0.0:67"), Fail, "held by dnsmasq, process 4711, at 0.0.0.0:67"},
		"on another address":       {procWith(t, "udp", "0100007F:0000", "07", "dnsmasq"), at(wanted, "127.0.0.2:0"), OK, "free"},
		"on the wildcard of IPv6":  {procWith(t, "tcp6", "00000000000000000000000000000000:1F90", "0A", "nginx"), http, Fail, "nginx"},
		"this program":             {procWith(t, "tcp", "00000000:1F90", "0A", "provision"), http, OK, "process 4711 is at work"},
		"nobody listens there":     {procWith(t, "tcp", "0100007F:0000", "01", "curl"), at(Port{Service: "HTTP", Network: "tcp"}, "127.0.0.1:0"), OK, "free"},
		"no such address":          {t.TempDir(), at(wanted, "192.0.2.1:0"), Fail, "no interface has the address"},
		"nothing is known of them": {t.TempDir(), wanted, OK, "free"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(Options{Ports: []Port{tc.port}})
			h.proc = tc.proc
			found := checkPorts(t.Context(), h)
			sound(t, found)
			if len(found) != 1 || found[0].Result != tc.want || !strings.Contains(found[0].Message, tc.says) {
				t.Errorf("found %+v, want %s: %s", found, tc.want, tc.says)
			}
		})
	}
}

func TestAHolderThatCannotBeSeenIsToldAsSuch(t *testing.T) {
	t.Parallel()
	proc := procWith(t, "udp", "00000000:0045", "07", "x")
	if err := os.RemoveAll(filepath.Join(proc, "4711")); err != nil {
		t.Fatal(err)
	}
	h := newHost(Options{})
	h.proc = proc
	f := h.checkPort(t.Context(), Port{Service: "TFTP", Network: "udp", Listen: netip.MustParseAddrPort("0.0.0.0:69")})
	if f.Result != Fail || !strings.Contains(f.Hint, "as root") {
		t.Errorf("%+v", f)
	}
}

// What other DHCP servers mean depends on the mode.
func TestOtherDHCPServersAreJudgedByTheMode(t *testing.T) {
	t.Parallel()
	server := netip.MustParseAddr("10.0.0.3")
	plain := offer{server: server, address: netip.MustParseAddr("10.0.0.50")}
	full := plain
	full.file = "pxelinux.0"
	proxy := offer{server: server, file: "ipxe.efi"}
	for name, tc := range map[string]struct {
		options Options
		offers  []offer
		want    Result
		says    string
	}{
		"server, alone":              {Options{Mode: ModeServer}, nil, OK, "no other"},
		"server, a rival":            {Options{Mode: ModeServer}, []offer{plain, full}, Fail, "10.0.0.3"},
		"server, a rival, assertive": {Options{Mode: ModeServer, Assertive: true}, []offer{plain}, Warn, "assertive"},
		"server, a boot server":      {Options{Mode: ModeServer}, []offer{proxy}, Fail, "ipxe.efi"},
		"proxy, a server":            {Options{Mode: ModeProxy}, []offer{plain}, OK, "10.0.0.3"},
		"proxy, with a boot file":    {Options{Mode: ModeProxy}, []offer{full}, Warn, "pxelinux.0"},
		"proxy, nobody":              {Options{Mode: ModeProxy}, nil, Fail, "no DHCP server"},
		"off, nobody":                {Options{Mode: ModeOff}, nil, Warn, "no DHCP server"},
		"off, no boot file":          {Options{Mode: ModeOff}, []offer{plain}, Warn, "no boot file"},
		"off, all there":             {Options{Mode: ModeOff}, []offer{plain, full}, OK, "pxelinux.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := newHost(tc.options).judge("eth1", tc.offers)
			sound(t, found)
			if len(found) != 1 || found[0].Result != tc.want || !strings.Contains(found[0].Message, tc.says) {
				t.Errorf("found %+v, want %s: %s", found, tc.want, tc.says)
			}
		})
	}
}

func TestTheClockIsJudgedByTheFactoryFirst(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	date := func(d time.Duration) string { return now.Add(d).Format("Mon, 02 Jan 2006 15:04:05 GMT") }
	type other struct {
		ahead  time.Duration
		public bool
	}
	for name, tc := range map[string]struct {
		others []other
		want   []Result
		says   string
	}{
		"nobody to ask":             {nil, []Result{Warn}, "no other clock"},
		"all agree":                 {[]other{{time.Second, true}, {-time.Second, false}}, []Result{OK}, "agrees with 2"},
		"drift":                     {[]other{{time.Minute, true}}, []Result{Warn}, "1m0s ahead"},
		"wrong":                     {[]other{{-time.Hour, true}}, []Result{Fail}, "1h0m0s behind"},
		"one BMC is off":            {[]other{{0, true}, {0, false}, {365 * 24 * time.Hour, false}}, []Result{Warn}, "1 of 2 BMCs have the wrong time"},
		"all BMCs, no factory":      {[]other{{time.Hour, false}, {time.Hour, false}}, []Result{Warn}, "2 of 2 BMCs differ"},
		"all BMCs, factory is fine": {[]other{{0, true}, {time.Hour, false}}, []Result{Warn}, "have the wrong time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(Options{})
			for _, o := range tc.others {
				h.sample("somebody", now, now, date(o.ahead), o.public)
			}
			h.sample("somebody without a clock", now, now, "", true)
			found := checkClock(h)
			sound(t, found)
			if diff := cmp.Diff(tc.want, results(found)); diff != "" || !strings.Contains(found[0].Message, tc.says) {
				t.Errorf("found %+v, want %v: %s", found, tc.want, tc.says)
			}
		})
	}
}

func TestFoldersMustHaveRoom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		dir           string
		least, little uint64
		want          Result
	}{
		"there":            {dir, 0, 0, OK},
		"not there yet":    {filepath.Join(dir, "a/b/c"), 0, 0, OK},
		"little":           {dir, 0, 1 << 62, Warn},
		"too little":       {dir, 1 << 62, 1 << 62, Fail},
		"below a file":     {filepath.Join(file, "a"), 0, 0, Fail},
		"a file":           {file, 0, 0, Fail},
		"of another world": {"/proc/1/nothing", 0, 1 << 62, Fail}, // no space at all, or not to be written to
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			least := tc.least
			if name == "of another world" {
				least = 1 // /proc has none
			}
			f := room(tc.dir, least, tc.little, "assets.cache")
			sound(t, []Finding{f})
			if f.Result != tc.want {
				t.Errorf("%+v, want %s", f, tc.want)
			}
		})
	}
}

func TestARM64NodesNeedTheirBinary(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"snponly.efi", "undionly.kpxe"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("autoexec.ipxe"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for want, o := range map[string]Options{
		"ok":      {IPXEDir: dir, Archs: []string{"amd64"}},
		"ok fail": {IPXEDir: dir, Archs: []string{"amd64", "arm64"}},
		"fail":    {IPXEDir: t.TempDir()},
		"":        {},
	} {
		found := checkIPXE(t.Context(), newHost(o))
		sound(t, found)
		if got := words(results(found)); got != want {
			t.Errorf("%+v: %s, want %s", o, got, want)
		}
	}
}

// Debian 12's build of 2019 leaves a UEFI machine at an iPXE that asks nobody.
func TestIPXEMustBeThereAndRecent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		files map[string]string
		want  Result
		says  string
	}{
		"recent":      {map[string]string{"snponly.efi": "autoexec.ipxe", "undionly.kpxe": ""}, OK, "recent"},
		"old":         {map[string]string{"snponly.efi": "iPXE 1.0.0", "undionly.kpxe": ""}, Fail, "too old"},
		"not for all": {map[string]string{"snponly.efi": "autoexec.ipxe"}, Fail, "undionly.kpxe is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, content := range tc.files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			found := checkIPXE(t.Context(), newHost(Options{IPXEDir: dir}))
			sound(t, found)
			if len(found) != 1 || found[0].Result != tc.want || !strings.Contains(found[0].Message, tc.says) {
				t.Errorf("found %+v, want %s: %s", found, tc.want, tc.says)
			}
		})
	}
}

func words(all []Result) string {
	words := make([]string, 0, len(all))
	for _, r := range all {
		words = append(words, string(r))
	}
	return strings.Join(words, " ")
}
