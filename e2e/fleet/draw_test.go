package fleet

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDelaysAreReadAndWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Delay{
		"2s": Fixed(2 * time.Second), "0s": {}, "uniform:1s-3s": Uniform(time.Second, 3*time.Second), "normal:2s,500ms": Normal(2*time.Second, 500*time.Millisecond),
	} {
		var got Delay
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s = %+v, %v, want %+v", text, got, err, want)
		}
		if again, _ := got.MarshalText(); string(again) != text {
			t.Errorf("%s is written as %s", text, again)
		}
	}
	for text, want := range map[string]string{
		"": "invalid duration", "x": "invalid duration", "-1s": "below 0", "poisson:1s": "want a time", "uniform:1s": "two times",
		"uniform:3s-1s": "shorter", "normal:1s": "two times", "normal:1s,-1s": "below 0", "uniform:1s-2s-3s": "two times",
	} {
		if err := new(Delay).UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func TestDelaysAreDrawnFromTheirDistributions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		delay           Delay
		mean, deviation float64 // seconds
		least, most     time.Duration
	}{
		{Fixed(2 * time.Second), 2, 0, 2 * time.Second, 2 * time.Second},
		{Uniform(time.Second, 3*time.Second), 2, 2 / math.Sqrt(12), time.Second, 3 * time.Second},
		{Normal(10*time.Second, time.Second), 10, 1, 0, time.Minute},
		{Normal(0, time.Second), 1 / math.Sqrt(2*math.Pi), math.Sqrt(0.5 - 1/(2*math.Pi)), 0, time.Minute},
	} {
		const n = 20000
		r := rand.New(rand.NewPCG(1, 2))
		sum, squares := 0.0, 0.0
		for range n {
			d := tt.delay.Draw(r)
			if d < tt.least || d > tt.most {
				t.Fatalf("%+v gave %s, want %s to %s", tt.delay, d, tt.least, tt.most)
			}
			sum += d.Seconds()
			squares += d.Seconds() * d.Seconds()
		}
		mean := sum / n
		deviation := math.Sqrt(max(0, squares/n-mean*mean))
		if math.Abs(mean-tt.mean) > 0.05 || math.Abs(deviation-tt.deviation) > 0.05 {
			t.Errorf("%+v: mean %.3f, deviation %.3f, want %.3f and %.3f", tt.delay, mean, deviation, tt.mean, tt.deviation)
		}
	}
}

func TestRatesAreRead(t *testing.T) {
	t.Parallel()
	got, err := ParseRates("bmc-auth=0.01, packet-loss=0.05:0.2,slow-download=1:64")
	want := Rates{BMCAuth: {Share: 0.01}, PacketLoss: {0.05, 0.2}, SlowDownload: {1, 64}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	for text, want := range map[string]string{
		"":                                "want the form",
		"bmc-auth":                        "want the form",
		"bmc-auth=1,bmc-auth=1":           "given twice",
		"bmc-auth=x":                      "no number from 0 to 1",
		"bmc-auth=1.5":                    "no number from 0 to 1",
		"bmc-auth=-1":                     "no number from 0 to 1",
		"bmc-auth=NaN":                    "no number from 0 to 1",
		"gremlins=0.1":                    "there are stranger, not-in-plan",
		"bmc-down=0.1:3":                  "has no strength",
		"packet-loss=0.1:0.9":             "at most 0.5",
		"packet-loss=0.1:0":               "no number above 0",
		"packet-loss=0.1:NaN":             "no number above 0",
		"bmc-auth=0.6,never-returns=0.6":  "more than 1",
		"packet-loss=0.6,slow-post=0.6":   "one of packet-loss, slow-post at most",
		"bmc-503=0.1:0.2,bmc-503=0.1:0.2": "given twice",
	} {
		if _, err := ParseRates(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func FuzzRates(f *testing.F) {
	f.Add("bmc-auth=0.01,packet-loss=0.05:0.2")
	f.Add("slow-download=1:1e309,a=b=c,")
	f.Fuzz(func(t *testing.T, text string) {
		rates, err := ParseRates(text)
		if err != nil {
			return
		}
		if err := rates.check(); err != nil {
			t.Errorf("%q was taken, and is wrong: %v", text, err)
		}
	})
}

func TestVendorsAreRead(t *testing.T) {
	t.Parallel()
	mix, err := ParseVendors("supermicro:4,dell")
	if err != nil || len(mix) != 2 || mix[0].Profile.Name != "supermicro" || mix[0].Weight != 4 || mix[1].Profile.Name != "dell" || mix[1].Weight != 1 {
		t.Errorf("mix = %+v, %v", mix, err)
	}
	for text, want := range map[string]string{"acme:1": "there are generic, supermicro", "dell:0": "no number from 1", "dell:x": "no number from 1"} {
		if _, err := ParseVendors(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

// everything is a fleet with all that there is to draw.
func everything(seed uint64, nodes int) Config {
	mix, _ := ParseVendors("supermicro:4,dell:3,hpe:2,lenovo:1")
	rates := Rates{}
	for _, k := range kinds {
		rates[k.name] = Rate{Share: 0.05}
	}
	return Config{
		Seed: seed, Nodes: nodes, Vendors: mix, Faults: rates,
		Delays: Delays{POST: Uniform(0, time.Second), KernelTime: Normal(time.Second, time.Second), PowerLag: Uniform(0, time.Second)},
	}
}

func describe(t *testing.T, c Config) Oracle {
	t.Helper()
	o, err := Describe(c)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestOneSeedIsOneFleet(t *testing.T) {
	t.Parallel()
	const nodes = 2000
	first := describe(t, everything(7, nodes))
	if diff := cmp.Diff(first, describe(t, everything(7, nodes)), addresses); diff != "" {
		t.Errorf("a second fleet of the same seed differs:\n%s", diff)
	}
	if cmp.Equal(first.Machines, describe(t, everything(8, nodes)).Machines, addresses) {
		t.Error("another seed makes the same fleet")
	}
	// Machines do not depend on how many there are behind them, but for the last, which may be a twin.
	if diff := cmp.Diff(first.Machines[:999], describe(t, everything(7, 1000)).Machines[:999], addresses); diff != "" {
		t.Errorf("in a smaller fleet the first machines differ:\n%s", diff)
	}
}

func TestTenThousandMachinesHaveTheFaultsOfTheirRates(t *testing.T) {
	t.Parallel()
	const nodes = 10000
	start := time.Now()
	o := describe(t, everything(1, nodes))
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("describing them took %s", took)
	}
	faults, vendors := map[Fault]int{}, map[string]int{}
	serials := map[int]map[string]bool{}
	for _, m := range o.Machines {
		vendors[m.Vendor]++
		if serials[m.Chassis] == nil {
			serials[m.Chassis] = map[string]bool{}
		}
		serials[m.Chassis][m.Vendor] = true
		for _, f := range m.Faults {
			faults[f]++
		}
		if hopeless(m.Faults) && len(m.Faults) > 1 {
			t.Errorf("%s has %v: one that is for good excludes all others", m.Name, m.Faults)
		}
		if m.InPlan != !slices.Contains(m.Faults, Stranger) && !slices.Contains(m.Faults, NotInPlan) {
			t.Errorf("%s: in plan %t with faults %v", m.Name, m.InPlan, m.Faults)
		}
	}
	for chassis, of := range serials {
		if len(of) != 1 {
			t.Errorf("chassis %d is of %d vendors", chassis, len(of))
		}
	}
	for _, k := range kinds {
		want := nodes * 5 / 100
		if k.group != forGood { // only what is not there for good
			want = want * 38 / 100
		}
		if k.name == DuplicateSerial { // two at a time
			want *= 2
		}
		if n := faults[k.name]; n < want*3/4 || n > want*5/4 {
			t.Errorf("%d machines have %s, want some %d", n, k.name, want)
		}
	}
	for name, weight := range map[string]int{"supermicro": 4, "dell": 3, "hpe": 2, "lenovo": 1} {
		if n := vendors[name]; n < weight*900 || n > weight*1100 {
			t.Errorf("%d machines are of %s, want some %d", n, name, weight*1000)
		}
	}
}

func TestFaultsThatDoNotGoTogetherWithTheFleetAreRefused(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{
		"one cluster without": {Clusters: []Cluster{{Name: "a", ControlPlanes: 1}}, Faults: Rates{BMCDown: {Share: 0.1}}},
		"two attempts":        {Attempts: 1, Faults: Rates{SlowPOST: {Share: 0.1}}},
		"half the boot":       {ImageSize: 100 << 20, Faults: Rates{SlowDownload: {Share: 0.1}}},
		"not known":           {Faults: Rates{"gremlins": {Share: 0.1}}},
		"1 to 10000":          {Nodes: 10001},
		"1 or more":           {Attempts: -1},
	} {
		if _, err := Describe(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestTimesInTheConfigurationAreShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		2 * time.Minute: "2m", 40 * time.Second: "40s", time.Hour: "1h", 90 * time.Second: "1m30s", 10 * time.Minute: "10m", time.Hour + time.Second: "1h0m1s",
	} {
		if got := short(d); got != want {
			t.Errorf("%s = %s, want %s", d, got, want)
		}
	}
}
