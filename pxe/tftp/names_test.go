package tftp

import (
	"strings"
	"testing"
	"unicode"

	"github.com/talos-provision/provision/pxe/bootfile"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	cases := map[string]string{ // requested -> name; empty: not served
		"snponly.efi":   "snponly.efi",
		"snp.efi":       "snp.efi",
		"undionly.kpxe": "undionly.kpxe",
		"ipxe.pxe":      "ipxe.pxe",
		"/snponly.efi":  "snponly.efi",
		"//snponly.efi": "snponly.efi",
		// ipxe PR#31, puppet-tftp#1
		`\snponly.efi`: "snponly.efi",
		"SNPONLY.EFI":  "snponly.efi",
		// netboot.xyz#1198, bootimus#117: the next DHCP option follows the name
		"snponly.efi\xff":         "snponly.efi",
		"undionly.kpxea\x11":      "undionly.kpxe",
		"undionly.kpxe\x00junk":   "undionly.kpxe",
		"ipxe-arm64.efi\xff\x00":  "ipxe-arm64.efi",
		"snponly.efi\n../secrets": "snponly.efi",
		// tinkerbell#453, smee#537: a MAC before the name
		"52:54:00:12:34:56/snponly.efi":  "snponly.efi",
		"52-54-00-12-34-56/ipxe.efi":     "ipxe.efi",
		"/52:54:00:12:34:56/snp.efi\xff": "snp.efi",
		// P10
		"autoexec.ipxe":                   "autoexec.ipxe",
		"/autoexec.ipxe":                  "autoexec.ipxe",
		"x/y/autoexec.ipxe":               "autoexec.ipxe",
		`\boot\autoexec.ipxe`:             "autoexec.ipxe",
		"52:54:00:12:34:56/autoexec.ipxe": "autoexec.ipxe",
		"./a/../snponly.efi":              "snponly.efi",

		"":                               "",
		"/":                              "",
		".":                              "",
		"..":                             "",
		"\x00snponly.efi":                "",
		"../snponly.efi":                 "",
		"../../etc/passwd":               "",
		`..\..\etc\passwd`:               "",
		"snponly.efi/../../etc/passwd":   "",
		"/../autoexec.ipxe":              "",
		"etc/passwd":                     "",
		"somewhere/snponly.efi":          "",
		"52:54:00:12:34:56/x/snp.efi":    "",
		"snponly.efi/passwd":             "",
		"pxelinux.0":                     "",
		"snponly":                        "",
		strings.Repeat("a", 10_000):      "",
		"autoexec.ipxe/x":                "",
		"%2e%2e/snponly.efi":             "",
		"ſnponly.efi":                    "", // U+017F folds to s
		"52:54:00:12:34:56/../../passwd": "",
	}
	for requested, want := range cases {
		got, ok := resolve(requested)
		if got != want || ok != (want != "") {
			t.Errorf("resolve(%q) = %q, %v; want %q", requested, got, ok, want)
		}
	}
}

func FuzzResolve(f *testing.F) {
	for _, s := range []string{"snponly.efi", "undionly.kpxea\x11", `\..\x`, "a/autoexec.ipxe", "52:54:00:12:34:56/snp.efi", "\xff", "ipxe.efi/../../../etc/passwd"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, requested string) {
		name, ok := resolve(requested)
		if ok && !bootfile.Known(name) && name != bootfile.Autoexec || !ok && name != "" {
			t.Errorf("resolve(%q) = %q, %v: not of the table", requested, name, ok)
		}
		cleaned, ok := cleanName(requested)
		if ok && (strings.HasPrefix(cleaned, "/") || strings.Contains("/"+cleaned+"/", "/../")) {
			t.Errorf("cleanName(%q) = %q leaves the root", requested, cleaned)
		}
		for _, r := range cleaned {
			if r > unicode.MaxASCII || !unicode.IsPrint(r) {
				t.Errorf("cleanName(%q) = %q holds %q", requested, cleaned, r)
			}
		}
		if again, ok := cleanName(cleaned); cleaned != "" && (!ok || again != cleaned) {
			t.Errorf("cleanName is not stable: %q becomes %q", cleaned, again)
		}
	})
}
