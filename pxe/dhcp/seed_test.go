package dhcp

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A controller takes a segment over: it knows the leases of the one that is gone,
// and keeps those of its own file.
func TestStandbyKnowsTheLeasesOfTheServerBefore(t *testing.T) {
	t.Parallel()
	var m mirror
	folder := t.TempDir()
	r, _, stop := serveRelay(t, func(o *Options) {
		o.LeaseFile, o.OnCommit = filepath.Join(folder, "one", "leases"), m.observe
	})
	leased := map[string]string{}
	for i := range 30 {
		leased[benchMAC(i)] = r.lease(benchMAC(i))
	}
	stop()

	standby := filepath.Join(folder, "two", "leases")
	r, _, stop = serveRelay(t, func(o *Options) { // it served another segment before
		o.LeaseFile, o.Subnets[0].First = standby, netip.MustParseAddr("127.10.2.0")
	})
	leased[testMAC] = r.lease(testMAC)
	stop()
	if err := SeedLeaseFile(standby, slices.Collect(maps.Values(m.live(time.Now())))); err != nil {
		t.Fatal(err)
	}
	r, s, _ := serveRelay(t, func(o *Options) { o.LeaseFile = standby })
	if got := len(s.Leases()); got != len(leased) {
		t.Errorf("it knows %d leases, want %d", got, len(leased))
	}
	for mac, ip := range leased {
		ack := r.ask(packet{mac: mac, options: with(request, plain(), address(50, ip))})
		if got := ack.YourIPAddr.String(); got != ip {
			t.Errorf("%s got %s after the take-over, had %s", mac, got, ip)
		}
	}
	fresh := r.lease(otherMAC)
	for mac, ip := range leased {
		if ip == fresh {
			t.Errorf("a new client got %s of %s", fresh, mac)
		}
	}
}

func TestSeededLeases(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_796_040_000, 0)
	at := func(minutes int64) int64 { return now.Unix() + 60*minutes }
	line := func(mac, ip string, until int64) string {
		return fmt.Sprintf(`{"mac":"52:54:00:00:00:%s","ip":"10.0.0.%s","until":%d}`, mac, ip, until)
	}
	lease := func(mac, ip string, expires time.Time) LeaseRecord {
		return LeaseRecord{MAC: "52:54:00:00:00:" + mac, IP: netip.MustParseAddr("10.0.0." + ip), Expires: expires}
	}
	bad := fmt.Sprintf(`{"ip":"10.0.0.9","until":%d,"bad":true}`, at(5))
	for name, tc := range map[string]struct {
		file  []string // nil for none
		seeds []LeaseRecord
		want  []string
	}{
		"no file":             {nil, []LeaseRecord{lease("01", "1", now.Add(time.Hour))}, []string{line("01", "1", at(60))}},
		"no file, no leases":  {nil, nil, nil},
		"no lease of it":      {[]string{line("02", "2", at(5))}, []LeaseRecord{lease("01", "1", now.Add(time.Hour))}, []string{line("02", "2", at(5)), line("01", "1", at(60))}},
		"a shorter one":       {[]string{line("01", "1", at(5))}, []LeaseRecord{lease("01", "1", now.Add(time.Hour))}, []string{line("01", "1", at(60))}},
		"a longer one":        {[]string{line("01", "1", at(60))}, []LeaseRecord{lease("01", "1", now.Add(time.Minute))}, []string{line("01", "1", at(60))}},
		"one given back":      {[]string{line("01", "1", at(60)), line("01", "1", 0)}, []LeaseRecord{lease("01", "1", now.Add(time.Minute))}, []string{line("01", "1", at(1))}},
		"an expired one":      {[]string{line("02", "1", at(-5))}, []LeaseRecord{lease("01", "1", now.Add(time.Minute))}, []string{line("01", "1", at(1))}},
		"expired seeds":       {[]string{line("02", "2", at(-5))}, []LeaseRecord{lease("01", "1", now), lease("03", "3", time.Time{})}, []string{line("02", "2", at(-5))}},
		"part of a second":    {nil, []LeaseRecord{lease("01", "1", now.Add(1))}, []string{line("01", "1", now.Unix()+1)}},
		"declined":            {[]string{bad, line("02", "2", at(4))}, []LeaseRecord{lease("01", "9", now.Add(time.Minute))}, []string{line("01", "9", at(1)), line("02", "2", at(4)), bad}},
		"garbage and torn":    {[]string{"garbage", strings.Repeat("x", 1<<17), line("02", "2", at(5)), `{"mac`}, []LeaseRecord{lease("01", "1", now.Add(time.Hour))}, []string{line("02", "2", at(5)), line("01", "1", at(60))}},
		"twice among them":    {nil, []LeaseRecord{lease("01", "1", now.Add(time.Hour)), lease("01", "1", now.Add(time.Minute))}, []string{line("01", "1", at(60))}},
		"newer, another's":    {[]string{line("02", "1", at(5))}, []LeaseRecord{lease("01", "1", now.Add(time.Hour))}, []string{line("01", "1", at(60))}},
		"older, another's":    {[]string{line("02", "1", at(5))}, []LeaseRecord{lease("01", "1", now.Add(5*time.Minute))}, []string{line("02", "1", at(5))}},
		"newer, elsewhere":    {[]string{line("01", "2", at(5))}, []LeaseRecord{lease("01", "1", now.Add(time.Hour))}, []string{line("01", "2", at(5)), line("01", "1", at(60))}},
		"older, elsewhere":    {[]string{line("01", "2", at(5))}, []LeaseRecord{lease("01", "1", now.Add(time.Minute))}, []string{line("01", "1", at(1)), line("01", "2", at(5))}},
		"in capitals":         {nil, []LeaseRecord{{MAC: "52:54:00:AA:BB:CC", IP: netip.MustParseAddr("10.0.0.1"), Expires: now.Add(time.Hour)}}, []string{fmt.Sprintf(`{"mac":"52:54:00:aa:bb:cc","ip":"10.0.0.1","until":%d}`, at(60))}},
		"of 16 bytes, a GUID": {nil, []LeaseRecord{{MAC: "00" + strings.Repeat(":01", 15), IP: netip.MustParseAddr("10.0.0.1"), Expires: now.Add(time.Hour)}}, []string{fmt.Sprintf(`{"mac":"00%s","ip":"10.0.0.1","until":%d}`, strings.Repeat(":01", 15), at(60))}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "new", "leases")
			if tc.file != nil {
				content := strings.Join(tc.file, "\n")
				if !strings.HasSuffix(content, "{\"mac") { // that one is torn
					content += "\n"
				}
				writeFile(t, path, content)
			}
			if err := seedLeaseFile(path, tc.seeds, now); err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
			if len(content) == 0 {
				got = nil
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the file (-want +got):\n%s", diff)
			}
			if left, _ := filepath.Glob(path + ".new-*"); len(left) != 0 {
				t.Errorf("files left over: %v", left)
			}
		})
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestMalformedRecordsAddNothing(t *testing.T) {
	t.Parallel()
	later := time.Now().Add(time.Hour)
	ip := netip.MustParseAddr("10.0.0.1")
	good := LeaseRecord{MAC: testMAC, IP: ip, Expires: later}
	path := filepath.Join(t.TempDir(), "leases")
	const before = `{"mac":"52:54:00:12:34:57","ip":"10.0.0.100","until":1796040000}` + "\n"
	writeFile(t, path, before)
	for want, l := range map[string]LeaseRecord{
		`"node-1" is malformed`:          {MAC: "node-1", IP: ip, Expires: later},
		`"" is malformed`:                {IP: ip, Expires: later},
		"is too long":                    {MAC: "00" + strings.Repeat(":01", 16), IP: ip, Expires: later},
		"of ::1 for " + testMAC:          {MAC: testMAC, IP: netip.IPv6Loopback(), Expires: later},
		"of invalid IP for " + testMAC:   {MAC: testMAC, Expires: later},
		"of ::ffff:10.0.0.2 for 52:54:0": {MAC: testMAC, IP: netip.MustParseAddr("::ffff:10.0.0.2"), Expires: later},
	} {
		err := SeedLeaseFile(path, []LeaseRecord{good, l})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "nothing was added") {
			t.Errorf("%+v: error %v, want one with %q", l, err, want)
		}
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != before {
		t.Errorf("the file is now %q (%v)", content, err)
	}
}

func TestSeedingIsRefusedWhileAServerHasTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "leases")
	r, _, stop := serveRelay(t, func(o *Options) { o.LeaseFile = path })
	r.lease(testMAC)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seeds := []LeaseRecord{{MAC: otherMAC, IP: netip.MustParseAddr("127.10.1.9"), Expires: time.Now().Add(time.Hour)}}
	if err := SeedLeaseFile(path, seeds); err == nil || !strings.Contains(err.Error(), "another server uses it") {
		t.Errorf("error %v, want one that says so", err)
	}
	after, err := os.ReadFile(path)
	if err != nil || string(after) != string(before) {
		t.Errorf("the file is now %q (%v)", after, err)
	}
	stop()
	if err := SeedLeaseFile(path, seeds); err != nil {
		t.Errorf("after the end of the server: %v", err)
	}
	_, s, _ := serveRelay(t, func(o *Options) { o.LeaseFile = path }) // the lock was let go
	if got := s.Leases(); len(got) != 2 {
		t.Errorf("leases %v", got)
	}
}

func TestSeededLeasesOfOtherNetworksAreIgnored(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "leases")
	seeds := []LeaseRecord{
		{MAC: testMAC, IP: netip.MustParseAddr("192.0.2.1"), Expires: time.Now().Add(time.Hour)},
		{MAC: testMAC, IP: netip.MustParseAddr("127.10.1.9"), Expires: time.Now().Add(time.Minute)},
		{MAC: testMAC, IP: netip.MustParseAddr("127.20.1.9"), Expires: time.Now().Add(2 * time.Minute)},
	}
	if err := SeedLeaseFile(path, seeds); err != nil {
		t.Fatal(err)
	}
	r, s, _ := serveRelay(t, func(o *Options) { o.LeaseFile = path })
	if got := s.Leases(); len(got) != 2 { // one in each subnet that is served
		t.Errorf("leases %v", got)
	}
	if got := r.lease(testMAC); got != "127.10.1.9" {
		t.Errorf("leased %s", got)
	}
}

// Property: whatever the file and the seeds hold, an address that one of them says
// is in use is in use as long in the result, and once more adds nothing.
func TestSeedingNeverShortensALease(t *testing.T) {
	t.Parallel()
	subnets := make([]Subnet, 4) // of one address each, so that leases of one client are independent
	for i := range subnets {
		subnets[i].CIDR = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(4 * i)}), 30)
	}
	read := func(records []record) *table {
		table := newTable(subnets, nil)
		table.restore(records)
		return table
	}
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 2))
		present, seeds := randomRecords(random), randomRecords(random)
		seeds = slices.DeleteFunc(seeds, func(r record) bool { return r.Bad || r.Until == 0 })
		merged, changed := merge(present, seeds)
		if changed && len(seeds) == 0 {
			t.Fatalf("seed %d: no seeds change the file", seed)
		}
		before, after := read(present), read(merged)
		for ip, b := range before.byIP {
			if now := after.byIP[ip]; now == nil || now.until.Before(b.until) || now.until.Equal(b.until) && now.key != b.key {
				t.Fatalf("seed %d: the lease %+v is now %+v", seed, b, now)
			}
		}
		for _, r := range seeds {
			if now := after.byIP[r.IP]; now == nil || now.until.Unix() < r.Until {
				t.Fatalf("seed %d: the seed %+v is now %+v", seed, r, now)
			}
		}
		if diff := cmp.Diff(before.bad, after.bad); diff != "" || len(after.byIP) > len(subnets) {
			t.Fatalf("seed %d: declined addresses (-before +after):\n%s", seed, diff)
		}
		if again, more := merge(merged, seeds); more || !slices.Equal(again, merged) {
			t.Fatalf("seed %d: once more gives %+v after %+v", seed, again, merged)
		}
	}
}

func randomRecords(random *rand.Rand) []record {
	records := make([]record, random.IntN(12))
	for i := range records {
		r := &records[i]
		r.IP = netip.AddrFrom4([4]byte{10, 0, 0, byte(4*random.IntN(4) + 1)})
		r.Until = int64(random.IntN(5))
		if r.Bad = random.IntN(6) == 0; !r.Bad {
			r.MAC = string([]byte{2, 0, 0, 0, 0, byte(random.IntN(4))})
		}
	}
	return records
}
