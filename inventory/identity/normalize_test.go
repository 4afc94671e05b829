package identity_test

import (
	"strings"
	"testing"

	"github.com/talos-provision/provision/inventory/identity"
)

func TestNormalize(t *testing.T) {
	t.Parallel()
	const bothOrders = "005cb4e7-0989-eb11-8000-7cc255000001"
	functions := map[string]struct {
		normalize func(string) string
		values    map[string]string
	}{
		"serial": {identity.NormalizeSerial, map[string]string{
			"abc123":                    "ABC123",
			"  ABC123\x00\x00 ":         "ABC123",
			"VMware-56  4d":             "VMWARE-56 4D",
			"0123":                      "0123",
			"1e5":                       "1E5",
			"PWAMT%%LM/B N03P  ":        "PWAMT%%LM/B N03P",
			"":                          "",
			"          ":                "",
			"\xff\xff\xff":              "",
			"To be filled by O.E.M.":    "",
			"To Be Filled By O.E.M":     "",
			"0123456789":                "",
			"1234567890":                "",
			"Default string":            "",
			"None":                      "",
			"N/A":                       "",
			"NA":                        "",
			"Not Specified":             "",
			"System Serial Number":      "",
			"Base Board Serial Number":  "",
			"00000000":                  "",
			"0000000000000000000000000": "",
			"FFFFFFFF":                  "",
			"xxxxxxx":                   "",
			".......":                   "",
			"REDACTED":                  "",
			strings.Repeat("A1", 129):   "",
		}},
		"UUID": {identity.NormalizeUUID, map[string]string{
			"005CB4E7-0989-EB11-8000-7CC255000001":          bothOrders,
			"e7b45c00-8909-11eb-8000-7cc255000001":          bothOrders,
			"{E7B45C00-8909-11EB-8000-7CC255000001}":        bothOrders,
			"urn:uuid:e7b45c00-8909-11eb-8000-7cc255000001": bothOrders,
			"e7b45c00890911eb80007cc255000001 ":             bothOrders,
			"00000000-0000-0000-0000-0cc47a000001":          "00000000-0000-0000-0000-0cc47a000001",
			"00000000-0000-0000-0000-000000000000":          "",
			"FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF":          "",
			"03000200-0400-0500-0006-000700080009":          "",
			"00020003-0004-0005-0006-000700080009":          "",
			"12345678-1234-5678-90ab-cddeefaabbcc":          "",
			"78563412-3412-7856-90AB-CDDEEFAABBCC":          "",
			"4C4C4544-0000-2010-8020-80C04F202020":          "",
			"not a uuid":                                    "",
			"e7b45c00-8909-11eb-8000-7cc25500000":           "",
		}},
		"MAC": {identity.NormalizeMAC, map[string]string{
			"52:54:00:AA:BB:01":       "52:54:00:aa:bb:01",
			"52-54-00-aa-bb-01":       "52:54:00:aa:bb:01",
			"5254.00aa.bb01":          "52:54:00:aa:bb:01",
			"525400AABB01\x00":        "52:54:00:aa:bb:01",
			"00:00:00:00:00:00":       "",
			"ff:ff:ff:ff:ff:ff":       "",
			"01:00:5e:00:00:01":       "",
			"52:54:00:aa:bb":          "",
			"52:54:00:aa:bb:01:02:03": "",
			"52:54:00:aa:bb:zz":       "",
		}},
	}
	for name, f := range functions {
		for value, want := range f.values {
			if got := f.normalize(value); got != want {
				t.Errorf("%s %q: got %q, want %q", name, value, got, want)
			}
		}
	}
}

func FuzzNormalize(f *testing.F) {
	for _, s := range []string{
		"", "ABC", ".ABC1234.CN0000000A0001.01a.", "/F54P1G3/CN1/", "To be filled by O.E.M.", "\xff\x00 ǆ ﬁ",
		"e7b45c00-8909-11eb-8000-7cc255000001", "{}", "52:54:00:aa:bb:01", "5254.00aa.bb01",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for name, normalize := range map[string]func(string) string{
			"serial": identity.NormalizeSerial, "UUID": identity.NormalizeUUID, "MAC": identity.NormalizeMAC,
		} {
			once := normalize(s)
			if twice := normalize(once); twice != once {
				t.Errorf("%s %q becomes %q and then %q", name, s, once, twice)
			}
			if padded := normalize(" " + s + "\x00 "); padded != once {
				t.Errorf("%s %q becomes %q, with padding %q", name, s, once, padded)
			}
		}
		if identity.IsPlaceholder(s) && identity.NormalizeSerial(s) != "" {
			t.Errorf("placeholder %q identifies as %q", s, identity.NormalizeSerial(s))
		}
		machine := identity.Facts{Serial: s, BoardSerial: s, ChassisSerial: s, UUID: s, MACs: []string{s}}
		usable := identity.NormalizeSerial(s)+identity.NormalizeUUID(s)+identity.NormalizeMAC(s) != ""
		v := identity.NewIndex([]identity.Candidate{{Name: "n1", Facts: []identity.Facts{machine}}}).Match(machine)
		if matched := v.Outcome == identity.Match; matched != usable {
			t.Errorf("%q usable %t, but a machine compared with itself gives %+v", s, usable, v)
		}
	})
}
