package doctor

import (
	"context"
	"crypto/sha256"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheFactoryIsAsked(t *testing.T) {
	t.Parallel()
	status := func(code int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		t.Cleanup(s.Close)
		return s.URL
	}
	full := t.TempDir()
	if err := os.Mkdir(filepath.Join(full, "image"), 0o700); err != nil {
		t.Fatal(err)
	}
	gone := "http://" + closedPort(t)
	for name, tc := range map[string]struct {
		factory, cache string
		want           Result
		says           string
	}{
		"there":                       {status(200), "", OK, "reachable"},
		"knows no such page":          {status(404), "", OK, "reachable"},
		"ill":                         {status(503), t.TempDir(), Fail, "503"},
		"gone":                        {gone, t.TempDir(), Fail, "connection refused"},
		"gone, but images are cached": {gone, full, Warn, "in the cache"},
		"no URL":                      {"http://a b", "", Fail, "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := checkFactory(t.Context(), newHost(Options{Factory: tc.factory, Cache: tc.cache}))
			sound(t, found)
			if len(found) != 1 || found[0].Result != tc.want || !strings.Contains(found[0].Message, tc.says) {
				t.Errorf("found %+v, want %s: %s", found, tc.want, tc.says)
			}
		})
	}
}

// closedPort is an address of loopback where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func TestEveryBMCIsReachedAndItsCertificateJudged(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 100)
	bmc := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		w.Header().Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
	}))
	t.Cleanup(bmc.Close)
	bare := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(bare.Close)
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: bmc.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	pin := sha256.Sum256(bmc.Certificate().RawSubjectPublicKeyInfo)
	host := strings.TrimPrefix(bmc.URL, "https://")
	for name, tc := range map[string]struct {
		bmc  BMC
		says string // empty: it is well
	}{
		"its authority is known":     {BMC{Address: bmc.URL, CAFile: caFile}, ""},
		"without a scheme":           {BMC{Address: host, CAFile: caFile}, ""},
		"insecure":                   {BMC{Address: bmc.URL, Insecure: true}, ""},
		"pinned":                     {BMC{Address: bmc.URL, Fingerprint: pin[:]}, ""},
		"plain HTTP, as asked":       {BMC{Address: bare.URL}, ""},
		"pinned to another":          {BMC{Address: bmc.URL, Fingerprint: make([]byte, 32)}, "bmc.fingerprint says another"},
		"nobody vouches for it":      {BMC{Address: bmc.URL}, "not trusted"},
		"no file of the authority":   {BMC{Address: bmc.URL, CAFile: caFile + "x"}, "not trusted"},
		"no TLS there":               {BMC{Address: strings.Replace(bare.URL, "http:", "https:", 1), Insecure: true}, "no TLS"},
		"nobody listens":             {BMC{Address: closedPort(t)}, "connection refused"},
		"an address with a password": {BMC{Address: "https://root:calvin@127.0.0.1"}, "not of the form"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.bmc.Node = "c/n"
			found := checkBMCs(t.Context(), newHost(Options{BMCs: []BMC{tc.bmc, tc.bmc}}))
			sound(t, found)
			switch {
			case tc.says == "" && (len(found) != 1 || found[0].Message != "1 of 1 BMCs can be reached over TLS"):
				t.Errorf("found %+v", found)
			case tc.says != "" && (len(found) != 2 || found[1].Result != Fail || !strings.Contains(found[1].Message, tc.says)):
				t.Errorf("found %+v, want: %s", found, tc.says)
			}
			for _, f := range found {
				if strings.Contains(f.Message+f.Hint, "calvin") {
					t.Errorf("I9: the password is told: %+v", f)
				}
			}
		})
	}
	t.Run("no BMCs", func(t *testing.T) {
		t.Parallel()
		if found := checkBMCs(t.Context(), newHost(Options{})); len(found) != 0 {
			t.Errorf("found %+v", found)
		}
	})
	t.Run("its clock is read", func(t *testing.T) {
		t.Parallel()
		h := newHost(Options{BMCs: []BMC{{Node: "c/n", Address: bmc.URL, Insecure: true}}})
		checkBMCs(t.Context(), h)
		if path := <-asked; path != "/redfish/v1/" {
			t.Errorf("asked for %s", path)
		}
		if found := checkClock(h); found[0].Result != Warn || !strings.Contains(found[0].Message, "the BMC of c/n is 1h") && !strings.Contains(found[0].Message, "59m59s") {
			t.Errorf("clock: %+v", found)
		}
	})
}

// A BMC that takes the connection and says nothing must not hold the doctor up.
func TestASilentBMCIsGivenUp(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	h := newHost(Options{ConnectTime: 100 * time.Millisecond, BMCs: []BMC{{Node: "c/n", Address: l.Addr().String(), Insecure: true}}})
	found := checkBMCs(ctx, h)
	if len(found) != 2 || found[1].Result != Fail || ctx.Err() != nil {
		t.Errorf("found %+v", found)
	}
}
