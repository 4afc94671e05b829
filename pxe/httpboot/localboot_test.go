package httpboot

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestP11EveryNodeIsSentToItsDiskInItsOwnWay walks the table over HTTP.
func TestP11EveryNodeIsSentToItsDiskInItsOwnWay(t *testing.T) {
	t.Parallel()
	const sanboot = "sanboot --no-describe --drive 0x80 || exit 1"
	last := func(s string) [2]string { return [2]string{s, s} }
	for method, want := range map[string][2]string{ // efi, pcbios
		"":         {"exit 1", "sanboot --no-describe --drive 0x80 || exit"},
		"auto":     {"exit 1", "sanboot --no-describe --drive 0x80 || exit"},
		"exit1":    last("exit 1"),
		"exit0":    last("exit 0"),
		"sanboot":  last(sanboot),
		"poweroff": last("poweroff || exit 1"),
		"http404":  last(""),
		"unheard":  {"exit 1", "sanboot --no-describe --drive 0x80 || exit"},
	} {
		told := make(chan Answer, 2)
		c := dial(t, start(t, Options{
			Director: director{"A1": {Node: "node-01", LocalBoot: method, Reason: "not armed"}},
			OnScript: func(_ Request, a Answer) { told <- a },
		}))
		for i, platform := range []string{"efi", "pcbios"} {
			got := c.do("GET /boot.ipxe?serial=A1&platform=" + platform)
			if (<-told).Node != "node-01" {
				t.Errorf("%s: the request is not told", method)
			}
			if method == LocalBootHTTP404 {
				if got.status != "404 Not Found" || strings.Contains(got.body, "#!ipxe") {
					t.Errorf("http404: %s\n%s", got.status, got.body)
				}
				continue
			}
			lines := strings.Split(strings.TrimSuffix(got.body, "\n"), "\n")
			if got.status != "200 OK" || lines[0] != "#!ipxe" || lines[len(lines)-1] != want[i] {
				t.Errorf("%q on %s: %s\n%s\nwant it to end in %q", method, platform, got.status, got.body, want[i])
			}
		}
	}
}

func TestLocalBootMethodsAreChecked(t *testing.T) {
	t.Parallel()
	want := []string{"auto", "exit0", "exit1", "http404", "poweroff", "sanboot"}
	if diff := cmp.Diff(want, LocalBootMethods()); diff != "" {
		t.Error(diff)
	}
	for _, method := range append(want, "") {
		if err := CheckLocalBoot(method); err != nil {
			t.Error(err)
		}
	}
	if err := CheckLocalBoot("exit"); err == nil || !strings.Contains(err.Error(), "auto, exit0, exit1") {
		t.Errorf("error is %v", err)
	}
}
